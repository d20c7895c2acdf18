"""Random numbers of a record, which do not depend on where and when it is read.

They depend on its number in the epoch, and so on its :mod:`~torchrec_io._records.repetitions`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._storage.digest import digest


class RecordRandom(NamedTuple):
    """Source of the random numbers of records.

    Attributes:
        seed: Seed of the dataset.
        epoch: Epoch that records are read in.
        base: Number added to those of records: that of the first one of a dataset in a mixture.
    """

    seed: int = 0
    epoch: int = 0
    base: int = 0

    def key(self, record: Any, feature: str) -> bytes:
        """Return the key of the random numbers of one feature of one record; 16 bytes.

        Args:
            record: Identifier of the record in its reader: a number, or an item of
                :data:`torchrec_io._records.stream_reader.STREAM_LOCATION`, of which the file and
                the number are used.
            feature: Flat name of the feature.
        """
        return digest(f"{self._name(record)} {feature}", size=16)

    def seed_of(self, record: Any) -> int:
        """Return the seed of a generator for the user's functions, below 2^63.

        Args:
            record: Identifier of the record in its reader, as above.
        """
        return int.from_bytes(digest(self._name(record), size=8), "little") >> 1

    def _name(self, record: Any) -> str:
        number = record.item() if isinstance(record, np.generic) else record
        is_place = isinstance(number, tuple)  # in a stream, which is in no mixture
        name = ":".join(map(str, number[:2])) if is_place else number + self.base
        return f"{self.seed} {self.epoch} {name}"


# For records that are read outside of a dataset's epochs.
DEFAULT_RANDOM = RecordRandom()
