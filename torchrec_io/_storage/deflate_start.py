"""Decoding of deflate streams that start at any bit."""

from __future__ import annotations

from collections.abc import Iterable

# Parts of a deflate stream (RFC 1951): values and their numbers of bits, lowest bit first.
_Bits = Iterable[tuple[int, int]]

# A block with the fixed codes, and nothing in it.
_EMPTY_FIXED: _Bits = [(0, 1), (1, 2), (0, 7)]
# Order in which a block stores the lengths of the code of lengths, as far as they are used below.
_ORDER = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1)
_LENGTHS = {1: 1, 0: 2, 18: 2}
_ONE, _ZEROS = (0, 1), (3, 2)  # the codes of a length of one, and of many lengths of zero
# A block with codes of its own, an odd number of bits, and nothing in it: of the 257 literals the
# last two have codes, the very last one of which ends the block.
_EMPTY_DYNAMIC: _Bits = [
    *[(0, 1), (2, 2), (0, 5), (0, 5), (len(_ORDER) - 4, 4)],
    *[(_LENGTHS.get(symbol, 0), 3) for symbol in _ORDER],
    *[_ZEROS, (138 - 11, 7), _ZEROS, (255 - 138 - 11, 7), _ONE, _ONE, _ONE],
    (1, 1),
]


def lead_in(bit: int, first: int) -> bytes:
    """Return input for a decoder of a deflate stream that starts inside of a byte.

    Decoders take whole bytes. So blocks that decode to nothing come first, which end at that bit.

    Args:
        bit: Bit of the byte where the stream starts, from 1 to 7.
        first: The byte. The input takes its place.
    """
    value, size = _PADDING[bit]
    value |= (first >> bit << bit) << (size - bit)
    return value.to_bytes((size - bit) // 8 + 1, "little")


def _pad(bit: int) -> tuple[int, int]:
    """Return blocks that decode to nothing and end at a bit of a byte, and their size in bits."""
    value = size = 0
    blocks = [_EMPTY_DYNAMIC] if bit % 2 else []
    while sum(count for block in blocks for _, count in block) % 8 != bit:
        blocks.append(_EMPTY_FIXED)
    for part, count in (bits for block in blocks for bits in block):
        value |= part << size
        size += count
    return value, size


_PADDING = [_pad(bit) for bit in range(8)]
