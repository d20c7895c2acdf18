from .rearrange import merge, reshard, split, subset
from .recompress import compress, decompress
from .report import Result, Watcher
from .shuffling import shuffle

__all__ = [
    "Result",
    "Watcher",
    "compress",
    "decompress",
    "merge",
    "reshard",
    "shuffle",
    "split",
    "subset",
]
