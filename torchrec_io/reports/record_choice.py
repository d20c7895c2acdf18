"""The records that a report reads."""

from __future__ import annotations

import numpy as np

from .._order.selection import Selection, select_positions
from .._records.record_block import RecordBlock
from ..tools.record_files import RecordFiles

# Neighboring records are read together, so that a report can tell whether they are alike.
_RUN = 2
_MOST_BYTES = 256 << 20
_LEAST = 100  # records, if they are very large
_PREVIEW = 256
_PREVIEW_BYTES = 32 << 20


def choose_records(files: RecordFiles, most: int | None) -> Selection:
    """Choose about ``most`` records, evenly from all files and all parts of them.

    From each of many equal stretches of the data, a short run is taken at a random position, which
    is the same each time. Equal distances would meet only some classes of data in which they take
    turns. If records are large, fewer are chosen: 256 MiB in all, and at least 100 records.

    Args:
        files: Files of the records.
        most: Largest number of records; None for all.
    """
    total = len(files)
    if most is None or total == 0:
        return files.all
    mean = max(1, files.size // total)
    most = min(most, max(_LEAST, _MOST_BYTES // mean))
    if total <= most:
        return files.all
    stretches = max(1, most // _RUN)
    ends = np.linspace(0, total, stretches + 1).astype(np.int64)
    room = np.maximum(np.diff(ends) - _RUN + 1, 1)
    starts = ends[:-1] + (np.random.default_rng(0).random(stretches) * room).astype(np.int64)
    runs = (starts[:, None] + np.arange(min(_RUN, most))).reshape(-1)
    return select_positions(np.unique(runs[runs < total]), total)


def read_preview(files: RecordFiles, selection: Selection) -> RecordBlock | None:
    """Return some of the chosen records from everywhere; None if there are none."""
    count = min(len(selection), _PREVIEW)
    while count:
        positions = np.linspace(0, len(selection) - 1, count).astype(np.int64)
        plan = files.reader.plan(selection.numbers_at(np.unique(positions)))
        if plan.buffer_bytes <= _PREVIEW_BYTES or count == 1:
            return files.reader.fetch(plan)[0]
        count //= 2
    return None
