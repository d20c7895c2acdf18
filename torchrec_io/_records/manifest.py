"""Manifests: facts about the objects of a folder; docs/index-format.md has the layout.

With one, a dataset opens thousands of objects by a listing and one request.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .. import _core
from .._storage.byte_source import read_bytes
from .._storage.compression import MOST_INFLATED, CompressionChoice
from .._storage.location import Location
from .._storage.outputs import write_output
from .._storage.stamp import Stamp
from ..errors import IndexFormatError, StaleIndexError
from .formats import TFRECORD, RecordFormat
from .index import RecordIndex
from .index_file import IndexFacts

logger = logging.getLogger("torchrec_io")

# Folders and patterns leave out hidden names.
MANIFEST_NAME = ".torchrec_io.manifest"
# Larger manifests are neither written nor read.
_MOST_BYTES = 256 << 20
_MAGIC = b"torchrec_io manifest 2 "
_FIRST_BYTES = len(_MAGIC) + 9  # of the first line, with the checksum and the end of the line
_MOST_DATA_BYTES = 1 << 53
# Where no listing shows whether there is a manifest, it is asked for if it could save more requests
# than this.
_WORTH_ASKING = 8
# Attempts to write a manifest that other processes write, too.
_MOST_ATTEMPTS = 10


class ManifestEntry(NamedTuple):
    """Entry of a manifest: facts about an object.

    Attributes:
        facts: Facts of its index.
        tag: Its ETag when it was indexed; its version if there is no ETag.
    """

    facts: IndexFacts
    tag: str


def tag_of(stamp: Stamp) -> str:
    """Return the ETag of an object, else its version; ``""`` if the store has neither."""
    return next(filter(None, map(str, stamp.file)), "")


def encode_manifest(entries: Mapping[str, ManifestEntry]) -> bytes:
    """Return the bytes of a manifest.

    Args:
        entries: An entry for each object, by the name of the object in the folder.

    Raises:
        ValueError: If there are too many objects.
    """
    lines = (json.dumps([name, *facts, tag]) for name, (facts, tag) in sorted(entries.items()))
    body = "".join(f"{line}\n" for line in lines).encode()
    if len(body) > _MOST_BYTES - _FIRST_BYTES:
        raise ValueError(f"a manifest must have at most {_MOST_BYTES:,} bytes, got {len(body):,}")
    return _first_line(body) + body


def decode_manifest(content: bytes, path: str) -> dict[str, ManifestEntry]:
    """Return the entries of a manifest by the names of the objects.

    Args:
        content: Bytes of the manifest.
        path: Name of the manifest, for errors.

    Raises:
        IndexFormatError: If the content is damaged, or of another release.
    """
    try:
        if not content.startswith(_MAGIC):
            raise ValueError("it does not start as a manifest of this release does")
        body = content[_FIRST_BYTES:]
        if not content.startswith(_first_line(body)):
            raise ValueError("its checksum does not match")
        return dict(map(_entry_of, body.splitlines()))
    except (ValueError, RecursionError) as error:
        raise IndexFormatError(f"the manifest is damaged: {error}", path=path) from None


def _entry_of(line: bytes) -> tuple[str, ManifestEntry]:
    """Return the name and the entry in a line, which must be possible."""
    match json.loads(line):
        case [str(name), int(records), int(size), int(fingerprint), kind, str(tag)]:
            compression = next((each for each in MOST_INFLATED if each == kind), None)
            most = size * MOST_INFLATED[compression] // TFRECORD.overhead_bytes
            is_number = 0 <= size < _MOST_DATA_BYTES and 0 <= fingerprint < 1 << 64
            is_here = name != "" and "/" not in name
            if is_number and is_here and compression == kind and 0 <= records <= most:
                return name, ManifestEntry(IndexFacts(records, size, fingerprint, kind), tag)
    raise ValueError(f"{line[:40]!r} is no possible entry")


def _first_line(body: bytes) -> bytes:
    return b"%s%08x\n" % (_MAGIC, _core.crc32c(np.frombuffer(body, np.uint8)))


# ---- reading ----


def find_facts(
    files: Sequence[Location], compression: CompressionChoice, record_format: RecordFormat
) -> dict[Location, IndexFacts]:
    """Read the manifests of folders, and return the facts about the indexes of objects.

    Objects that were replaced after their manifest was written are left out.

    Args:
        files: Data files.
        compression: Compression of the files, as the user gave it.
        record_format: Record format of the files.
    """
    if record_format.code != TFRECORD.code:
        return {}
    folders: dict[Location, list[Location]] = {}
    for file in files:
        if file.local_path is None:
            folders.setdefault(file.parent, []).append(file)
    found = {}
    for folder, objects in folders.items():
        manifest = folder.child(MANIFEST_NAME)
        entries = _read(manifest) if _is_worth_asking(manifest, objects) else {}
        for file in objects:
            entry = entries.get(file.basename)
            if entry is not None and _is_of(entry, file.stamp()):
                found[file] = entry.facts
    if compression != "auto":
        found = {file: facts for file, facts in found.items() if facts.compression == compression}
    return found


def _is_worth_asking(manifest: Location, objects: Sequence[Location]) -> bool:
    if manifest.seen_stamp is not None:
        return True
    # The query of a signed URL is of one object alone.
    is_many = len(objects) > _WORTH_ASKING and not objects[0].is_signed
    return is_many and not manifest.has_listing


def _read(manifest: Location) -> dict[str, ManifestEntry]:
    """Return the entries of a manifest; none if there is no valid one."""
    try:
        size = manifest.stamp().size
        if size > _MOST_BYTES:
            reason = f"the manifest is damaged: it has {size:,} bytes"
            raise IndexFormatError(reason, path=manifest.name)
        return decode_manifest(read_bytes(manifest.open(), 0, size), manifest.name)
    except FileNotFoundError:
        return {}
    except (IndexFormatError, StaleIndexError, OSError) as error:
        logger.warning("the manifest of the folder is ignored: %s", error)
        return {}


def _is_of(entry: ManifestEntry, stamp: Stamp) -> bool:
    """Return whether an entry is of the object with a stamp."""
    return entry.tag != "" and (entry.tag, entry.facts.data_bytes) == (tag_of(stamp), stamp.size)


# ---- writing ----


def entry_of(index: RecordIndex) -> ManifestEntry | None:
    """Return the entry of an index in a manifest.

    None for local files, which open fast, and for an object that could be replaced unnoticed,
    because it has no ETag or version.
    """
    stamp = index.data_stamp
    if stamp is None or index.location.local_path is not None or not tag_of(stamp):
        return None
    return ManifestEntry(index.facts, tag_of(stamp))


def by_folder(
    entries: Mapping[Location, ManifestEntry], folder: Location | None = None
) -> dict[Location, dict[str, ManifestEntry]]:
    """Return the entries of the manifest of each folder, by the names of the objects.

    Args:
        entries: An entry for each data file.
        folder: Folder of all indexes, if they are not beside their data files.
    """
    found: dict[Location, dict[str, ManifestEntry]] = {}
    for file, entry in entries.items():
        found.setdefault(folder or file.parent, {})[file.basename] = entry
    return found


def update_manifest(folder: Location, entries: Mapping[str, ManifestEntry]) -> Location:
    """Add entries to the manifest of a folder, or make it.

    Other entries that it has are kept, unless their objects are known to be gone or replaced. Where
    another process has written it in the meantime, that is not lost.

    Args:
        folder: The folder.
        entries: An entry for each object, by the name of the object in the folder.

    Returns:
        Location of the manifest.

    Raises:
        OSError: If a request failed.
        StaleIndexError: If other processes write the manifest again and again.
        ValueError: If there are too many objects.
    """
    manifest = folder.child(MANIFEST_NAME)
    for _ in range(_MOST_ATTEMPTS):
        before = manifest.see_again()
        old = {} if before is None else _read(manifest)
        kept = {name: old[name] for name in old if _may_be_of(old[name], folder.child(name))}
        new = {**kept, **entries}
        is_same = before is not None and new == old
        if is_same or _replace(manifest, encode_manifest(new), before):
            return manifest
    raise StaleIndexError("other processes write the manifest again and again", path=manifest.name)


def _may_be_of(entry: ManifestEntry, file: Location) -> bool:
    """Return whether an entry is of an object, as far as that is known."""
    stamp = file.seen_stamp
    return not file.is_known_missing() if stamp is None else _is_of(entry, stamp)


def _replace(manifest: Location, content: bytes, before: Stamp | None) -> bool:
    """Write a manifest, unless another process has written it since; return whether it was done."""
    try:
        write_output(manifest, content, only_if=before or "absent")
    except (FileExistsError, StaleIndexError):
        return False
    return True
