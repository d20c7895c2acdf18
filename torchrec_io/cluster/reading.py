"""Datasets of Ray Data from TFRecord files."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .._order.split import parse_slice
from .._records.record_size import MAX_RECORD_BYTES
from .._storage.local import StrPath
from .._storage.remote.options import StorageOptions
from ..checks import check_choice
from ..tools.report import OnError
from .division import DividedRecords
from .extra import import_ray
from .record_tables import TableReader
from .shared_indexes import open_shared_indexes
from .shared_paths import expand_shared_paths

if TYPE_CHECKING:
    import ray.data

    from .._schema.schema import Features, Schema

logger: logging.Logger = logging.getLogger("torchrec_io")


def read_tfrecords(
    paths: StrPath | Iterable[StrPath],
    schema: Schema | Features | None = None,
    *,
    split: str | None = None,
    with_key: bool = False,
    verify_crc: bool = True,
    on_error: OnError = "raise",
    allow_missing: bool = False,
    max_record_bytes: int = MAX_RECORD_BYTES,
    storage_options: StorageOptions = None,
    **read_options: Any,
) -> ray.data.Dataset:
    """Read TFRecord files into a dataset of Ray Data, one row for each record.

    The values of a row are those of a sample of ``TFRecordDataset(paths, schema)``:

    | value of a sample | column |
    | --- | --- |
    | scalar Tensor | its dtype; bfloat16 as float |
    | Tensor of one shape | Arrow tensor |
    | Tensor whose shape differs between records | Arrow tensor of variable shape |
    | bytes | binary |
    | values of any number | list; of rows or steps, a list of lists; of Tensors, a Tensor |
    | :class:`Sparse` | struct of ``indices``, a list of lists, and ``values``, a list |
    | Tensor or bytes of any number of dimensions | struct of ``values``, a list, and ``shape`` |

    Nested features have their flat names, such as ``objects/label``.

    The indexes of the files are found, or built by tasks and kept in the cache of this machine;
    :func:`index` stores them beside the files. Read tasks are cut by bytes: a large file is read by
    several tasks, and small files by one. A compressed file is cut at the seek points of its index.
    Columns that are not selected are not parsed. The number of rows is known without reading,
    unless errors are skipped.

    Secrets in ``storage_options`` are not sent to other machines: give these in the environment of
    all machines.

    Args:
        paths: A file, glob pattern or directory, or several, which all machines of the cluster can
            read.
        schema: Features to read; None for a column ``bytes`` of the records.
        split: A slice of the records, as for :class:`TFRecordDataset`: ``"[:80%]"``.
        with_key: Whether the first column, ``__key__``, has the key ``path:offset`` of each record.
        verify_crc: Whether checksums are compared, those of lengths and of data.
        on_error: ``"raise"``, or ``"skip"`` to leave out records that are damaged or do not fit the
            schema. Each task logs their number in each file.
        allow_missing: Read the files that exist, even if their names ``name-00001-of-00003`` say
            that a directory or pattern lacks some.
        max_record_bytes: Largest size of a record in bytes.
        storage_options: Options of remote objects, as for :class:`TFRecordDataset`.
        read_options: Arguments of ``ray.data.read_datasource``, such as ``override_num_blocks``,
            ``concurrency`` and ``num_cpus``.

    Raises:
        ImportError: If Ray is not installed: ``pip install torchrec-io[cluster]``.
        FileNotFoundError: If a path matches no file, or shards are missing.
        CorruptRecordError, TruncatedFileError: If a file is damaged, unless ``on_error="skip"``. A
            record that is damaged or does not fit the schema raises when it is read.
        SchemaError: If the schema is inconsistent, or has complex numbers, which Arrow lacks.
        ValueError: If another argument is invalid.
    """
    import_ray()
    check_choice("on_error", on_error, ("raise", "skip"))
    reader = TableReader.of(
        schema, with_key=with_key, verify_crc=verify_crc, max_record_bytes=max_record_bytes
    )
    files = expand_shared_paths(paths, allow_missing=allow_missing, storage_options=storage_options)
    indexes, errors = open_shared_indexes(files, verify_crc=verify_crc)
    for error in errors:
        if on_error == "raise":
            raise error
        logger.warning("the rest of a file is lost: %s", error)
    begin, end = 0, sum(map(len, indexes))
    if split is not None:
        span = parse_slice(split, end)
        begin, end = span.begin, span.begin + len(span)
    from ray.data import read_datasource  # noqa: PLC0415  # an optional package, slow to import

    from .datasource import TFRecordDatasource  # noqa: PLC0415  # it imports Ray

    source = TFRecordDatasource(DividedRecords(indexes, begin, end), reader, on_error)
    dataset: ray.data.Dataset = read_datasource(source, **read_options)
    return dataset
