"""Places that indexes of data files are written to. Indexes that are up to date are kept."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from .._storage.location import Location
from ..errors import IndexFormatError, StaleIndexError
from .index import RecordIndex
from .index_file import SUFFIX

IndexFormat: TypeAlias = Literal["tfidx", "text"]
IndexState: TypeAlias = Literal["indexed", "up to date"]


@dataclass(frozen=True)
class IndexPlaces:
    """The places of the indexes of data files.

    Attributes:
        index_format: Format of the indexes.
        folder: Folder for all indexes, an absolute path. Default: each is beside its data file.
    """

    index_format: IndexFormat = "tfidx"
    folder: Location | None = None

    def index_of(self, file: Location) -> Location:
        """Return the location of the index of a data file."""
        target = file if self.folder is None else self.folder.child(file.basename)
        return target.beside(SUFFIX if self.index_format == "tfidx" else ".idx")

    def prepare(self, files: Sequence[Location], *, is_written: bool) -> None:
        """Check that the indexes of files have places; make a local folder for them.

        Args:
            files: Data files.
            is_written: Whether indexes are written, not only read.

        Raises:
            ValueError: If they have none.
            OSError: If the folder cannot be made.
        """
        if self.folder is not None:
            [(name, count)] = Counter(file.basename for file in files).most_common(1)
            if count > 1:
                raise ValueError(
                    f"indexes in one folder need files with different names, got {count} named "
                    f"{name!r}"
                )
        target = self.index_of(next((f for f in files if f.local_path is None), files[0]))
        if is_written and not target.has_listing:
            raise ValueError(
                f"an HTTP server cannot be written: write the indexes to a directory, got {target}"
            )
        if self.index_format == "text" and target.local_path is None:
            raise ValueError(f"a text index needs a local directory, got {target}")
        if is_written and self.folder is not None and self.folder.local_path is not None:
            os.makedirs(self.folder, exist_ok=True)

    def load(self, file: Location) -> RecordIndex:
        """Load the index of a data file; see :meth:`RecordIndex.load`."""
        load = RecordIndex.from_text if self.index_format == "text" else RecordIndex.load
        return load(self.index_of(file), file)

    def update(
        self, file: Location, *, force: bool = False, **build_options: Any
    ) -> tuple[IndexState, RecordIndex]:
        """Return the index of a file, which is built and written unless it is up to date.

        Args:
            file: Data file.
            force: Whether an index that is up to date is built again, and another file in its place
                is replaced.
            build_options: Other arguments of :meth:`RecordIndex.build`.

        Raises:
            IndexFormatError: If another file is in the place of a text index.
            CorruptRecordError, TruncatedFileError: If the data file is damaged.
            IndexTooLargeError: If the index would be too large.
            OSError: If a file cannot be read or written.
        """
        if not force:
            try:
                index = self.load(file)
                if not index.gaps:  # otherwise building it raises the error
                    return "up to date", index
            except (FileNotFoundError, StaleIndexError):
                pass  # the index is missing or stale, so it is built
            except IndexFormatError as error:
                if self.index_format == "text":  # other programs use its suffix, too
                    reason = f"{error.reason}; replace the file with --force, or move it away"
                    raise IndexFormatError(reason, path=error.path) from None
        index = RecordIndex.build(file, **build_options)
        target = self.index_of(file)
        if self.index_format == "text":
            index.to_text(target)
        else:
            index.save(target)
        return "indexed", index

    def check(self, file: Location, **build_options: Any) -> RecordIndex:
        """Return the index of a file, which is compared with the records of the file.

        Args:
            file: Data file.
            build_options: Other arguments of :meth:`RecordIndex.build`.

        Raises:
            CorruptRecordError, TruncatedFileError: If the data file is damaged.
            StaleIndexError: If the index does not match the records.
            ValueError: If there is no index.
            OSError: If a file cannot be read.
        """
        try:
            index = self.load(file)
        except FileNotFoundError:
            raise ValueError("the index does not exist") from None
        fresh = RecordIndex.build(file, **build_options)
        is_same_end = index.stream_end == fresh.stream_end
        if not (is_same_end and np.array_equal(index.offsets, fresh.offsets)):
            reason = "the index does not match the records of the data file"
            raise StaleIndexError(reason, path=self.index_of(file).name)
        return index
