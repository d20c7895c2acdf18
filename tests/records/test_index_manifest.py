"""The format of manifests: what is written is read, and anything else is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.python.fuzz_manifest import check, signed
from torchrec_io import IndexFormatError
from torchrec_io.records.index import IndexFacts
from torchrec_io.records.index_manifest import (
    MANIFEST_NAME,
    MOST_ENTRIES,
    ManifestEntry,
    decode_manifest,
    encode_manifest,
)
from torchrec_io.storage.compression import Compression

SIZES = st.integers(0, (1 << 53) - 1)
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/"), min_size=1)


@st.composite
def entries_of(draw: st.DrawFn) -> ManifestEntry:
    size = draw(SIZES)
    compressions: list[Compression | None] = [None, "gzip", "zlib", "zstd"]
    compression = draw(st.sampled_from(compressions))
    most = size // 16 if compression is None else size * 1032 // 16
    records = draw(st.integers(0, min(most, 1 << 40)))
    facts = IndexFacts(records, size, draw(st.integers(0, (1 << 64) - 1)), compression)
    tags = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
    return ManifestEntry(facts, draw(tags), draw(tags))


@given(entries=st.dictionaries(NAMES, entries_of(), max_size=20))
def test_what_is_written_is_read(entries: dict[str, ManifestEntry]) -> None:
    content = encode_manifest(entries)
    found = decode_manifest(content, MANIFEST_NAME)
    assert found == entries
    assert list(found) == sorted(entries)
    assert encode_manifest(dict(reversed(found.items()))) == content


@given(
    entries=st.dictionaries(NAMES, entries_of(), max_size=4),
    at=st.integers(0, 1 << 16),
    value=st.binary(min_size=1, max_size=9),
    options=st.sampled_from([b"\0", b"\1"]),
)
def test_what_is_changed_is_refused_or_another_manifest(
    entries: dict[str, ManifestEntry], at: int, value: bytes, options: bytes
) -> None:
    content = bytearray(encode_manifest(entries))
    at %= len(content)
    content[at : at + len(value)] = value
    check(options + content)


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (0, b"x", "does not start with the signature"),
        (8, b"\2", "it has version 2 and record format 0"),
        (12, b"\1", "record format 1"),
        (16, b"\3", "are not its size"),
        (22, b"\xff\xff", "are not its size"),
        (24, b"\1", "it says 1 records, its objects have 5"),
        (48, b"\7", "more records than its size allows"),
        (56 + 7, b"\1", "the size of an object is too large"),
        (72, b"\7", "unknown compression"),
        (76, b"\2", "its texts have another size"),
        (128, b"c", "names do not ascend"),
        (-1, b"\xff", "codec can't decode"),
        (128, b"/", "no name, or one in another folder"),
    ],
)
def test_manifests_that_are_refused(at: int, value: bytes, message: str) -> None:
    entries = {
        "b": ManifestEntry(IndexFacts(2, 100), "one"),
        "c": ManifestEntry(IndexFacts(3, 100), "two"),
    }
    content = bytearray(encode_manifest(entries))
    at %= len(content)
    content[at : at + len(value)] = value
    assert len(content) == len(encode_manifest(entries))
    with pytest.raises(IndexFormatError, match=f"the manifest is damaged: .*{message}"):
        decode_manifest(signed(bytes(content)), MANIFEST_NAME)


def test_too_many_objects() -> None:
    entry = ManifestEntry(IndexFacts(0, 0), "")
    names = map(str, range(MOST_ENTRIES + 1))
    with pytest.raises(ValueError, match="a manifest must have at most 1,000,000 objects"):
        encode_manifest(dict.fromkeys(names, entry))
