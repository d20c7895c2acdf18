"""Reading and writing of manifests, which tell about the indexes of remote objects."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from ..errors import IndexFormatError, StaleIndexError
from ..storage.byte_source import Stamp
from ..storage.compression import CompressionChoice
from ..storage.location import Location
from ..storage.outputs import write_output
from .formats import TFRECORD, RecordFormat
from .index import IndexFacts
from .index_manifest import (
    MANIFEST_NAME,
    MOST_MANIFEST_BYTES,
    ManifestEntry,
    decode_manifest,
    encode_manifest,
    tag_of,
)

logger = logging.getLogger("torchrec_io")

# Where no listing shows whether there is a manifest, it is asked for if it could save more requests
# than this.
_WORTH_ASKING = 8
# Attempts to write a manifest that other processes write, too.
_MOST_ATTEMPTS = 10


def find_facts(
    files: Sequence[Location], compression: CompressionChoice, record_format: RecordFormat
) -> dict[Location, IndexFacts]:
    """Return what the manifests of folders say about the indexes of objects as they are now.

    Entries of objects that were replaced since are left out.

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
        if not _is_worth_asking(manifest, objects):
            continue
        entries = read_manifest(manifest)
        for file in objects:
            entry = entries.get(file.basename)
            if entry is not None and is_current(entry, file):
                found[file] = entry.facts
    if compression == "auto":
        return found
    return {file: facts for file, facts in found.items() if facts.compression == compression}


def _is_worth_asking(manifest: Location, objects: Sequence[Location]) -> bool:
    if manifest.seen_stamp is not None:
        return True
    # The query of a signed URL is of one object alone.
    is_many = len(objects) > _WORTH_ASKING and not objects[0].is_signed
    return is_many and not manifest.has_listing


def read_manifest(manifest: Location) -> dict[str, ManifestEntry]:
    """Return the entries of a manifest by the names of objects; none without a valid manifest."""
    try:
        size, name = manifest.stamp().size, manifest.name
        if size > MOST_MANIFEST_BYTES:
            raise IndexFormatError(f"the manifest is damaged: it has {size:,} bytes", path=name)
        return decode_manifest(manifest.open().read(0, size), name)
    except FileNotFoundError:
        return {}
    except (IndexFormatError, StaleIndexError, OSError) as error:
        logger.warning("the manifest of the folder is ignored: %s", error)
        return {}


def is_current(entry: ManifestEntry, file: Location) -> bool:
    """Return whether an entry is of an object as it is now."""
    stamp = file.stamp()
    tag = tag_of(stamp)
    return bool(tag) and (entry.tag, entry.facts.data_bytes) == (tag, stamp.size)


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
        old = {} if before is None else read_manifest(manifest)
        kept = {
            name: entry
            for name, entry in old.items()
            if not _is_outdated(entry, folder.child(name))
        }
        new = {**kept, **entries}
        is_same = before is not None and new == old
        if is_same or _replace(manifest, encode_manifest(new), before):
            return manifest
    raise StaleIndexError("other processes write the manifest again and again", path=manifest.name)


def _is_outdated(entry: ManifestEntry, file: Location) -> bool:
    """Return whether an entry is known to be of an object that is gone or was replaced."""
    stamp = file.seen_stamp
    if stamp is not None:
        return (tag_of(stamp), stamp.size) != (entry.tag, entry.facts.data_bytes)
    return file.is_known_missing()


def _replace(manifest: Location, content: bytes, before: Stamp | None) -> bool:
    """Write a manifest, unless another process has written it since; return whether it was done."""
    try:
        write_output(manifest, content, only_if=before or "absent")
    except (FileExistsError, StaleIndexError):
        return False
    return True
