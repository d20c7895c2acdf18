"""Reading and writing of manifests, which tell about the indexes of remote objects."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence

from ..errors import IndexFormatError, StaleIndexError
from ..storage.byte_source import Stamp
from ..storage.compression import CompressionChoice
from ..storage.opening import find_stamp, is_remote, open_file, read_stamp
from ..storage.pending_file import write_atomically
from ..storage.remote.options import RemoteOptions
from ..storage.remote.urls import is_web_url
from .deferred_index import IndexFacts
from .formats import TFRECORD, RecordFormat
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
    paths: Sequence[str],
    compression: CompressionChoice,
    record_format: RecordFormat,
    remote: RemoteOptions | None,
) -> dict[str, IndexFacts]:
    """Return what the manifests of folders say about the indexes of objects as they are now.

    Entries of objects that were replaced since are left out.

    Args:
        paths: Data files; public URLs of remote objects.
        compression: Compression of the files, as the user gave it.
        record_format: Record format of the files.
        remote: Options for remote objects.
    """
    if record_format.code != TFRECORD.code:
        return {}
    remote = remote or RemoteOptions()
    folders: dict[str, list[str]] = {}
    for path in paths:
        if is_remote(path):
            folders.setdefault(os.path.dirname(path), []).append(path)
    found = {}
    for folder, objects in folders.items():
        url = f"{folder}/{MANIFEST_NAME}"
        if not _is_worth_asking(url, objects, remote):
            continue
        entries = read_manifest(url, remote)
        for path in objects:
            entry = entries.get(os.path.basename(path))
            if entry is not None and is_current(entry, path, remote):
                found[path] = entry.facts
    if compression == "auto":
        return found
    return {path: facts for path, facts in found.items() if facts.compression == compression}


def _is_worth_asking(url: str, objects: Sequence[str], remote: RemoteOptions) -> bool:
    if url in remote.stamps:
        return True
    # The query of a signed URL is of one object alone.
    is_signed = any(remote.address(path) != path for path in objects[:1])
    return is_web_url(url) and len(objects) > _WORTH_ASKING and not is_signed


def read_manifest(url: str, remote: RemoteOptions) -> dict[str, ManifestEntry]:
    """Return the entries of a manifest by the names of objects; none without a valid manifest.

    Args:
        url: Public URL of the manifest.
        remote: Options for remote objects.
    """
    try:
        size = find_stamp(url, remote).size
        if size > MOST_MANIFEST_BYTES:
            raise IndexFormatError(f"the manifest is damaged: it has {size:,} bytes", path=url)
        return decode_manifest(open_file(url, remote).read(0, size), url)
    except FileNotFoundError:
        return {}
    except (IndexFormatError, StaleIndexError, OSError) as error:
        logger.warning("the manifest of the folder is ignored: %s", error)
        return {}


def is_current(entry: ManifestEntry, path: str, remote: RemoteOptions) -> bool:
    """Return whether an entry is of an object as it is now."""
    stamp = find_stamp(path, remote)
    tag = tag_of(stamp)
    return bool(tag) and (entry.tag, entry.facts.data_bytes) == (tag, stamp.size)


def update_manifest(
    folder: str, entries: Mapping[str, ManifestEntry], remote: RemoteOptions
) -> str:
    """Add entries to the manifest of a folder, or make it.

    Other entries that it has are kept, unless their objects are known to be gone or replaced. Where
    another process has written it in the meantime, that is not lost.

    Args:
        folder: Public URL of the folder, or a local directory.
        entries: An entry for each object, by the name of the object in the folder.
        remote: Options for remote objects.

    Returns:
        The manifest's URL or path.

    Raises:
        OSError: If a request failed.
        StaleIndexError: If other processes write the manifest again and again.
        ValueError: If there are too many objects.
    """
    url = f"{folder}/{MANIFEST_NAME}"
    for _ in range(_MOST_ATTEMPTS):
        before = _stamp_now(url, remote)
        old = {} if before is None else read_manifest(url, remote)
        kept = {
            name: entry
            for name, entry in old.items()
            if not _is_outdated(entry, f"{folder}/{name}", remote)
        }
        new = {**kept, **entries}
        is_same = before is not None and new == old
        if is_same or _replace(url, encode_manifest(new), before, remote):
            return url
    raise StaleIndexError("other processes write the manifest again and again", path=url)


def _stamp_now(url: str, remote: RemoteOptions) -> Stamp | None:
    """Return the stamp of a manifest as it is now, and remember it; None if there is none."""
    remote.stamps.pop(url, None)
    try:
        stamp = read_stamp(url, remote)
    except FileNotFoundError:
        return None
    remote.stamps[url] = stamp
    return stamp


def _is_outdated(entry: ManifestEntry, path: str, remote: RemoteOptions) -> bool:
    """Return whether an entry is known to be of an object that is gone or was replaced."""
    stamp = remote.stamps.get(path)
    if stamp is not None:
        return (tag_of(stamp), stamp.size) != (entry.tag, entry.facts.data_bytes)
    return f"{os.path.dirname(path)}/" in remote.folders


def _replace(url: str, content: bytes, before: Stamp | None, remote: RemoteOptions) -> bool:
    """Write a manifest, unless another process has written it since; return whether it was done."""
    if not is_remote(url):
        write_atomically(url, content)
        return True
    from ..storage.remote.upload import put_object  # noqa: PLC0415  # not for local files

    try:
        put_object(url, content, remote, only_if=before or "absent")
    except (FileExistsError, StaleIndexError):
        return False
    return True
