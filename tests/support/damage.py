"""Random damage of files, and a model of the records that survive it."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import strategies as st

from tests.support.tfrecord import frame

# A kind of damage, a place as a fraction of the file, and bytes.
Damage = tuple[str, float, bytes]
DAMAGES: st.SearchStrategy[list[Damage]] = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut front", "cut end", "insert", "delete"]),
        st.floats(0, 1),
        st.binary(min_size=1, max_size=60),
    ),
    max_size=4,
)


def damaged(content: bytes, damages: Iterable[Damage]) -> bytes:
    """Damage the bytes of a file."""
    for kind, fraction, data in damages:
        at = min(int(fraction * len(content)), max(len(content) - 1, 0))
        if kind == "flip" and content:
            content = content[:at] + bytes([content[at] ^ (data[0] | 1)]) + content[at + 1 :]
        elif kind == "cut front":
            content = content[len(data) :]
        elif kind == "cut end":
            content = content[: len(content) - len(data)]
        elif kind == "insert":
            content = content[:at] + data + content[at:]
        elif kind == "delete":
            content = content[:at] + content[at + len(data) :]
    return content


def survivors(content: bytes, records: Iterable[bytes]) -> dict[int, bytes]:
    """Return the offset and data of each record whose frame is somewhere in a damaged file."""
    found = {}
    for record in set(records):
        whole = frame(record)
        at = content.find(whole)
        while at >= 0:
            found[at] = record
            at = content.find(whole, at + 1)
    return dict(sorted(found.items()))
