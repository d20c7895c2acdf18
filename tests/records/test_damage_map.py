"""Damage maps: which cells of a file are marked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from torchrec_io.records.damage_map import DamageMap


@given(
    size=st.integers(1, 5000),
    parts=st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 500)), max_size=5),
    width=st.integers(1, 100),
)
def test_cells_of_damaged_bytes_are_marked(
    size: int, parts: list[tuple[int, int]], width: int
) -> None:
    damage = DamageMap(size)
    expected = [False] * width
    for begin, count in parts:
        damage.mark(begin, begin + count)
        for byte in range(min(begin, size - 1), min(begin + count, size)):
            for cell in range(byte * width // size, ((byte + 1) * width - 1) // size + 1):
                expected[cell] = True
    cells = damage.cells(width)
    for cell in range(width):
        if expected[cell]:
            assert cells[cell]
        # One part in 1,024 may reach into the cells beside.
        near = expected[max(cell - 1, 0) : cell + 2]
        assert not cells[cell] or any(near)


def test_empty_files_and_places_outside() -> None:
    damage = DamageMap(0)
    damage.mark(0, 0)
    assert damage.cells(3) == [True] * 3
    damage = DamageMap(1024)
    damage.mark(5000, 6000)
    assert damage.cells(4) == [False, False, False, True]
