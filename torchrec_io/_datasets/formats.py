"""Datasets of other record formats: lines, records of a fixed length, whole files, your own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from .._parsing.wrapping import Wrapper
from .._records.fixed_length import FixedLength
from .._records.formats import RecordFormat
from .._records.lines import TextLines
from .._records.whole_file import WholeFile
from .._schema.schema import Features
from .._storage.local import StrPath
from .._tensors.block_parser import (
    BlockParser,
    SchemaLike,
    WrappedParser,
    parser_of_bytes,
)
from ..errors import SchemaError
from .base import Item_co
from .indexed import IndexedDataset
from .options import FileOptions, WholeFileOptions, complete, takes_options
from .pipeline import IndexedPipeline

if TYPE_CHECKING:
    from ..csv.schema import Schema as CsvSchema


@takes_options(FileOptions)
class TextLineDataset(IndexedDataset[Item_co]):
    r"""Lines of text files, in a repeatable order: each line is a record.

    The lines are those of TensorFlow's ``TextLineReader`` (2.21). A line ends at ``"\n"``, which is
    not part of it; neither is one ``"\r"`` before it. Empty lines are records. The last line needs
    no ``"\n"``, and an empty last line without one is not a record. Lines are bytes; nothing is
    decoded. (TensorFlow's ``tf.data.TextLineDataset`` also drops every other ``"\r"``; here they
    are kept.)

    Everything else is as in :class:`TFRecordDataset`. An index of where lines start is built once
    and kept in the user's cache directory, so lines are shuffled, assigned and resumed as records.
    A key is ``"path:line"``; lines are counted from 1, including skipped ones.

    Args:
        paths: A file, glob pattern or directory, or several. A directory stands for all files in it
            except hidden ones and indexes, sorted.
        schema: ``None`` yields lines as bytes. A :class:`torchrec_io.csv.Schema` yields its
            columns. A function is called with the bytes of each line, in the loading process.
        skip_header_lines: Number of lines to skip at the start of each file.

    Raises:
        FileNotFoundError: If a file does not exist, a pattern or directory matches no file, or
            shards are missing.
        CorruptRecordError, TruncatedFileError: If a compressed file is damaged and ``on_error`` is
            ``"raise"``.
        StaleIndexError, IndexFormatError: If a given index does not match its file or is damaged.
        SchemaError: If the schema is for messages.
        ValueError: If another argument is invalid.
    """

    def __init__(
        self,
        paths: StrPath | Iterable[StrPath],
        schema: CsvSchema | Callable[[bytes], Any] | None = None,
        *,
        skip_header_lines: int = 0,
        **options: Unpack[FileOptions],
    ) -> None:
        known = complete(FileOptions, options)
        lines = TextLines(skip_header_lines)
        super().__init__(IndexedPipeline.open(paths, schema, known, lines, _line_parser))


@takes_options(FileOptions)
class FixedLengthRecordDataset(IndexedDataset[Item_co]):
    """Records of a fixed length, in a repeatable order, such as the files of CIFAR-10 and MNIST.

    The records are those of TensorFlow's ``FixedLengthRecordReader`` (2.21), except that a file
    with an incomplete last record is an error. (``FixedLengthRecordReader`` ignores the rest,
    ``tf.data`` refuses the file.) Everything else is as in :class:`TFRecordDataset`. The index is
    computed from the file size and not cached, except for compressed files. A key is
    ``"path:record"``; records of a file are counted from 0.

    Args:
        paths: A file, glob pattern or directory, or several. A directory stands for all files in it
            except hidden ones and indexes, sorted.
        record_bytes: Size of a record, in bytes.
        schema: ``None`` yields records as bytes. A dict of one :class:`RawFeature` with a shape for
            each field of a record, in the order stored; together they have ``record_bytes``:
            ``{"label": tio.RawFeature("uint8", []), "image": tio.RawFeature("uint8", [3, 32,
            32])}``. A function is called with the bytes of each record, in the loading process.
        header_bytes: Number of bytes to skip at the start of each file.
        footer_bytes: Number of bytes to ignore at the end of each file.

    Raises:
        FileNotFoundError: If a file does not exist, a pattern or directory matches no file, or
            shards are missing.
        TruncatedFileError: If a file ends inside a record and ``on_error`` is ``"raise"``. Else the
            file counts as one error, and its whole records are read.
        StaleIndexError, IndexFormatError: If a given index does not match its file or is damaged.
        SchemaError: If the schema does not match ``record_bytes``, or has another feature.
        ValueError: If another argument is invalid.
    """

    def __init__(
        self,
        paths: StrPath | Iterable[StrPath],
        record_bytes: int,
        schema: Features | Callable[[bytes], Any] | None = None,
        *,
        header_bytes: int = 0,
        footer_bytes: int = 0,
        **options: Unpack[FileOptions],
    ) -> None:
        known = complete(FileOptions, options)
        fixed = FixedLength(record_bytes, header_bytes, footer_bytes)
        make_parser = functools.partial(_field_parser, fixed.record_bytes)
        super().__init__(IndexedPipeline.open(paths, schema, known, fixed, make_parser))


@takes_options(WholeFileOptions)
class WholeFileDataset(IndexedDataset[Item_co]):
    """Files that are one record each, in a repeatable order, such as folders of images.

    The records are those of TensorFlow's ``WholeFileReader`` (2.21): the content of a file as it
    is, compressed or not; an empty file is an empty record. Everything else is as in
    :class:`TFRecordDataset`, except that no file is read before it is needed. Files are identified
    by name and size. A file that changed since the dataset was created raises a StaleIndexError.
    A key is the path of a file.

    Args:
        paths: A file, glob pattern or directory, or several. A directory stands for all files in it
            except hidden ones and indexes, sorted.
        schema: ``None`` yields the content of files as bytes. A dict of one feature decodes the
            content as its stored value: an :class:`ImageFeature`, a :class:`RawFeature` with a
            shape or ``fixed_length``, a :class:`SerializedTensorFeature`, or ``FixedLenFeature([],
            "string")``. A function is called with the bytes of each file, in the loading process.

    Raises:
        FileNotFoundError: If a file does not exist, a pattern or directory matches no file, or
            shards are missing.
        SchemaError: If the schema is not one such feature.
        ValueError: If another argument is invalid.
    """

    def __init__(
        self,
        paths: StrPath | Iterable[StrPath],
        schema: Features | Callable[[bytes], Any] | None = None,
        **options: Unpack[WholeFileOptions],
    ) -> None:
        known = complete(WholeFileOptions, options)
        super().__init__(IndexedPipeline.open(paths, schema, known, WholeFile(), _content_parser))


@takes_options(FileOptions)
class RecordFileDataset(IndexedDataset[Item_co]):
    """Records of files of your own format, in a repeatable order.

    Everything else is as in :class:`TFRecordDataset`. An index is built once by asking the format
    where records are, and kept in the user's cache directory. A key is what
    :meth:`RecordFormat.key` returns.

    Args:
        paths: A file, glob pattern or directory, or several. A directory stands for all files in it
            except hidden ones and indexes, sorted.
        format: Format of the files; see :class:`RecordFormat` and docs/formats.md.
        schema: A :class:`Schema` or a dict of features parses records as ``tf.train.Example``
            messages; a ``Schema(context=..., sequence=...)`` as ``SequenceExample``. A function is
            called with the bytes of each record, in the loading process. ``None`` yields bytes.

    Raises:
        FileNotFoundError: If a file does not exist, a pattern or directory matches no file, or
            shards are missing.
        CorruptRecordError, TruncatedFileError: If the format reports damage and ``on_error`` is
            ``"raise"``. A file in which no further record can be found counts as one error.
        StaleIndexError, IndexFormatError: If a given index does not match its file or is damaged.
        SchemaError: If the schema is inconsistent.
        ValueError: If the format has no name, or another argument is invalid.
    """

    def __init__(
        self,
        paths: StrPath | Iterable[StrPath],
        format: RecordFormat,  # noqa: A002  # the usual word
        schema: SchemaLike = None,
        **options: Unpack[FileOptions],
    ) -> None:
        is_named = isinstance(format, RecordFormat) and isinstance(format.name, str) and format.name
        if not is_named:
            raise ValueError(f"format must be a RecordFormat with a name, got {format!r}")
        known = complete(FileOptions, options)
        super().__init__(IndexedPipeline.open(paths, schema, known, format))


def _line_parser(schema: Any) -> BlockParser:
    if hasattr(schema, "line_parser"):
        parser: BlockParser = schema.line_parser()
        return parser
    if schema is not None and not callable(schema):
        raise SchemaError(
            f"the schema of lines must be a csv.Schema, a function or None, got {schema!r}"
        )
    return parser_of_bytes(schema)


def _field_parser(record_bytes: int, schema: Any) -> BlockParser:
    if isinstance(schema, Mapping):
        return WrappedParser(Wrapper.of_fixed_length(schema, record_bytes))
    return parser_of_bytes(schema)


def _content_parser(schema: Any) -> BlockParser:
    if isinstance(schema, Mapping):
        return WrappedParser(Wrapper.of_whole_files(schema))
    return parser_of_bytes(schema)
