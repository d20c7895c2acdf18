"""The format of manifests: what is written is read, and anything else is refused."""

from __future__ import annotations

import pytest

from tests.fuzz.python.fuzz_manifest import signed
from torchrec_io import IndexFormatError
from torchrec_io._records.index_file import IndexFacts
from torchrec_io._records.manifest import (
    MANIFEST_NAME,
    ManifestEntry,
    decode_manifest,
    encode_manifest,
)


def test_what_is_written_is_read() -> None:
    entries = {
        'b "\n\u00e9\U0001f600': ManifestEntry(IndexFacts(2, 100, (1 << 64) - 1, "gzip"), '"one"'),
        "a": ManifestEntry(IndexFacts(0, 0), ""),
    }
    content = encode_manifest(entries)
    assert decode_manifest(content, MANIFEST_NAME) == entries
    assert encode_manifest(dict(reversed(entries.items()))) == content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89TFMAN\r\n" + bytes(60), "does not start as a manifest of this release"),
        (encode_manifest({})[:-2] + b"x\n", "its checksum does not match"),
        (signed(b"[" * 9000 + b"\n"), "the manifest is damaged"),
        (signed(b"\xff\n"), "the manifest is damaged"),
        (signed(b'["a", 2, 16, 0, null, "t"]\n'), "is no possible entry"),  # too many records
        (signed(b'["a", -1, 16, 0, null, "t"]\n'), "is no possible entry"),
        (signed(b'["a", 1, 9007199254740992, 0, null, "t"]\n'), "is no possible entry"),
        (signed(b'["a", 1, 16, 18446744073709551616, null, "t"]\n'), "is no possible entry"),
        (signed(b'["a", 1, 16, 0, "lzma", "t"]\n'), "is no possible entry"),
        (signed(b'["a", 1, 16, 0, ["gzip"], "t"]\n'), "is no possible entry"),
        (signed(b'["a/b", 1, 16, 0, null, "t"]\n'), "is no possible entry"),
        (signed(b'["", 1, 16, 0, null, "t"]\n'), "is no possible entry"),
        (signed(b'["a", 1, 16, 0, null]\n'), "is no possible entry"),
        (signed(b'{"a": 1}\n'), "is no possible entry"),
    ],
)
def test_manifests_that_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(IndexFormatError, match=f"the manifest is damaged: .*{message}|{message}"):
        decode_manifest(content, MANIFEST_NAME)
