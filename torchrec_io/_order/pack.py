"""The options of packing: how documents are put into rows of a fixed length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..checks import check_choice, check_integer, is_integer
from .batch_sizes import BatchSizes
from .ramp import Ramp, check_size, described

PackMode: TypeAlias = Literal["fit", "chunk"]
LongDocuments: TypeAlias = Literal["split", "drop", "error"]
LastRow: TypeAlias = Literal["drop", "pad"]
Positions: TypeAlias = Literal["restart", "continue"]
LabelChoice: TypeAlias = Literal["same", "next"] | None

# Planning takes memory for each possible room of a row.
MOST_LENGTH = 1 << 24

_CHOICES: dict[str, tuple[Any, ...]] = {
    "mode": ("fit", "chunk"),
    "long": ("split", "drop", "error"),
    "last": ("drop", "pad"),
    "positions": ("restart", "continue"),
    "labels": (None, "same", "next"),
}


@dataclass(frozen=True)
class Pack:
    """Rows of a fixed length that are packed with documents, for language models.

    A document is a record; its tokens are the values of one feature. See docs/packing.md.

    Attributes:
        length: Number of tokens in a row, or a :class:`Ramp`. All rows of a step have one length.
        key: Name of the feature that holds the tokens: a ``VarLenFeature``, ``RaggedFeature`` or
            ``FixedLenSequenceFeature`` of the schema. By default the only such feature.
        also: Names of features with one value for each token, such as weights. They are packed as
            the tokens are, with 0 as padding.
        mode: ``"fit"`` puts whole documents into rows, so that little padding is needed: the
            documents of a window, longest first, each into the row with the least room that is
            enough. ``"chunk"`` joins all documents of the epoch and cuts every ``length`` tokens,
            so documents go on in the next row.
        window: Number of documents that ``"fit"`` packs at a time, in the order of the epoch.
        separator: Token that is written after each document. By default there is none.
        pad_id: Token that fills rows up.
        long: Treatment by ``"fit"`` of documents longer than a row; ``"drop"`` and ``"error"`` mean
            the shortest rows of a ramp. ``"split"`` cuts them into pieces, which are packed as
            documents are. ``"drop"`` leaves them out. ``"error"`` treats them as bad records, for
            which ``on_error`` holds.
        last: Treatment of the last row of an epoch by ``"chunk"``, if it is not full: ``"drop"`` or
            ``"pad"``.
        positions: Positions of a piece that does not begin its document: they ``"restart"`` at 0,
            or ``"continue"`` from the piece before.
        labels: ``"same"`` adds a copy of the tokens as ``"labels"``, for models that shift labels
            themselves. ``"next"`` adds the next token of each. Tokens without a label have -100.

    Raises:
        ValueError: If a value is invalid.
    """

    length: int | Ramp
    key: str | None = None
    also: Sequence[str] = ()
    mode: PackMode = "fit"
    window: int = 10_000
    separator: int | None = None
    pad_id: int = 0
    long: LongDocuments = "split"
    last: LastRow = "drop"
    positions: Positions = "restart"
    labels: LabelChoice = None

    def __post_init__(self) -> None:
        changes: dict[str, Any] = {
            "length": check_size("length", self.length, MOST_LENGTH),
            "window": check_integer("window", self.window, 1),
            "also": self._checked_also(),
        }
        for name in ("separator", "pad_id"):
            value = getattr(self, name)
            if value is None and name == "separator":
                continue
            if not is_integer(value):
                raise ValueError(f"{name} must be a token, an integer, got {value!r}")
            changes[name] = int(value)
        if self.key is not None and not isinstance(self.key, str):
            raise ValueError(f"key must be the name of a feature or None, got {self.key!r}")
        for name, choices in _CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        for name, value in changes.items():  # plain integers, which states can hold
            object.__setattr__(self, name, value)

    def _checked_also(self) -> tuple[str, ...]:
        if isinstance(self.also, str) or not all(isinstance(name, str) for name in self.also):
            raise ValueError(f"also must be a list of names of features, got {self.also!r}")
        names = tuple(self.also)
        if len({self.key, *names}) <= len(names):
            raise ValueError(
                f"also must name features other than key, each once, got {self.also!r}"
            )
        return names

    @property
    def least_length(self) -> int:
        """Length of a row, or of the shortest ones."""
        return min(BatchSizes.of(self.length).sizes)

    @property
    def extra(self) -> int:
        """Number of tokens that follow each document."""
        return 0 if self.separator is None else 1

    @property
    def splits_long(self) -> bool:
        """True if documents longer than a row are split."""
        return self.mode == "chunk" or self.long == "split"

    def describe(self) -> dict[str, Any]:
        """Return all that the rows depend on, in addition to the order of the documents."""
        length = described(self.length)
        common = {"mode": self.mode, "length": length, "separators": self.extra}
        if self.mode == "chunk":
            return {**common, "last": self.last}
        return {**common, "window": self.window, "splits": self.splits_long}
