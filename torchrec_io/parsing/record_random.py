"""Random numbers that belong to a record: the same wherever and whenever it is read."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np


class Draws(NamedTuple):
    """What random numbers depend on besides the record and the feature.

    Attributes:
        seed: Of the dataset.
        epoch: That records are read in.
    """

    seed: int = 0
    epoch: int = 0

    def generator(self, record: Any, feature: str) -> np.random.Generator:
        """A generator for one feature of one record.

        Args:
            record: What names the record to its reader: a number, or
                :data:`torchrec_io.records.stream_reader.STREAM_LOCATION`, of which file and
                number count.
            feature: Its name.
        """
        number = record.item() if isinstance(record, np.generic) else record
        name = ":".join(map(str, number[:2])) if isinstance(number, tuple) else str(number)
        text = f"{self.seed} {self.epoch} {name} {feature}"
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))


# Of what is read outside of a dataset's epochs.
NO_EPOCH = Draws()
