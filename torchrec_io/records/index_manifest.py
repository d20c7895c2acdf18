"""Manifests: what the indexes of a folder have in common; docs/index-format.md has the layout."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .. import _core
from ..errors import IndexFormatError
from ..storage.byte_source import Stamp
from ..storage.compression import COMPRESSIONS, MOST_INFLATED
from .formats import TFRECORD
from .index import IndexFacts

# Folders and patterns leave out hidden names.
MANIFEST_NAME = ".torchrec_io.manifest"
# Larger manifests are neither written nor read.
MOST_MANIFEST_BYTES = 128 << 20
MOST_ENTRIES = 1_000_000

_MAGIC = b"\x89TFMAN\r\n"
_VERSION = 1
# Magic, version, record format, entries, records, bytes of text, checksum of what follows.
_HEAD = struct.Struct("<8sIIQQQI")
_CHECKSUM = struct.Struct("<I")
_START = _HEAD.size + _CHECKSUM.size
_ENTRY = np.dtype(
    [
        ("records", "<u8"),
        ("data_bytes", "<u8"),
        ("fingerprint", "<u8"),
        ("compression", "<u4"),
        ("name_bytes", "<u4"),
        ("tag_bytes", "<u4"),
        ("index_tag_bytes", "<u4"),
    ]
)
_COMPRESSIONS = (None, *COMPRESSIONS)  # in the order of their numbers
_MOST_DATA_BYTES = 1 << 53
_MOST_INFLATED = np.array([MOST_INFLATED[each] for each in _COMPRESSIONS], np.uint64)


class ManifestEntry(NamedTuple):
    """Entry of a manifest: facts about an object.

    Attributes:
        facts: Facts of its index.
        tag: Its ETag when it was indexed; its version if there is no ETag.
        index_tag: ETag or version of its index; ``""`` if it is not known.
    """

    facts: IndexFacts
    tag: str
    index_tag: str = ""

    def texts(self, name: str) -> tuple[bytes, bytes, bytes]:
        """Return the texts of the entry, as a manifest has them."""
        return name.encode(), self.tag.encode(), self.index_tag.encode()


def tag_of(stamp: Stamp) -> str:
    """Return the ETag of an object, else its version; ``""`` if the store has neither."""
    return next(filter(None, map(str, stamp.file)), "")


def encode_manifest(entries: dict[str, ManifestEntry]) -> bytes:
    """Return the bytes of a manifest.

    Args:
        entries: An entry for each object, by the name of the object in the folder.

    Raises:
        ValueError: If there are too many objects.
    """
    if len(entries) > MOST_ENTRIES:
        raise ValueError(
            f"a manifest must have at most {MOST_ENTRIES:,} objects, got {len(entries):,}"
        )
    names = sorted(entries)
    texts = [entries[name].texts(name) for name in names]
    table = np.zeros(len(names), _ENTRY)
    for number, name in enumerate(names):
        facts = entries[name].facts
        table[number] = (
            *facts[:3],
            _COMPRESSIONS.index(facts.compression),
            *map(len, texts[number]),
        )
    body = table.tobytes() + b"".join(itertools.chain.from_iterable(texts))
    if _START + len(body) > MOST_MANIFEST_BYTES:
        raise ValueError(
            f"a manifest must have at most {MOST_MANIFEST_BYTES:,} bytes, got {len(body):,}"
        )
    records = sum(entry.facts.records for entry in entries.values())
    size = len(body) - table.nbytes
    head = _HEAD.pack(_MAGIC, _VERSION, TFRECORD.code, len(names), records, size, _checksum(body))
    return head + _CHECKSUM.pack(_checksum(head)) + body


def decode_manifest(content: bytes, path: str) -> dict[str, ManifestEntry]:
    """Return the entries of a manifest by the names of the objects.

    Args:
        content: Bytes of the manifest.
        path: Name of the manifest, for errors.

    Raises:
        IndexFormatError: If the content is damaged, or of another release or record format.
    """
    try:
        return dict(_decode(content))
    except ValueError as error:
        raise IndexFormatError(f"the manifest is damaged: {error}", path=path) from None


def _decode(content: bytes) -> Iterable[tuple[str, ManifestEntry]]:
    if len(content) < _START or len(content) > MOST_MANIFEST_BYTES:
        raise ValueError(f"it has {len(content):,} bytes")
    magic, version, code, count, records, size, checksum = _HEAD.unpack_from(content)
    if magic != _MAGIC:
        raise ValueError("it does not start with the signature of a manifest")
    if _CHECKSUM.unpack_from(content, _HEAD.size)[0] != _checksum(content[: _HEAD.size]):
        raise ValueError("the checksum of its header does not match")
    if (version, code) != (_VERSION, TFRECORD.code):
        raise ValueError(f"it has version {version} and record format {code}")
    texts_at = _START + count * _ENTRY.itemsize
    if count > MOST_ENTRIES or texts_at + size != len(content):
        raise ValueError(f"{count:,} objects and {size:,} bytes of text are not its size")
    if checksum != _checksum(content[_START:]):
        raise ValueError("the checksum of its content does not match")
    table = np.frombuffer(content, _ENTRY, count, _START)
    facts = list(_facts_of(table, records))
    texts = _texts_of(table, content[texts_at:])
    names = texts[::3]
    if any(not name or "/" in name for name in names):
        raise ValueError("an object has no name, or one in another folder")
    if not all(before < after for before, after in pairwise(names)):
        raise ValueError("names do not ascend")
    return zip(names, map(ManifestEntry, facts, texts[1::3], texts[2::3]), strict=True)


def _facts_of(table: np.ndarray, records: int) -> Iterable[IndexFacts]:
    """Return the facts of a table of entries, which must be possible."""
    size = table["data_bytes"]
    if (table["compression"] >= len(_COMPRESSIONS)).any():
        raise ValueError("an object has an unknown compression")
    if (size >= _MOST_DATA_BYTES).any():
        raise ValueError("the size of an object is too large")
    inflated = size * _MOST_INFLATED[table["compression"]]
    if (table["records"] > inflated // np.uint64(TFRECORD.overhead_bytes)).any():
        raise ValueError("an object has more records than its size allows")
    counts = table["records"].tolist()
    if sum(counts) != records:
        raise ValueError(f"it says {records:,} records, its objects have {sum(counts):,}")
    codes = table["compression"].tolist()
    columns = (counts, size.tolist(), table["fingerprint"].tolist())
    return map(IndexFacts, *columns, (_COMPRESSIONS[code] for code in codes))


def _texts_of(table: np.ndarray, data: bytes) -> list[str]:
    """Return the name, the tag and the tag of the index of each entry in turn."""
    names = ("name_bytes", "tag_bytes", "index_tag_bytes")
    sizes = np.stack([table[name] for name in names], axis=1).ravel()
    ends = np.cumsum(sizes, dtype=np.uint64)
    if (int(ends[-1]) if len(ends) else 0) != len(data):
        raise ValueError("its texts have another size")
    bounds = pairwise([0, *ends.tolist()])
    return [data[begin:end].decode() for begin, end in bounds]


def _checksum(data: bytes) -> int:
    return _core.crc32c(np.frombuffer(data, np.uint8))
