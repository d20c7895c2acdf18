from .directory import Directory as Directory
from .splits import Split as Split
from .splits import even_splits as even_splits
