"""TFRecord data for PyTorch training: indexed, sharded, decoded natively, without TensorFlow.

    loader = DataLoader(TFRecordDataset(paths, schema, batch_size=256), batch_size=None)

Names are imported on first use, so that what does not need torch starts without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import convert as convert
    from . import presets as presets
    from . import tools as tools
    from .csv.schema import CsvSchema
    from .datasets.formats import (
        FixedLengthRecordDataset,
        RecordFileDataset,
        TextLineDataset,
        WholeFileDataset,
    )
    from .datasets.map_style import TFRecordMapDataset
    from .datasets.mixture import mix
    from .datasets.stream import TFRecordStream
    from .datasets.tfrecord import TFRecordDataset
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
    from .ranking.list_parser import parse_example_lists
    from .ranking.schema import ExampleListSchema, encode_example_list
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
    from .tfds.directory import TfdsDirectory
    from .tfds.splits import TfdsSplit, even_splits
    from .writing.encode import (
        encode_example,
        encode_examples,
        encode_sequence_example,
        encode_sequence_examples,
    )
    from .writing.record_writer import TFRecordWriter
    from .writing.shards import ShardedWriter, shard_path

_MODULE_OF = {
    "TFRecordDataset": "datasets.tfrecord",
    "TFRecordStream": "datasets.stream",
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
    "CsvSchema": "csv.schema",
    "encode_example": "writing.encode",
    "encode_examples": "writing.encode",
    "encode_sequence_example": "writing.encode",
    "encode_sequence_examples": "writing.encode",
    "ExampleListSchema": "ranking.schema",
    "encode_example_list": "ranking.schema",
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
    "TfdsDirectory": "tfds.directory",
    "TfdsSplit": "tfds.splits",
    "even_splits": "tfds.splits",
    "FixedLengthRecordDataset": "datasets.formats",
    "RecordFileDataset": "datasets.formats",
    "TextLineDataset": "datasets.formats",
    "WholeFileDataset": "datasets.formats",
    "make_loader": "loading.loader",
    "TFRecordMapDataset": "datasets.map_style",
    "Example": "messages",
    "SequenceExample": "messages",
    "mix": "datasets.mixture",
    "Shuffle": "order.shuffle",
    "RecordFormat": "records.formats",
    "RecordIndex": "records.index",
    "ShardedWriter": "writing.shards",
    "shard_path": "writing.shards",
    "Batch": "tensors.batch",
    "Sample": "tensors.batch",
    "collate": "tensors.collate",
    "pad_collate": "tensors.collate",
    "pin_collate": "tensors.collate",
    "DevicePrefetcher": "tensors.device",
    "pin_memory": "tensors.device",
    "parse_example_lists": "ranking.list_parser",
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
    "TFRecordStream",
    "TFRecordWriter",
    "TextLineDataset",
    "TfdsDirectory",
    "TfdsSplit",
    "TorchRecIOError",
    "TruncatedFileError",
    "VarLenFeature",
    "WholeFileDataset",
    "WrongShardError",
    "collate",
    "encode_example",
    "encode_example_list",
    "encode_examples",
    "encode_sequence_example",
    "encode_sequence_examples",
    "even_splits",
    "make_loader",
    "mix",
    "pad_collate",
    "parse_example",
    "parse_example_lists",
    "parse_examples",
    "parse_sequence_example",
    "parse_sequence_examples",
    "pin_collate",
    "pin_memory",
    "shard_path",
]


def __getattr__(name: str) -> Any:
    if name in ("convert", "messages", "presets", "tools"):  # rooms that need no import statement
        return importlib.import_module(f".{name}", __name__)
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
