"""TFRecord data for PyTorch training: indexed, sharded, decoded natively, without TensorFlow.

    loader = DataLoader(TFRecordDataset(paths, schema, batch_size=256), batch_size=None)

Names are imported on first use, so that what does not need torch starts without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import presets as presets
    from .convert.csv import convert_csv
    from .convert.folder_out import to_files
    from .convert.images import convert_images
    from .convert.jsonl import convert_jsonl
    from .convert.npz import convert_npz
    from .convert.outputs import Written
    from .convert.parquet import convert_parquet
    from .convert.parquet_out import to_parquet
    from .convert.rearrange import merge_files, reshard_files, split_files, subset_files
    from .convert.recompress import compress_files, decompress_files
    from .convert.shuffling import shuffle_files
    from .convert.target import Conversion
    from .convert.webdataset import to_webdataset
    from .dataset import TFRecordDataset
    from .errors import (
        ConversionError,
        CorruptRecordError,
        DecodeError,
        IndexFormatError,
        SchemaError,
        StaleIndexError,
        StateMismatchError,
        TorchRecIOError,
        TruncatedFileError,
        WrongShardError,
    )
    from .features.crops import Crop, RandomCrop, RandomResizedCrop
    from .features.csv_schema import CsvSchema
    from .features.encode import (
        encode_example,
        encode_examples,
        encode_sequence_example,
        encode_sequence_examples,
    )
    from .features.example_lists import ExampleListSchema, encode_example_list
    from .features.images import ImageFeature
    from .features.schema import Schema
    from .features.specs import (
        FixedLenFeature,
        FixedLenSequenceFeature,
        RaggedFeature,
        SparseFeature,
        VarLenFeature,
    )
    from .features.stored_specs import RawFeature, SequenceFeature, SerializedTensorFeature
    from .features.tfds.directory import TfdsDirectory
    from .features.tfds.splits import TfdsSplit, even_splits
    from .format_datasets.fixed_length import FixedLengthRecordDataset
    from .format_datasets.record_files import RecordFileDataset
    from .format_datasets.text_lines import TextLineDataset
    from .format_datasets.whole_files import WholeFileDataset
    from .loader import make_loader
    from .map_dataset import TFRecordMapDataset
    from .messages import Example, SequenceExample
    from .mixing import mix
    from .order.shuffle import Shuffle
    from .records.formats import RecordFormat
    from .records.index import RecordIndex
    from .sharded import ShardedWriter, shard_path
    from .tensors.batch import Batch, Sample
    from .tensors.collate import collate, pad_collate, pin_collate
    from .tensors.device import DevicePrefetcher, pin_memory
    from .tensors.example_lists import parse_example_lists
    from .tensors.examples import (
        parse_example,
        parse_examples,
        parse_sequence_example,
        parse_sequence_examples,
    )
    from .tensors.ragged import (
        BytesArray,
        Ragged,
        Sparse,
    )
    from .writing import TFRecordWriter

_MODULE_OF = {
    "convert_csv": "convert.csv",
    "to_files": "convert.folder_out",
    "convert_images": "convert.images",
    "convert_jsonl": "convert.jsonl",
    "convert_npz": "convert.npz",
    "Written": "convert.outputs",
    "convert_parquet": "convert.parquet",
    "to_parquet": "convert.parquet_out",
    "compress_files": "convert.recompress",
    "decompress_files": "convert.recompress",
    "merge_files": "convert.rearrange",
    "reshard_files": "convert.rearrange",
    "split_files": "convert.rearrange",
    "subset_files": "convert.rearrange",
    "shuffle_files": "convert.shuffling",
    "Conversion": "convert.target",
    "to_webdataset": "convert.webdataset",
    "TFRecordDataset": "dataset",
    "ConversionError": "errors",
    "CorruptRecordError": "errors",
    "DecodeError": "errors",
    "IndexFormatError": "errors",
    "SchemaError": "errors",
    "StaleIndexError": "errors",
    "StateMismatchError": "errors",
    "TorchRecIOError": "errors",
    "TruncatedFileError": "errors",
    "WrongShardError": "errors",
    "Crop": "features.crops",
    "RandomCrop": "features.crops",
    "RandomResizedCrop": "features.crops",
    "CsvSchema": "features.csv_schema",
    "encode_example": "features.encode",
    "encode_examples": "features.encode",
    "encode_sequence_example": "features.encode",
    "encode_sequence_examples": "features.encode",
    "ExampleListSchema": "features.example_lists",
    "encode_example_list": "features.example_lists",
    "ImageFeature": "features.images",
    "Schema": "features.schema",
    "FixedLenFeature": "features.specs",
    "FixedLenSequenceFeature": "features.specs",
    "RaggedFeature": "features.specs",
    "SparseFeature": "features.specs",
    "VarLenFeature": "features.specs",
    "RawFeature": "features.stored_specs",
    "SequenceFeature": "features.stored_specs",
    "SerializedTensorFeature": "features.stored_specs",
    "TfdsDirectory": "features.tfds.directory",
    "TfdsSplit": "features.tfds.splits",
    "even_splits": "features.tfds.splits",
    "FixedLengthRecordDataset": "format_datasets.fixed_length",
    "RecordFileDataset": "format_datasets.record_files",
    "TextLineDataset": "format_datasets.text_lines",
    "WholeFileDataset": "format_datasets.whole_files",
    "make_loader": "loader",
    "TFRecordMapDataset": "map_dataset",
    "Example": "messages",
    "SequenceExample": "messages",
    "mix": "mixing",
    "Shuffle": "order.shuffle",
    "RecordFormat": "records.formats",
    "RecordIndex": "records.index",
    "ShardedWriter": "sharded",
    "shard_path": "sharded",
    "Batch": "tensors.batch",
    "Sample": "tensors.batch",
    "collate": "tensors.collate",
    "pad_collate": "tensors.collate",
    "pin_collate": "tensors.collate",
    "DevicePrefetcher": "tensors.device",
    "pin_memory": "tensors.device",
    "parse_example_lists": "tensors.example_lists",
    "parse_example": "tensors.examples",
    "parse_examples": "tensors.examples",
    "parse_sequence_example": "tensors.examples",
    "parse_sequence_examples": "tensors.examples",
    "BytesArray": "tensors.ragged",
    "Ragged": "tensors.ragged",
    "Sparse": "tensors.ragged",
    "TFRecordWriter": "writing",
}

__all__ = [
    "Batch",
    "BytesArray",
    "Conversion",
    "ConversionError",
    "CorruptRecordError",
    "Crop",
    "CsvSchema",
    "DecodeError",
    "DevicePrefetcher",
    "Example",
    "ExampleListSchema",
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "FixedLengthRecordDataset",
    "ImageFeature",
    "IndexFormatError",
    "Ragged",
    "RaggedFeature",
    "RandomCrop",
    "RandomResizedCrop",
    "RawFeature",
    "RecordFileDataset",
    "RecordFormat",
    "RecordIndex",
    "Sample",
    "Schema",
    "SchemaError",
    "SequenceExample",
    "SequenceFeature",
    "SerializedTensorFeature",
    "ShardedWriter",
    "Shuffle",
    "Sparse",
    "SparseFeature",
    "StaleIndexError",
    "StateMismatchError",
    "TFRecordDataset",
    "TFRecordMapDataset",
    "TFRecordWriter",
    "TextLineDataset",
    "TfdsDirectory",
    "TfdsSplit",
    "TorchRecIOError",
    "TruncatedFileError",
    "VarLenFeature",
    "WholeFileDataset",
    "Written",
    "WrongShardError",
    "collate",
    "compress_files",
    "convert_csv",
    "convert_images",
    "convert_jsonl",
    "convert_npz",
    "convert_parquet",
    "decompress_files",
    "encode_example",
    "encode_example_list",
    "encode_examples",
    "encode_sequence_example",
    "encode_sequence_examples",
    "even_splits",
    "make_loader",
    "merge_files",
    "mix",
    "pad_collate",
    "parse_example",
    "parse_example_lists",
    "parse_examples",
    "parse_sequence_example",
    "parse_sequence_examples",
    "pin_collate",
    "pin_memory",
    "reshard_files",
    "shard_path",
    "shuffle_files",
    "split_files",
    "subset_files",
    "to_files",
    "to_parquet",
    "to_webdataset",
]


def __getattr__(name: str) -> Any:
    if name in ("messages", "presets"):  # torchrec_io.presets.gqn, without an import of its own
        return importlib.import_module(f".{name}", __name__)
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
