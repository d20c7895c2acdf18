"""Slim records: messages that have some entries of a record, and some steps of others.

They are valid Examples or SequenceExamples. Lengths are written as varints of 5 bytes, so that the
size of what precedes a list does not depend on the list.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _core
from .._parsing.arrays import Arena, Ints
from .._records.record_reader import ReadPlan
from .._schema.feature import Feature
from .._schema.schema import Schema
from .._schema.specs import RaggedFeature
from .._schema.stored_specs import RawFeature, SequenceFeature

# A vector of floats of at least this size is stored for each step, not for the episode.
_LARGE_BYTES = 256
# A step and its record in one number: each step takes at least a byte, so no record has as many.
STEP_BITS = 40

# Tags of fields 1 and 2, with a length. Source: example.proto and feature.proto of TensorFlow.
_FIRST, _SECOND = b"\x0a", b"\x12"
_LENGTH_BYTES = 5


class KeptSteps(NamedTuple):
    """The steps that some records of a block have, which have lost the others.

    Attributes:
        records: Numbers of these records, ascending; int64 ``[m]``.
        steps: The steps of each stored feature, as ``record << STEP_BITS | step``, ascending.
    """

    records: Ints
    steps: Mapping[str, Ints]

    def is_slim(self, records: Ints) -> npt.NDArray[np.bool_]:
        """Return whether records have lost steps; bool ``[n]``."""
        return _are_in(self.records, records, np.searchsorted(self.records, records))

    def positions(self, key: str, records: Ints, steps: Ints) -> Ints:
        """Return where steps of records are among those that are left of a stored feature.

        Args:
            key: The stored feature.
            records: Numbers of the records; int64 ``[n]``.
            steps: Steps of each; int64 ``[n]`` or ``[n, k]``.
        """
        kept = self.steps.get(key)
        if kept is None:
            return steps
        axes = (-1, *(1,) * (steps.ndim - 1))
        is_slim = self.is_slim(records).reshape(axes)
        first = records.reshape(axes) << STEP_BITS
        wanted = first | steps
        found = np.searchsorted(kept, wanted)
        if not (_are_in(kept, wanted, found) | ~is_slim).all():
            raise ValueError("a step is needed that was not read")  # planned with other offsets
        positions: Ints = np.where(is_slim, found - np.searchsorted(kept, first), steps)
        return positions


def _are_in(known: Ints, numbers: Ints, found: Ints) -> npt.NDArray[np.bool_]:
    """Return whether numbers are known, by their positions among those that are, ascending."""
    if not len(known):
        return np.zeros(numbers.shape, np.bool_)
    result: npt.NDArray[np.bool_] = known[np.minimum(found, len(known) - 1)] == numbers
    return result


class PickedPieces(NamedTuple):
    """Pieces to read.

    Attributes:
        reads: Plan that reads them.
        kept: The records, and their steps.
        slots: Position of each piece's key among all of them; int64 ``[n]``.
        rows: Position of its record among these; int64 ``[n]``.
        crcs: Its CRC-32C; uint32 ``[n]``.
    """

    reads: ReadPlan
    kept: KeptSteps
    slots: Ints
    rows: Ints
    crcs: npt.NDArray[np.uint32]


@dataclass(frozen=True)
class PieceKeys:
    """The stored features of a schema whose pieces are located.

    Attributes:
        context: Features of the context, or of an Example, that are one piece.
        lists: Feature lists that are one piece.
        steps: Size in bytes of each step of a list of floats, for features with a piece for each
            step; 0 for lists of bytes values, and for feature lists.
        in_lists: Whether these are feature lists.
    """

    context: tuple[str, ...]
    lists: tuple[str, ...]
    steps: Mapping[str, int]
    in_lists: bool

    @classmethod
    def of(cls, schema: Schema, specs: Mapping[str, Feature]) -> PieceKeys:
        """Return the keys of a schema.

        Args:
            schema: The schema.
            specs: The features with steps, by flat name.
        """
        steps: dict[str, int] = {}
        others: dict[str, None] = {}
        lists: dict[str, None] = {}
        for name, spec in schema.items():
            keys = [key.key for key in spec.stored_keys(name)]
            size = step_bytes(spec) if name in specs else None
            if size is not None:
                steps[keys.pop(0)] = size
            is_list = schema.sequence is not None and name in schema.sequence
            (lists if is_list else others).update(dict.fromkeys(keys))
        whole = lists if schema.is_sequence else others  # a context may have keys of lists
        alone = {key: size for key, size in steps.items() if key not in whole}
        return cls(tuple(others), tuple(lists), alone, schema.is_sequence)

    def __le__(self, other: PieceKeys) -> bool:
        """Return whether others have all of these keys, read in the same way."""
        return (
            {*self.context} <= {*other.context}
            and {*self.lists} <= {*other.lists}
            and self.steps.items() <= other.steps.items()
        )

    @property
    def num_whole(self) -> int:
        """Number of pieces of each record that belong to no step."""
        return len(self.context) + len(self.lists)

    def native(self) -> _core.PieceKeys:
        """Return the keys as the native core takes them."""
        return _core.PieceKeys(
            context=[key.encode() for key in self.context],
            lists=[key.encode() for key in self.lists],
            steps=[key.encode() for key in self.steps],
            item_bytes=[*self.steps.values()],
            in_lists=self.in_lists,
        )

    def assemble(self, buffer: Arena, picked: PickedPieces) -> tuple[Arena, Ints, Ints]:
        """Put pieces together to records.

        Args:
            buffer: Bytes that were read by the plan of the pieces.
            picked: The pieces.

        Returns:
            A buffer with the records, and the start and the length of each; int64 ``[m]``.
        """
        slots, rows, sizes = picked.slots, picked.rows, picked.reads.frame_sizes
        count, num_whole = len(picked.kept.records), self.num_whole
        keys = np.unique(slots[slots >= num_whole]) - num_whole
        totals = {
            key: np.bincount(rows, sizes * (slots == num_whole + key), count).astype(np.int64)
            for key in keys.tolist()
        }
        headers = [_list_header(*self._parts_of(key), totals[key]) for key in totals]
        # Where each header is among the slots: before the one of its own list.
        places = [num_whole + key - 0.5 for key in totals]
        of_record = np.bincount(rows, sizes, count).astype(np.int64)
        for header in headers:
            of_record += header.shape[1]
        context = of_record
        if self.in_lists:
            is_context = slots < len(self.context)
            context = np.bincount(rows, sizes * is_context, count).astype(np.int64)
            headers.append(_header(_SECOND, of_record - context))
            places.append(len(self.context) - 0.75)
        headers.append(_header(_FIRST, context))
        places.append(-1.0)
        each = np.arange(count)
        all_rows = np.concatenate([rows, *(each for _ in headers)])
        all_slots = np.concatenate([slots, *(np.full(count, place) for place in places)])
        all_sizes = np.concatenate(
            [sizes, *(np.full(count, header.shape[1]) for header in headers)]
        )
        order = np.lexsort((all_slots, all_rows))
        targets = np.empty(len(order), np.int64)
        targets[order] = np.cumsum(all_sizes[order]) - all_sizes[order]
        lengths = np.bincount(all_rows, all_sizes, count).astype(np.int64)
        data = _core.allocate(int(lengths.sum()))
        pieces = len(rows)
        _core.gather(
            buffer, np.stack([picked.reads.frame_starts, sizes, targets[:pieces]], axis=1), data
        )
        for number, header in enumerate(headers):
            at = targets[pieces + number * count :][:count]
            data[at[:, np.newaxis] + np.arange(header.shape[1])] = header
        return data, np.cumsum(lengths) - lengths, lengths

    def _parts_of(self, key: int) -> tuple[bytes, Sequence[bytes]]:
        """Return the name of a feature of ``steps``, and the tags of what its values are in."""
        name, size = [*self.steps.items()][key]
        if self.in_lists:
            return name.encode(), [_SECOND]
        return name.encode(), [_SECOND, _SECOND, _FIRST] if size else [_SECOND, _FIRST]


def step_bytes(spec: Feature) -> int | None:
    """Return the size of a step in a list of floats, 0 for bytes values.

    None for steps that are small, and for those that are not read one by one.
    """
    if isinstance(spec, SequenceFeature):
        # Stored shapes and a length are those of all elements of a record.
        has_shapes = isinstance(spec.element, RawFeature) and spec.element.shape_key is not None
        return None if spec.partitions or spec.length is not None or has_shapes else 0
    if not isinstance(spec, RaggedFeature) or spec.dtype != "float32":
        return None
    if not all(isinstance(each, RaggedFeature.UniformRowLength) for each in spec.partitions):
        return None
    size = 4 * math.prod(each.length for each in spec.partitions)
    return size if size >= _LARGE_BYTES else None


def _list_header(name: bytes, tags: Sequence[bytes], totals: Ints) -> npt.NDArray[np.uint8]:
    """Return what precedes the values of each record in an entry of the map; uint8 ``[m, size]``.

    Args:
        name: Name of the feature.
        tags: Tags of the messages that the values are in, outermost first.
        totals: Size of the values in bytes; int64 ``[m]``.
    """
    parts: list[npt.NDArray[np.uint8]] = []
    for tag in reversed(tags):
        parts.insert(0, _header(tag, totals))
        totals = totals + len(tag) + _LENGTH_BYTES
    key = _header(_FIRST, np.full(len(totals), len(name)))
    text = np.broadcast_to(np.frombuffer(name, np.uint8), (len(totals), len(name)))
    entry = _header(_FIRST, totals + key.shape[1] + len(name))
    return np.concatenate([entry, key, text, *parts], axis=1)


def _header(tag: bytes, lengths: Ints) -> npt.NDArray[np.uint8]:
    """Return a tag and lengths as varints; uint8 ``[m, 6]``."""
    digits = lengths[:, np.newaxis] >> np.arange(0, 7 * _LENGTH_BYTES, 7) & 0x7F
    digits[:, :-1] |= 0x80
    made = np.empty((len(lengths), len(tag) + _LENGTH_BYTES), np.uint8)
    made[:, : len(tag)] = np.frombuffer(tag, np.uint8)
    made[:, len(tag) :] = digits
    return made
