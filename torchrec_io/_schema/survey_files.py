"""Survey of the records of files, by several threads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

from .._records.scanned_block import ScannedBlock, raise_at_gaps
from .._storage.ordered_pool import OrderedPool
from .._storage.thread_pool import most_storage_threads
from ..checks import counted
from ..errors import DecodeError
from .record_sample import Piece, RecordSample
from .survey import Survey, Surveyor

logger = logging.getLogger("torchrec_io")


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

    def survey(piece: Piece) -> PieceSurvey:
        return survey_piece(piece, skip_errors, lambda: pool.is_stopped, all_text=all_text)

    with OrderedPool(survey, jobs or most_storage_threads()) as pool:
        return merge_surveys(pool.map(sample.pieces), skip_errors=skip_errors, advanced=advanced)


def merge_surveys(
    surveys: Iterable[PieceSurvey],
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
    first_example: DecodeError | None = None
    skipped = 0
    for found in surveys:
        whole = whole.merged(found.survey)
        skipped += found.skipped
        first_example = first_example or found.first_example
        advanced(found.stored_bytes)
    if skipped:
        logger.warning(
            "skipped %s, damaged or neither Examples nor SequenceExamples",
            counted(skipped, "record"),
        )
    if whole.lists and first_example is not None and not skip_errors:
        raise first_example
    return whole


class PieceSurvey(NamedTuple):
    """The survey of a piece.

    Attributes:
        survey: Facts about its records.
        first_example: Error of the first record that is only an Example, for use if others are
            SequenceExamples.
        stored_bytes: Size of the records with their frames.
        skipped: Number of records that were skipped.
    """

    survey: Survey
    first_example: DecodeError | None
    stored_bytes: int
    skipped: int


def survey_piece(
    piece: Piece,
    skip_errors: bool,
    is_stopped: Callable[[], bool] = lambda: False,
    *,
    all_text: bool = False,
) -> PieceSurvey:
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
            raise _error(block, batch.rejected[0], reason)
        if batch.first_example is not None and first_example is None:
            reason = "the record is not a tf.train.SequenceExample, but other records are"
            first_example = _error(block, batch.first_example, reason)
        stored_bytes += block.stored_bytes
    return PieceSurvey(surveyor.result(), first_example, stored_bytes, skipped)


def _error(block: ScannedBlock, position: int, reason: str) -> DecodeError:
    return DecodeError(reason, **block.place(position))
