"""Random numbers of a record, which are the same wherever and whenever it is read."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..storage.digest import digest


class RecordRandom(NamedTuple):
    """Source of the random numbers of records.

    Attributes:
        seed: Seed of the dataset.
        epoch: Epoch that records are read in.
    """

    seed: int = 0
    epoch: int = 0

    def generator(self, record: Any, feature: str) -> np.random.Generator:
        """Return the generator of one feature of one record.

        Args:
            record: Identifier of the record in its reader: a number, or an item of
                :data:`torchrec_io.records.stream_reader.PLACE`, whose file and number are used.
            feature: Flat name of the feature.
        """
        number = record.item() if isinstance(record, np.generic) else record
        name = ":".join(map(str, number[:2])) if isinstance(number, tuple) else str(number)
        key = digest(f"{self.seed} {self.epoch} {name} {feature}", size=16)
        return np.random.Generator(np.random.Philox(key=int.from_bytes(key, "little")))


# Of records that are read outside of a dataset's epochs.
DEFAULT_RANDOM = RecordRandom()
