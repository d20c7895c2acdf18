"""TFRecord data for PyTorch training: indexed, sharded, decoded natively, without TensorFlow.

    loader = DataLoader(TFRecordDataset(paths, schema, batch_size=256), batch_size=None)

Names are imported on first use, so that what does not need torch starts without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import csv as csv
    from . import messages as messages
    from . import presets as presets
    from . import ranking as ranking
    from . import tfds as tfds
    from .convert.csv import convert_csv
    from .convert.folder_out import to_files
    from .convert.images import convert_images
    from .convert.jsonl import convert_jsonl
    from .convert.npz import convert_npz
    from .convert.outputs import Written
    from .convert.parquet import convert_parquet
    from .convert.parquet_out import to_parquet
    from .convert.target import Conversion
    from .convert.webdataset import to_webdataset
    from .datasets.fixed_length import FixedLengthRecordDataset
    from .datasets.map_style import TFRecordMapDataset
    from .datasets.mixture import mix
    from .datasets.record_files import RecordFileDataset
    from .datasets.text_lines import TextLineDataset
    from .datasets.tfrecord import TFRecordDataset
    from .datasets.whole_files import WholeFileDataset
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
    from .loading.loader import make_loader
    from .messages import Example, SequenceExample
    from .order.shuffle import Shuffle
    from .records.formats import RecordFormat
    from .records.index import RecordIndex
    from .schema.crops import Crop, RandomCrop, RandomResizedCrop
    from .schema.image_spec import ImageFeature
    from .schema.schema import Schema
    from .schema.specs import (
        FixedLenFeature,
        FixedLenSequenceFeature,
        RaggedFeature,
        SparseFeature,
        VarLenFeature,
    )
    from .schema.stored_specs import RawFeature, SequenceFeature, SerializedTensorFeature
    from .tensors.batch import Batch, Sample
    from .tensors.collate import collate, pad_collate, pin_collate
    from .tensors.device import DevicePrefetcher, pin_memory
    from .tensors.parse import (
        parse_example,
        parse_examples,
        parse_sequence_example,
        parse_sequence_examples,
    )
    from .tensors.ragged import BytesArray, Ragged, Sparse
    from .tools.rearrange import merge_files, reshard_files, split_files, subset_files
    from .tools.recompress import compress_files, decompress_files
    from .tools.shuffling import shuffle_files
    from .writing.encode import (
        encode_example,
        encode_examples,
        encode_sequence_example,
        encode_sequence_examples,
    )
    from .writing.record_writer import TFRecordWriter
    from .writing.sharded import ShardedWriter, shard_path

_ROOMS = ("csv", "messages", "presets", "ranking", "tfds")
_MODULE_OF = {
    "convert_csv": "convert.csv",
    "to_files": "convert.folder_out",
    "convert_images": "convert.images",
    "convert_jsonl": "convert.jsonl",
    "convert_npz": "convert.npz",
    "Written": "convert.outputs",
    "convert_parquet": "convert.parquet",
    "to_parquet": "convert.parquet_out",
    "compress_files": "tools.recompress",
    "decompress_files": "tools.recompress",
    "merge_files": "tools.rearrange",
    "reshard_files": "tools.rearrange",
    "split_files": "tools.rearrange",
    "subset_files": "tools.rearrange",
    "shuffle_files": "tools.shuffling",
    "Conversion": "convert.target",
    "to_webdataset": "convert.webdataset",
    "TFRecordDataset": "datasets.tfrecord",
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
    "Crop": "schema.crops",
    "RandomCrop": "schema.crops",
    "RandomResizedCrop": "schema.crops",
    "encode_example": "writing.encode",
    "encode_examples": "writing.encode",
    "encode_sequence_example": "writing.encode",
    "encode_sequence_examples": "writing.encode",
    "ImageFeature": "schema.image_spec",
    "Schema": "schema.schema",
    "FixedLenFeature": "schema.specs",
    "FixedLenSequenceFeature": "schema.specs",
    "RaggedFeature": "schema.specs",
    "SparseFeature": "schema.specs",
    "VarLenFeature": "schema.specs",
    "RawFeature": "schema.stored_specs",
    "SequenceFeature": "schema.stored_specs",
    "SerializedTensorFeature": "schema.stored_specs",
    "FixedLengthRecordDataset": "datasets.fixed_length",
    "RecordFileDataset": "datasets.record_files",
    "TextLineDataset": "datasets.text_lines",
    "WholeFileDataset": "datasets.whole_files",
    "make_loader": "loading.loader",
    "TFRecordMapDataset": "datasets.map_style",
    "Example": "messages",
    "SequenceExample": "messages",
    "mix": "datasets.mixture",
    "Shuffle": "order.shuffle",
    "RecordFormat": "records.formats",
    "RecordIndex": "records.index",
    "ShardedWriter": "writing.sharded",
    "shard_path": "writing.sharded",
    "Batch": "tensors.batch",
    "Sample": "tensors.batch",
    "collate": "tensors.collate",
    "pad_collate": "tensors.collate",
    "pin_collate": "tensors.collate",
    "DevicePrefetcher": "tensors.device",
    "pin_memory": "tensors.device",
    "parse_example": "tensors.parse",
    "parse_examples": "tensors.parse",
    "parse_sequence_example": "tensors.parse",
    "parse_sequence_examples": "tensors.parse",
    "BytesArray": "tensors.ragged",
    "Ragged": "tensors.ragged",
    "Sparse": "tensors.ragged",
    "TFRecordWriter": "writing.record_writer",
}

__all__ = [
    "Batch",
    "BytesArray",
    "Conversion",
    "ConversionError",
    "CorruptRecordError",
    "Crop",
    "DecodeError",
    "DevicePrefetcher",
    "Example",
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
    "encode_examples",
    "encode_sequence_example",
    "encode_sequence_examples",
    "make_loader",
    "merge_files",
    "mix",
    "pad_collate",
    "parse_example",
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
    if name in _ROOMS:  # torchrec_io.presets.gqn, without an import of its own
        return importlib.import_module(f".{name}", __name__)
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
