"""Slices like those of TensorFlow Datasets, and disjoint, exhaustive, stable splits."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from torchrec_io._order import split
from torchrec_io._order.selection import Selection, Span, Subset
from torchrec_io._order.split import (
    fractions_to_counts,
    parse_slice,
    split_groups,
    split_records,
)

seeds = st.integers(-(2**70), 2**70)
fraction_lists = st.lists(st.integers(1, 30), min_size=1, max_size=6).map(
    lambda weights: [weight / sum(weights) for weight in weights]
)
files = st.lists(st.integers(0, 60), max_size=8)


def names_of(count: int) -> list[tuple[str, str]]:
    """Return names of files, not in sorted order."""
    return [(f"train-{number * 7 % 5}", f"{number:02}") for number in range(count)]


def numbers_of(selection: Selection) -> list[int]:
    numbers: list[int] = selection.numbers_at(np.arange(len(selection))).tolist()
    return numbers


def check_parts(parts: Sequence[Subset], whole: Sequence[int], counts: Sequence[int]) -> None:
    """Check that parts are disjoint and exhaustive, and have these sizes."""
    assert [len(part) for part in parts] == list(counts)
    assert sorted(itertools.chain(*map(numbers_of, parts))) == list(whole)


# ---- slices ----


# Results of ReadInstruction.from_spec("train" + text).to_absolute in tensorflow_datasets 4.9:
# round() to even, then negative values count from the end.
TFDS_SLICES = [
    ("[:80%]", 100, (0, 80)),
    ("[80%:]", 100, (80, 100)),
    ("[10%:20%]", 1000, (100, 200)),
    ("[100:200]", 1000, (100, 200)),
    ("[1_00:2_00]", 1000, (100, 200)),
    ("[-5%:]", 1000, (950, 1000)),
    ("[:-5%]", 1000, (0, 950)),
    ("[-10%:-5%]", 1000, (900, 950)),
    ("[-5:]", 7, (2, 7)),
    ("[:-5]", 7, (0, 2)),
    ("[-7:7]", 7, (0, 7)),
    ("[0:7]", 7, (0, 7)),
    ("[:100%]", 7, (0, 7)),
    ("[-100%:]", 7, (0, 7)),
    ("[:50%]", 5, (0, 2)),  # 2.5 rounds to the even 2
    ("[50%:]", 5, (2, 5)),
    ("[:50%]", 7, (0, 4)),  # 3.5 rounds to the even 4
    ("[-50%:]", 5, (3, 5)),
    ("[:33%]", 10, (0, 3)),
    ("[33%:66%]", 10, (3, 7)),
    ("[66%:]", 10, (7, 10)),
    ("[:12.5%]", 1000, (0, 125)),
    ("[99.95%:]", 10_000, (9995, 10_000)),
    ("[-0.5%:]", 1000, (995, 1000)),
    ("[-5%:]", 4, (0, 4)),  # -0.2 rounds to 0, the first record
    ("[0:50%]", 10, (0, 5)),
    ("[:1%]", 10**11, (0, 10**9)),
    # Slices that only this library supports.
    ("", 7, (0, 7)),
    ("[:]", 7, (0, 7)),
    ("", 0, (0, 0)),
    ("[:]", 0, (0, 0)),
    ("[:80%]", 0, (0, 0)),
]


def test_slices_are_those_of_tfds() -> None:
    for text, size, (begin, end) in TFDS_SLICES:
        assert parse_slice(text, size) == Span(begin, end - begin, size), text


@given(st.integers(1, 10**12), st.lists(st.integers(0, 100), min_size=1, max_size=10))
def test_percent_slices_have_no_gap_or_overlap(size: int, cuts: list[int]) -> None:
    end = 0
    for low, high in itertools.pairwise(sorted({0, *cuts, 100})):
        if round(low * size / 100.0) == round(high * size / 100.0):
            continue
        span = parse_slice(f"[{low}%:{high}%]", size)
        assert span.begin == end
        end = span.begin + span.size
    assert end == size


def test_invalid_texts_are_rejected_with_an_example() -> None:
    texts = [
        *("80%", "train", "train[:80%]", "[]", "[5]", "[5%]", "[1:2:3]", "[a:b]", "[:80 %]"),
        *(" [:80%]", "[:80%]\n", "[:--5]", "[:+5]", "[:1.5]", "[:2shard]", "[:_5]", "[:٣]", "[:%]"),
        *("[:101%]", "[-100.5%:]", "[:11]", "[11:]", "[-11:]", "[10%:5]", "[5:50%]"),
        *("[5:5]", "[5:4]", "[:0]", "[10:]", "[60%:40%]", "[:4%]", "[-4%:0]"),
    ]
    for text in texts:
        message = f"{re.escape(repr(text))}.*slices look like.*'\\[:80%]'"
        with pytest.raises(ValueError, match=message):
            parse_slice(text, 10)


# ---- counts ----


@given(fraction_lists, st.integers(0, 10**12))
def test_counts_are_complete_and_near_the_fractions(fractions: list[float], size: int) -> None:
    counts = fractions_to_counts(fractions, size)
    assert sum(counts) == size
    whole = sum(map(Fraction, map(repr, fractions)))
    for count, fraction in zip(counts, fractions, strict=True):
        assert abs(count - Fraction(repr(fraction)) / whole * size) < 1


def test_counts_examples() -> None:
    for fractions, size, counts in (
        ([1], 7, [7]),
        ([0.8, 0.1, 0.1], 1000, [800, 100, 100]),
        ([0.8, 0.1, 0.1], 10, [8, 1, 1]),
        ([0.7, 0.3], 5, [4, 1]),  # exactly 3.5, not the float slightly below
        ([0.5, 0.5], 5, [3, 2]),
        ([1 / 3, 1 / 3, 1 / 3], 10**18, [(10**18 - 1) // 3, (10**18 + 2) // 3, (10**18 - 1) // 3]),
        ([0.1] * 10, 5, [1, 0, 1, 0, 1, 0, 1, 0, 1, 0]),
        ([0.999_999_5, 0.000_000_1], 3, [3, 0]),
        ([0.25, 0.75], 0, [0, 0]),
        ([99.5, 0.5], 1000, [995, 5]),
    ):
        assert fractions_to_counts(fractions, size) == counts


def test_percentages_and_weights() -> None:
    for weights in ([80, 10, 10], [8, 1, 1], [80.0, 10.0, 10.0], [1600, 200, 200]):
        for size in (0, 7, 12345):
            expected = fractions_to_counts([0.8, 0.1, 0.1], size)
            assert fractions_to_counts(weights, size) == expected


@pytest.mark.parametrize(
    ("fractions", "reason"),
    [
        ([], "the sum 0$"),
        ([0.5, 0.4], "the sum 0.9$"),
        ([0.8, 0.1, 0.2], "the sum 1.1$"),
        ([0.5, 0.500002], "the sum 1.000002$"),
        ([1.0, 0.0], "positive"),
        ([1.5, -0.5], "positive"),
        ([math.nan, 1.0], "positive"),
        ([math.inf], "positive"),
    ],
)
def test_invalid_fractions_are_rejected(fractions: list[float], reason: str) -> None:
    with pytest.raises(ValueError, match=f"fractions must .*{reason}"):
        fractions_to_counts(fractions, 10)


# ---- by records ----


@given(files, fraction_lists, seeds)
def test_parts_are_disjoint_and_exhaustive(
    records: list[int], fractions: list[float], seed: int
) -> None:
    total = sum(records)
    parts = split_records(records, names_of(len(records)), None, fractions, seed)
    assert {part.total for part in parts} == {total}
    check_parts(parts, range(total), fractions_to_counts(fractions, total))


def test_chunk_size_has_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [100, 0, 300, 1, 0, 77, 500]
    chosen = Subset.from_mask(np.random.default_rng(0).random(sum(records)) < 0.4)
    keys = [b"%d" % (number % 50) for number in range(len(chosen))]

    def parts() -> list[str]:
        by_record = split_records(records, names_of(7), chosen, [0.6, 0.4], 1)
        by_group = split_groups(keys, chosen, chosen.total, [0.6, 0.4], 1)
        return [part.fingerprint() for part in (*by_record, *by_group)]

    whole = parts()
    monkeypatch.setattr(split, "CHUNK", 64)
    assert parts() == whole


def test_nested_split_with_the_same_seed_is_independent() -> None:
    [part, _] = split_records([10**5], [("a", "1")], None, [0.5, 0.5], 0)
    [inner, _] = split_records([10**5], [("a", "1")], part, [0.5, 0.5], 0)
    [other, _] = split_records([10**5], [("a", "1")], None, [0.5, 0.5], 1)
    # Both select about half of any half: 25,000, with a standard deviation of about 80.
    both = other.mask(0, 10**5) & part.mask(0, 10**5)
    assert abs(int(both.sum()) - 25_000) < 500
    low_half = [number for number in numbers_of(inner) if number < 50_000]
    assert abs(len(low_half) - 12_500) < 500


def test_splits_are_stable_between_releases() -> None:
    # A record that was in the test part must not be in the training part of a newer release.
    parts = split_records([8, 4], [("b", "1"), ("a", "2")], None, [0.5, 0.25, 0.25], 7)
    assert [numbers_of(part) for part in parts] == [[3, 4, 6, 7, 8, 9], [1, 2, 5], [0, 10, 11]]
    keys = [b"%d" % (number // 2) for number in range(12)]
    groups = split_groups(keys, None, 12, [0.5, 0.5], 7)
    assert [numbers_of(part) for part in groups] == [[2, 3, 4, 5, 10, 11], [0, 1, 6, 7, 8, 9]]


# ---- by groups ----

group_keys = st.lists(
    st.one_of(st.none(), st.integers(0, 30).map(lambda key: b"group %d" % key)), max_size=200
)


@given(group_keys, fraction_lists, seeds)
def test_groups_stay_whole(keys: list[bytes | None], fractions: list[float], seed: int) -> None:
    parts = split_groups(keys, None, len(keys), fractions, seed)
    assert len(parts) == len(fractions)
    known = [number for number, key in enumerate(keys) if key is not None]
    check_parts(parts, known, [len(part) for part in parts])
    groups = [{keys[number] for number in numbers_of(part)} for part in parts]
    assert sum(map(len, groups)) == len({key for key in keys if key is not None})


@given(group_keys, fraction_lists, seeds)
def test_groups_approximate_the_fractions(
    keys: list[bytes | None], fractions: list[float], seed: int
) -> None:
    known = [key for key in keys if key is not None]
    assume(known)
    largest = max(map(known.count, set(known)))
    parts = split_groups(keys, None, len(keys), fractions, seed)
    wanted = fractions_to_counts(fractions, len(known))
    # Each boundary moves by at most half a group.
    dealt, due = np.cumsum([len(part) for part in parts]), np.cumsum(wanted)
    assert np.abs(dealt - due).max() * 2 <= largest


@given(group_keys, fraction_lists, seeds, st.data())
def test_groups_do_not_depend_on_the_order_of_records(
    keys: list[bytes | None], fractions: list[float], seed: int, data: st.DataObject
) -> None:
    def groups(of: list[bytes | None]) -> list[set[bytes | None]]:
        parts = split_groups(of, None, len(of), fractions, seed)
        return [{of[number] for number in numbers_of(part)} for part in parts]

    assert groups(data.draw(st.permutations(keys))) == groups(keys)


@given(group_keys, st.integers(0, 99))
def test_groups_of_a_selection(keys: list[bytes | None], gaps: int) -> None:
    mask = np.random.default_rng(gaps).random(len(keys)) < 0.6
    chosen = Subset.from_mask(mask)
    of_chosen = [keys[number] for number in numbers_of(chosen)]
    parts = split_groups(of_chosen, chosen, len(keys), [0.5, 0.5], 0)
    for part, alone in zip(
        parts, split_groups(of_chosen, None, len(chosen), [0.5, 0.5], 0), strict=True
    ):
        assert numbers_of(part) == chosen.numbers_at(np.array(numbers_of(alone), int)).tolist()
