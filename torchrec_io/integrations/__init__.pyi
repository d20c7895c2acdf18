from . import lightning as lightning
