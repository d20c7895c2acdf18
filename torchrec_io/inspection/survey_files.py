"""Survey of the records of files, by several threads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Literal

from .._records.scanned_block import raise_at_gaps
from .._storage.local import StrPath
from .._storage.ordered_pool import OrderedPool
from .._storage.paths import expand_paths
from .._storage.remote.options import StorageOptions
from .._storage.thread_pool import most_storage_threads
from ..checks import check_choice, counted
from ..errors import DecodeError
from .record_sample import MaxRecords, Piece, RecordSample, choose_records
from .surveyor import Survey, Surveyor

logger: logging.Logger = logging.getLogger("torchrec_io")


def survey(
    paths: StrPath | Iterable[StrPath],
    max_records: MaxRecords = "auto",
    *,
    on_error: Literal["raise", "skip"] = "raise",
    storage_options: StorageOptions = None,
) -> Survey:
    """Find facts about the features of files of Examples or SequenceExamples, without a schema.

    The records are inspected like in :meth:`torchrec_io.Schema.infer`, which makes a schema of
    these facts.

    Args:
        paths: Files, patterns or directories, as for :class:`TFRecordDataset`.
        max_records: Maximum number of records to inspect; None for all. The default, "auto", is
            that of :meth:`torchrec_io.Schema.infer`.
        on_error: "raise", or "skip" to ignore records that are damaged or are not Examples.
        storage_options: Options of remote objects, as for :class:`TFRecordDataset`.

    Raises:
        SchemaError: If there are more than 100,000 features.
        DecodeError: If a record is neither an Example nor a SequenceExample; not with "skip".
        CorruptRecordError, TruncatedFileError: If a file is damaged; not with "skip".
        FileNotFoundError: If a path matches no file.
        ValueError: If paths is empty, or max_records or on_error is not one of the above.
    """
    check_choice("on_error", on_error, ("raise", "skip"))
    # Some records are enough.
    files = expand_paths(paths, allow_missing=True, storage_options=storage_options)
    sample = choose_records(files, max_records)
    return survey_sample(sample, skip_errors=on_error == "skip")


def survey_sample(
    sample: RecordSample,
    *,
    skip_errors: bool,
    jobs: int | None = None,
    advanced: Callable[[int], None] = lambda _: None,
    all_text: bool = False,
) -> Survey:
    """Survey the features of Examples and SequenceExamples.

    Args:
        sample: Records to inspect.
        skip_errors: Whether to skip records that are damaged or are not Examples.
        jobs: Number of threads. Default: the number of CPUs, at most 8.
        advanced: Function that receives the number of bytes of records since the last call, in the
            caller's thread.
        all_text: Whether bytes are text that cannot be printed; see :class:`Surveyor`.

    Raises:
        DecodeError: If a record is neither an Example nor a SequenceExample, or if it is only an
            Example and others have feature lists; unless it is skipped.
        SchemaError: If there are too many features.
        CorruptRecordError, TruncatedFileError: If a record is damaged, unless it is skipped.
    """

    def visit(piece: Piece) -> Survey:
        return survey_piece(piece, skip_errors, lambda: pool.is_stopped, all_text=all_text)

    with OrderedPool(visit, jobs or most_storage_threads()) as pool:
        pieces = pool.map(sample.pieces)
        found = merge_surveys(pieces, skip_errors=skip_errors, advanced=advanced)
    return found._replace(total=found.records if sample.is_all else sample.total)


def merge_surveys(
    surveys: Iterable[Survey],
    *,
    skip_errors: bool,
    advanced: Callable[[int], None] = lambda _: None,
) -> Survey:
    """Return the facts about the records of all pieces, and log how many were skipped.

    Args:
        surveys: Surveys of the pieces, in order.
        skip_errors: Whether records that are not valid were skipped.
        advanced: Function that receives the number of bytes of records since the last call.

    Raises:
        DecodeError: If a record is only an Example and others have feature lists, unless it is
            skipped.
        SchemaError: If there are too many features.
    """
    whole = Survey(0, {}, {})
    for found in surveys:
        whole = whole.merged(found)
        advanced(found.stored_bytes)
    if whole.skipped:
        logger.warning(
            "skipped %s, damaged or neither Examples nor SequenceExamples",
            counted(whole.skipped, "record"),
        )
    if whole.lists and whole.first_example is not None and not skip_errors:
        raise whole.first_example
    return whole


def survey_piece(
    piece: Piece,
    skip_errors: bool,
    is_stopped: Callable[[], bool] = lambda: False,
    *,
    all_text: bool = False,
) -> Survey:
    """Survey the records of a piece.

    Args:
        piece: Function that yields the records to inspect.
        skip_errors: Whether to skip records that are damaged or are not Examples.
        is_stopped: Function that is called before each block; True ends the survey.
        all_text: Whether bytes are text that cannot be printed; see :class:`Surveyor`.

    Raises:
        DecodeError: If a record is neither an Example nor a SequenceExample, unless it is skipped.
        SchemaError: If there are too many features.
        CorruptRecordError, TruncatedFileError: If a record is damaged, unless it is skipped.
    """
    surveyor = Surveyor(all_text=all_text)
    first_example: DecodeError | None = None
    stored_bytes = skipped = 0
    for block in piece() if skip_errors else raise_at_gaps(piece()):
        if is_stopped():
            break
        batch = surveyor.add(block.block)
        skipped += len(block.gaps) + len(batch.rejected)
        if batch.rejected and not skip_errors:
            reason = "the record is neither a tf.train.Example nor a tf.train.SequenceExample"
            raise DecodeError(reason, **block.place(batch.rejected[0]))
        if batch.first_example is not None and first_example is None:
            reason = "the record is not a tf.train.SequenceExample, but other records are"
            first_example = DecodeError(reason, **block.place(batch.first_example))
        stored_bytes += block.stored_bytes
    return surveyor.result()._replace(
        skipped=skipped, stored_bytes=stored_bytes, first_example=first_example
    )
