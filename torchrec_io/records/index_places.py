"""Places that indexes and manifests of data files are written to."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from ..storage.opening import is_remote, local_name, remember_stamps
from ..storage.remote.options import RemoteOptions
from .deferred_index import IndexFacts
from .index import RecordIndex
from .index_file import SUFFIX
from .index_manifest import MANIFEST_NAME, ManifestEntry, tag_of
from .manifests import is_current, read_manifest

IndexFormat: TypeAlias = Literal["tfidx", "text"]


class IndexPlaces:
    """The places of the indexes of data files.

    Args:
        index_format: Format of the indexes.
        remote: Options for remote objects.
        output_dir: Directory or URL for all indexes. Default: each is beside its data file.

    Attributes:
        index_format: Format of the indexes.
        remote: Options for remote objects.
        output_dir: Directory or URL for all indexes, if they are not beside their data files.
    """

    def __init__(
        self, index_format: IndexFormat, remote: RemoteOptions, output_dir: str | None
    ) -> None:
        self.index_format = index_format
        self.remote = remote
        self._known: dict[str, ManifestEntry] = {}  # entries of manifests, by data file
        self.output_dir = None if output_dir is None else _absolute(output_dir)

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the entries of manifests, which may be many and are compared with a listing.
        return type(self), (self.index_format, self.remote, self.output_dir)

    def read_manifests(self, files: Sequence[str]) -> None:
        """Read the manifests that are there, so that what has not changed is not read again."""
        if self.index_format == "text":
            return
        folders = {os.path.dirname(self.index_of(path)) for path in files if is_remote(path)}
        entries = {
            folder: read_manifest(f"{folder}/{MANIFEST_NAME}", self.remote) for folder in folders
        }
        for path in filter(is_remote, files):
            folder = os.path.dirname(self.index_of(path))
            entry = entries[folder].get(os.path.basename(path))
            if entry is not None and is_current(entry, path, self.remote):
                self._known[path] = entry
        remember_stamps([self.index_of(path) for path in self._known], self.remote)

    def entry_up_to_date(self, path: str) -> ManifestEntry | None:
        """Return the entry of an object that has not changed since, and whose index has not."""
        entry, beside = self._known.get(path), self.remote.stamps.get(self.index_of(path))
        if entry is None or beside is None or not entry.index_tag:
            return None
        return entry if tag_of(beside) == entry.index_tag else None

    def index_of(self, path: str) -> str:
        """Return the path or URL of the index of a data file."""
        name = path
        if self.output_dir is not None:
            name = os.path.join(self.output_dir, os.path.basename(path))
        return name + (SUFFIX if self.index_format == "tfidx" else ".idx")

    def load(self, path: str) -> RecordIndex:
        """Load the index of a data file; see :meth:`RecordIndex.load`."""
        target = self.index_of(path)
        if self.index_format == "text":
            return RecordIndex.from_text(target, path, storage_options=self.remote)
        return RecordIndex.load(target, path, storage_options=self.remote)

    def write(self, index: RecordIndex) -> None:
        """Write an index, all of it or nothing."""
        target = self.index_of(index.data_path)
        if self.index_format == "text":
            index.to_text(target)
        elif is_remote(target):
            index.upload(target, storage_options=self.remote)
        else:
            index.save(target)

    def entry_of(self, index: RecordIndex) -> ManifestEntry | None:
        """Return the entry of an index in a manifest.

        None for local files, which open fast, and for an object that could be replaced unnoticed,
        because it has no ETag or version.
        """
        stamp = index.data_stamp
        if self.index_format == "text" or stamp is None or index.remote is None:
            return None
        tag = tag_of(stamp)
        facts = IndexFacts(*index.identity, index.compression)
        written = self.remote.stamps.get(self.index_of(index.data_path))
        index_tag = "" if written is None else tag_of(written)
        return ManifestEntry(facts, tag, index_tag) if tag else None

    def by_folder(
        self, entries: Mapping[str, ManifestEntry]
    ) -> dict[str, dict[str, ManifestEntry]]:
        """Return the entries of the manifest of each folder that indexes were written to.

        Args:
            entries: An entry for each data file.
        """
        found: dict[str, dict[str, ManifestEntry]] = {}
        for path, entry in entries.items():
            folder, name = os.path.split(self.index_of(path))
            found.setdefault(folder, {})[name.removesuffix(SUFFIX)] = entry
        return found


def _absolute(folder: str) -> str:
    """Return the same folder for processes in other working directories."""
    return folder.rstrip("/") if is_remote(folder) else os.path.abspath(local_name(folder))
