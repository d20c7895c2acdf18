"""Bytes values that Python decodes: where they are in the records, and how they are decoded.

A feature spec names an :class:`ElementDecoder`: of images, arrays, or kinds of other packages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ... import _core
from ..._images.bad_value import BadValueError
from ...checks import counted
from ...timing.steps import decoding
from ..arrays import Arena, Ints, flat_view_of, view_of
from ..layout import Numbers
from ..threads import run_each
from .base import ElementSelection, LocatedBlock


class Elements(NamedTuple):
    """Positions of bytes values in records, one record after another.

    All arrays are int64. The stored elements are all those in the records; the others may be only
    some of them.

    Attributes:
        records: Position in the block of each element's record; ``[n]``.
        offsets: Offset of each element in its record, in bytes; ``[n]``.
        sizes: Size of each element, in bytes; ``[n]``.
        starts: Position of each record's first element, and the end; ``[B + 1]``.
        numbers: Position of each element among the stored elements; ``[n]``.
        stored: Position of each record's first stored element, and the end; ``[B + 1]``.
    """

    records: Ints
    offsets: Ints
    sizes: Ints
    starts: Ints
    numbers: Ints
    stored: Ints

    @classmethod
    def of(cls, block: LocatedBlock, spec: int, *, in_lists: bool = False) -> Elements:
        """Return all elements of a native spec.

        The elements of a feature list are the values of its steps. Records fail if a step does not
        have exactly one.
        """
        spans = block.located.spans(spec)
        starts, rows = spans.units.values, spans.units.records
        stored = starts[rows]
        counts = np.diff(starts)
        for step in np.flatnonzero(counts != 1).tolist() if in_lists else []:
            record = int(np.searchsorted(rows, step, "right")) - 1
            found = counted(int(counts[step]), "bytes value")
            reason = f"step {step - rows[record]} holds {found}, the schema wants 1"
            block.fail(record, spec, reason)
        records = np.repeat(np.arange(len(block)), np.diff(stored))
        numbers = np.arange(len(spans.offsets))
        return cls(records, spans.offsets, spans.sizes, stored, numbers, stored)

    def selected(self, block: LocatedBlock, spec: int, selection: ElementSelection) -> Elements:
        """Return the selected elements; fail records that do not have them."""
        wanted, starts = selection.elements, selection.starts
        counts = np.diff(self.stored)
        records = np.repeat(np.arange(len(block)), np.diff(starts))
        bad = np.flatnonzero((wanted < 0) | (wanted >= counts[records]))
        for position in bad.tolist():
            record = int(records[position])
            found = counted(int(counts[record]), "element")
            reason = f"it has {found}, so element {wanted[position]} does not exist"
            block.fail(record, spec, reason)
        if len(bad):
            return self
        numbers = self.stored[:-1][records] + wanted
        return self._replace(
            records=records,
            offsets=self.offsets[numbers],
            sizes=self.sizes[numbers],
            starts=starts,
            numbers=numbers,
        )

    def at(self, positions: Ints) -> Elements:
        """Return the elements at some positions, which ascend."""
        records = self.records[positions]
        starts = np.searchsorted(records, np.arange(len(self.starts)))
        return self._replace(
            records=records,
            offsets=self.offsets[positions],
            sizes=self.sizes[positions],
            starts=starts,
            numbers=self.numbers[positions],
        )

    def images(self, block: LocatedBlock) -> _core.StoredImages:
        """Return the elements, which are image files, for native code."""
        return _core.StoredImages(block.records, self.records, self.offsets, self.sizes)

    def values(self, block: LocatedBlock) -> list[memoryview]:
        """Return the bytes of each element, without copying them."""
        positions = zip(
            self.records.tolist(), self.offsets.tolist(), self.sizes.tolist(), strict=True
        )
        return [block.block.view(record)[at : at + size] for record, at, size in positions]

    def each(
        self,
        block: LocatedBlock,
        spec: int,
        work: Callable[[int], None],
        threads: int,
        positions: Sequence[int] | None = None,
    ) -> None:
        """Call a function with the position of each element, and fail records where it raises.

        Args:
            block: The records.
            spec: Position of the native spec.
            work: Function that raises BadValueError for an element that cannot be decoded. It must
                be thread-safe.
            threads: Maximum number of threads.
            positions: Positions of some elements; by default all.
        """
        chosen = range(len(self.sizes)) if positions is None else positions
        bad: list[tuple[int, str]] = []

        def attempt(number: int) -> None:
            try:
                work(chosen[number])
            except BadValueError as error:
                bad.append((chosen[number], str(error)))

        with decoding():
            run_each(attempt, len(chosen), threads)
        for position, reason in sorted(bad):
            block.fail(int(self.records[position]), spec, reason)


class ElementDecoder:
    """Decodes bytes values into arrays. A subclass needs :meth:`decode`; other methods add speed.

    Several threads use one decoder at the same time.

    Args:
        name: Flat name of the feature.
        feature: Spec of the values.

    Attributes:
        dtype: Dtype of the column.
        known_shape: Shape of every array; None if it depends on the value.
        empty_shape: Shape of an array that does not exist, for records without elements.
    """

    def __init__(self, name: str, feature: Any) -> None:
        self.name = name
        self.feature = feature
        self.dtype: str = feature.column_dtype
        self.known_shape: tuple[int, ...] | None = feature.known_shape
        self.empty_shape: tuple[int, ...] = self.known_shape or ()

    def threads(self, block: LocatedBlock) -> int:
        """Return the number of threads that decode; starting them takes longer than copying."""
        return block.threads if self.feature.is_slow else 1

    def sources(self, block: LocatedBlock, spec: int, elements: Elements) -> Sequence[Any]:
        """Return what :meth:`decode` takes of each element: by default its bytes."""
        del spec
        return elements.values(block)

    def decode(self, value: Any, block: LocatedBlock, record: int) -> Any:
        """Decode a value.

        Args:
            value: Its source; by default the value, in the memory of the block.
            block: The records.
            record: Position of the value's record.

        Returns:
            A NumPy array, or another object with a ``shape`` that :meth:`store` takes.

        Raises:
            BadValueError: If the value cannot be decoded. The message becomes that of a
                DecodeError.
        """
        raise NotImplementedError

    def fill_later(
        self, block: LocatedBlock, spec: int, elements: Elements, numbers: Numbers
    ) -> None:
        """Decode elements of the known shape once the arena is allocated.

        Args:
            block: The records.
            spec: Position of the native spec.
            elements: The elements.
            numbers: Memory of the values, ``[n, *shape]``.
        """

        def fill(block: LocatedBlock, arena: Arena) -> None:
            self.fill(block, spec, elements, view_of(arena, numbers))

        block.finishers.append(fill)

    def fill(
        self, block: LocatedBlock, spec: int, elements: Elements, out: npt.NDArray[Any]
    ) -> None:
        """Decode elements of the known shape into ``[n, *shape]``."""
        values = self.sources(block, spec, elements)
        records = elements.records.tolist()

        def work(position: int) -> None:
            decoded = self.decode(values[position], block, records[position])
            if decoded.shape != self.known_shape:
                raise BadValueError(
                    f"its value has the shape {list(decoded.shape)}, the schema wants "
                    f"{list(self.known_shape or ())}"
                )
            self.store(decoded, out[position, ...].reshape(-1))

        elements.each(block, spec, work, self.threads(block))

    def plan_each(
        self, block: LocatedBlock, spec: int, elements: Elements
    ) -> tuple[list[tuple[int, ...]], Callable[[Ints], None]]:
        """Find the shape of each element.

        Returns:
            The shapes, and a function that stores the elements once the arena is allocated. It gets
            the offset of each in the arena, in bytes. Both are not valid if the block has failures.
        """
        decoded = self.decode_all(block, spec, elements)

        def store_later(offsets: Ints) -> None:
            def store(block: LocatedBlock, arena: Arena) -> None:
                def store_one(position: int) -> None:
                    shape, at = decoded[position].shape, int(offsets[position])
                    out = flat_view_of(arena, Numbers(self.dtype, shape, at))
                    self.store(decoded[position], out)

                elements.each(block, spec, store_one, self.threads(block))

            block.finishers.append(store)

        return [each.shape for each in decoded if each is not None], store_later

    def decode_all(self, block: LocatedBlock, spec: int, elements: Elements) -> list[Any]:
        """Decode elements; the result is incomplete if the block has failures afterwards."""
        values = self.sources(block, spec, elements)
        records = elements.records.tolist()
        decoded: list[Any] = [None] * len(values)

        def work(position: int) -> None:
            decoded[position] = self.decode(values[position], block, records[position])

        elements.each(block, spec, work, self.threads(block))
        return decoded

    def store(self, decoded: Any, out: npt.NDArray[Any]) -> None:
        """Write a result of :meth:`decode` to its memory, a one-dimensional array.

        Raises:
            BadValueError: If the value is not valid.
        """
        out[...] = decoded.reshape(-1)
