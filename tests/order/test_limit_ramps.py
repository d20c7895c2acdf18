"""Batches by length, and packed rows, whose limits change at steps of the training."""

from __future__ import annotations

import functools
import itertools
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.order.test_length_batches import cut
from tests.order.test_packed_rows import rows_of
from tests.support.packing import Row, Token, fitted
from torchrec_io._order import length_batches as module
from torchrec_io._order.batch_sizes import BatchSizes
from torchrec_io._order.length_batches import LengthBatchedOrder
from torchrec_io._order.orders import RecordOrder
from torchrec_io._order.packed_rows import pack_rows
from torchrec_io._order.plan import EpochPlan
from torchrec_io._order.ramp import Ramp
from torchrec_io._order.selection import Span
from torchrec_io._order.steps import TrainingSteps
from torchrec_io._order.windows import Lengths, WindowedOrder

EPOCHS = 3
LEAST, BATCHES = 5, 3


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use windows of a few records."""
    monkeypatch.setattr(module, "_LEAST_WINDOW", LEAST)
    monkeypatch.setattr(module, "_WINDOW_BATCHES", BATCHES)


def ramps(least: int, most: int, steps: int = 12) -> st.SearchStrategy[Ramp]:
    some = st.integers(least, most)
    return st.builds(
        lambda first, others: Ramp({0: first, **others}),
        some,
        st.dictionaries(st.integers(1, steps), some, max_size=3),
    )


@st.composite
def trainings(draw: st.DrawFn) -> tuple[Ramp, TrainingSteps]:
    """Return the numbers of units of a rank in each step, and the steps."""
    sizes = draw(ramps(1, 3))
    uneven: Any = draw(st.sampled_from(["keep", "drop"]))
    flags = {name: draw(st.booleans()) for name in ("drop_last", "is_continued")}
    return sizes, TrainingSteps(BatchSizes.of(sizes), draw(st.integers(1, 3)), uneven, **flags)


def place_in(ramp: Ramp, step: int) -> int:
    """Return the place of a step's size among those of a ramp."""
    return sum(first <= step for first in ramp.sizes) - 1


# Cuts records, or the rest of units, into units of a limit.
Plan = Callable[[list[Any], int], list[Any]]


def model_epoch(
    windows: list[list[Any]],
    plan: Plan,
    rest_of: Callable[[list[Any]], list[Any]],
    limit_at: Callable[[int], tuple[int, int]],
) -> list[Any]:
    """Return the units of an epoch, planned one after another.

    Args:
        windows: Records of each window.
        plan: Plans some records.
        rest_of: Returns the records of units that are planned again.
        limit_at: Returns a place in the ramp, and the limit, of a unit.
    """
    units: list[Any] = []
    for records in windows:
        place, limit = limit_at(len(units))
        pending = plan(records, limit)
        while pending:
            if limit_at(len(units))[0] != place:
                place, limit = limit_at(len(units))
                pending = plan(rest_of(pending), limit)
            units.append(pending.pop(0))
    return units


def steps_of_units(sizes: Ramp, world: int, first: int) -> Iterator[int]:
    """Yield the step of each unit of an epoch that begins with a step."""
    for step in itertools.count(first):
        size = [*sizes.sizes.values()][place_in(sizes, step)]
        yield from [step] * (size * world)


