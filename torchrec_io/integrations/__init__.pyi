from . import lightning as lightning
from . import transformers as transformers
