from . import lightning as lightning
from . import torchtitan as torchtitan
from . import transformers as transformers