def model_epochs(
    limits: Ramp,
    sizes: Ramp,
    steps: TrainingSteps,
    epoch_of: Callable[[int, Callable[[int], tuple[int, int]]], list[Any]],
) -> list[list[Any]]:
    """Return the units of some epochs.

    Args:
        limits: Limits of the units of each step.
        sizes: Numbers of units of a rank in each step.
        steps: The same, and how epochs end.
        epoch_of: Returns the units of an epoch, given a function for :func:`model_epoch`.
    """
    first, before, epochs = 0, 0, []
    for epoch in range(EPOCHS):
        step_of = functools.partial(steps_of_units, sizes, steps.world_size, first)

        def limit_at(unit: int, step_of: Any = step_of, before: int = before) -> tuple[int, int]:
            step = next(itertools.islice(step_of(), before + unit, None))
            place = place_in(limits, step)
            return place, [*limits.sizes.values()][place]

        units = epoch_of(epoch, limit_at)
        epochs.append(units)
        count = len(units)
        if steps.is_continued:
            before += count
            continue
        if steps.uneven == "drop":
            count -= count % steps.world_size
        while count > 0:
            whole = [*sizes.sizes.values()][place_in(sizes, first)] * steps.world_size
            of_rank_0 = -(-min(count, whole) // steps.world_size)
            first += not steps.drop_last or of_rank_0 * steps.world_size == whole
            count -= whole
    return epochs


def check_order(
    order: WindowedOrder, steps: TrainingSteps, model: Any, data: st.DataObject
) -> None:
    """Compare an order with the units of a model, unit by unit and as ranks read them."""
    contents: Callable[[Any], list[Any]] = (
        (lambda rows: [*rows_of(rows)]) if order.has_rows else (lambda batch: [batch.tolist()])
    )
    ramped = order.in_steps(steps)
    for epoch, units in enumerate(model):
        assert ramped.count(epoch) == len(units)
        found = [contents(ramped.plan_units(np.array([unit]), epoch)) for unit in range(len(units))]
        assert [*itertools.chain(*found)] == units
        for unit in (-1, len(units)):
            with pytest.raises(IndexError, match=f"no units {unit}"):
                ramped.plan_units(np.array([unit]), epoch)
    epoch = data.draw(st.integers(0, EPOCHS - 1))
    units = model[epoch]
    # Copies count no more windows than they need, of any epoch first.
    other: WindowedOrder = pickle.loads(pickle.dumps(ramped))
    assert other.describe() == order.describe()
    if units:
        unit = data.draw(st.integers(0, len(units) - 1))
        assert contents(other.plan_units(np.array([unit]), epoch)) == [units[unit]]
    # Whole steps of single units, so that a batch of rows has one length.
    found = []
    for rank in range(steps.world_size):
        for worker in range(2):

            def plan_of(count: int, rank: int = rank, worker: int = worker) -> EpochPlan:
                return EpochPlan(count, 1, 0, rank, steps.world_size, worker, 2)

            some = pickle.loads(pickle.dumps(ramped)).batches(epoch, plan_of, 0)
            found += [each for batch in some for each in contents(batch)]
    assert sorted(found) == sorted(units)


def order_of_records(lengths: list[int], shuffle: Any) -> tuple[RecordOrder, Lengths]:
    count = len(lengths)
    return RecordOrder(Span(0, count, count), shuffle, 4), Lengths(np.array(lengths, np.int64))


@given(
    lengths=st.lists(st.integers(0, 12), max_size=70),
    limits=ramps(12, 40),
    size=st.one_of(st.none(), st.integers(1, 4)),
    training=trainings(),
    data=st.data(),
)
def test_batches_by_length(
    lengths: list[int],
    limits: Ramp,
    size: int | None,
    training: tuple[Ramp, TrainingSteps],
    data: st.DataObject,
) -> None:
    steps, shuffle = training[1], data.draw(st.booleans())
    records, known = order_of_records(lengths, shuffle)
    order = LengthBatchedOrder(records, known, limits, size)

    def epoch_of(epoch: int, limit_at: Any) -> list[Any]:
        numbers = records.at(np.arange(len(lengths)), epoch).tolist()
        windows = [numbers[at : at + order.size] for at in range(0, len(numbers), order.size)]
        return model_epoch(
            windows,
            lambda some, limit: cut(some, lengths, limit, size),
            lambda units: [*itertools.chain(*units)],
            limit_at,
        )

    if not shuffle:
        check_order(order, steps, model_epochs(limits, training[0], steps, epoch_of), data)
        return
    # The batches of each window are in a random order, which the model does not know.
    ramped = order.in_steps(steps)
    for epoch in range(EPOCHS):
        units = [ramped.plan_units(np.array([unit]), epoch) for unit in range(ramped.count(epoch))]
        assert sorted(np.concatenate([[], *units]).tolist()) == [*range(len(lengths))]
        for unit, batch in enumerate(units):
            limit = ramped._limits(epoch).size(unit)
            assert len(batch) * max(1, lengths[int(batch[0])]) <= limit


def tokens_of(numbers: list[int], lengths: list[int], extra: int) -> list[list[Token]]:
    return [
        [Token(number, place) for place in range(lengths[number] + extra)]
        for number in numbers
        if lengths[number] > 0
    ]


def fit(documents: list[list[Token]], length: int) -> list[Row]:
    """Return rows of documents, packed by best fit in the order of the documents."""
    places = {document[0].document: place for place, document in enumerate(documents)}
    numbers = [document[0].document for document in documents]
    by_place = [[Token(places[number], at) for number, at in document] for document in documents]
    return [
        [[Token(numbers[place], at) for place, at in piece] for piece in row]
        for row in fitted(by_place, length)
    ]


def chunk(tokens: list[Token], limit_at: Any, last: str) -> list[Row]:
    rows: list[Row] = []
    while tokens:
        length = limit_at(len(rows))[1]
        part, tokens = tokens[:length], tokens[length:]
        if len(part) == length or last == "pad":
            rows.append([[*piece] for _, piece in itertools.groupby(part, lambda token: token[0])])
    return rows


@given(
    lengths=st.lists(st.one_of(st.integers(0, 12), st.integers(0, 60)), max_size=40),
    limits=ramps(1, 20),
    options=st.fixed_dictionaries(
        {
            "mode": st.sampled_from(["fit", "chunk"]),
            "window": st.integers(1, 40),
            "separator": st.sampled_from([None, 0]),
            "long": st.sampled_from(["split", "drop"]),
            "last": st.sampled_from(["drop", "pad"]),
        }
    ),
    training=trainings(),
    data=st.data(),
)
def test_packed_rows(
    lengths: list[int],
    limits: Ramp,
    options: dict[str, Any],
    training: tuple[Ramp, TrainingSteps],
    data: st.DataObject,
) -> None:
    records, known = order_of_records(lengths, data.draw(st.booleans()))
    pack = tio.Pack(limits, "tokens", **options)
    extra = 0 if pack.separator is None else 1
    least = min(limits.sizes.values())
    order = pack_rows(records, known, pack)

    def epoch_of(epoch: int, limit_at: Any) -> list[Any]:
        numbers = records.at(np.arange(len(lengths)), epoch).tolist()
        if pack.mode == "chunk":
            tokens = [*itertools.chain(*tokens_of(numbers, lengths, extra))]
            return chunk(tokens, limit_at, pack.last)
        count = -(-len(lengths) // pack.window)
        cuts = [number * len(lengths) // count for number in range(count + 1)] if count else []
        windows = [
            [
                document
                for document in tokens_of(numbers[begin:end], lengths, extra)
                if pack.long == "split" or len(document) <= least
            ]
            for begin, end in itertools.pairwise(cuts)
        ]

        def rest_of(rows: list[Row]) -> list[list[Token]]:
            tokens = [token for row in rows for piece in row for token in piece]
            tokens.sort(key=lambda token: (numbers.index(token.document), token.place))
            return [[*part] for _, part in itertools.groupby(tokens, lambda token: token.document)]

        return model_epoch(windows, fit, rest_of, limit_at)

    steps = training[1]
    model = model_epochs(limits, training[0], steps, epoch_of)
    check_order(order, steps, model, data)
    ramped = order.in_steps(steps)
    for epoch, rows in enumerate(model):
        for unit, row in enumerate(rows):
            length = ramped.plan_units(np.array([unit]), epoch).length
            assert sum(map(len, row)) <= length
