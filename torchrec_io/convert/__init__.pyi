from .conversion import Options
from .csv_import import from_csv
from .file_export import to_files
from .image_import import from_images
from .jsonl_import import from_jsonl
from .npz_import import from_npz
from .parquet_export import to_parquet
from .parquet_import import from_parquet
from .webdataset_export import to_webdataset

__all__ = [
    "Options",
    "from_csv",
    "from_images",
    "from_jsonl",
    "from_npz",
    "from_parquet",
    "to_files",
    "to_parquet",
    "to_webdataset",
]
