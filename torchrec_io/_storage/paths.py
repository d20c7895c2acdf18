"""Expansion of file names, glob patterns and directories to data files."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from .file_sets import check_complete, check_one_set, data_files
from .local import StrPath
from .location import Location, local_name
from .remote.listing import expand_url, find_named
from .remote.options import RemoteOptions, StorageOptions
from .remote.urls import is_collapsed_url, is_url, public_url

# Names of TFRecord files, in a directory that also holds other files.
_DATA_SUFFIX = re.compile(r"\.(tfrecords?|tfrecs?|tfr|records?|recordio)\b", re.IGNORECASE)
_DATA_NAME = re.compile(r"-\d{5,}-of-\d{5,}|^part-")
_COMPANION_NAME = re.compile(
    r"\.(tfidx|idx|index|json|pbtxt|txt|md|crc|csv|sha256|md5)$", re.IGNORECASE
)
_INDEX_NAME = re.compile(r"\.(tfidx|idx|index)$")


class _Given(NamedTuple):
    """A path that was given, and the files that it stands for.

    Attributes:
        name: Name, pattern or directory.
        files: Files in order.
        data: The data files among them; none if the path names a single file.
        is_folder: True if it is a directory.
        options: Options for remote objects; None for local files.
    """

    name: str
    files: list[str]
    data: list[str]
    is_folder: bool
    options: RemoteOptions | None = None


def expand_paths(
    paths: StrPath | Iterable[StrPath],
    *,
    tfrecord_names: bool = True,
    allow_missing: bool = False,
    one_set: bool = True,
    storage_options: StorageOptions = None,
) -> list[Location]:
    """Return the files that names, glob patterns and directories stand for, in order.

    A directory stands for the files in it with the usual names of TFRecord files, sorted: with a
    part ``.tfrecord``, ``.tfrecords``, ``.tfrec``, ``.tfrecs``, ``.tfr``, ``.record``, ``.records``
    or ``.recordio``, in any case (``x.tfrecord.gz``, ``x.tfrecord-00000-of-00008``); and
    ``name-00000-of-00008`` and ``part-*``. A pattern stands for its matches, sorted; ``**`` in a
    pattern matches any number of directories.

    The files of a directory must be one set: shards of one name, each either plain or compressed,
    or files with other names, see :func:`~torchrec_io._storage.file_sets.file_sets`. A pattern may
    stand for several sets.

    Where a directory stands for shards ``name-00001-of-00003``, or a pattern with only wildcards in
    the place of the shard's number (``name-*``, ``name-?????-of-00003``), all shards must exist.
    Other names and patterns stand for what exists.

    URLs of remote objects (``s3://``, ``gs://``, ``az://``, ``https://``) may be patterns and
    folders, too, which are resolved by listing once; those of HTTP may not. In a URL,
    ``{00000..01023}`` stands for the numbers of a range, all of which must exist. A location stands
    for itself.

    Args:
        paths: A name, pattern or directory, or several.
        tfrecord_names: Take only files with names of TFRecord files from a directory. If False, all
            files are taken, except hidden ones and indexes (``*.tfidx``).
        allow_missing: Whether shards may be missing.
        one_set: Whether the files of a directory must be one set.
        storage_options: Options of an object store; by default those that its own tools use.

    Raises:
        FileNotFoundError: If a file does not exist, a pattern or directory has no matching file, or
            shards are missing.
        OSError: If a request to a store failed.
        ValueError: If ``paths`` is empty, a URL is not valid, a directory has several sets of
            files, or there are two sets of shards of one name.
    """
    given = _find(paths, tfrecord_names, allow_missing, storage_options)
    for each in given:
        if each.is_folder and one_set:
            check_one_set(each.name, each.data)
        if not allow_missing:
            check_complete(each.data, None if each.is_folder else each.name)
    return [Location(file, each.options) for each in given for file in each.files]


def _find(
    paths: StrPath | Iterable[StrPath],
    tfrecord_names: bool,
    allow_missing: bool,
    storage_options: StorageOptions,
) -> list[_Given]:
    """Return the files that each path stands for."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    is_data = _is_tfrecord_name if tfrecord_names else _is_data_name
    companion = _COMPANION_NAME if tfrecord_names else _INDEX_NAME
    names = [local_name(path) for path in given if not isinstance(path, Location)]
    remote = RemoteOptions.of(storage_options)
    find_named([*filter(is_url, names)], remote)
    found = []
    for path in given:
        name = local_name(path)
        options = path.options if isinstance(path, Location) else None
        is_folder = False
        if isinstance(path, Location):
            files, is_exact = [name], True
        elif is_url(name):
            files, is_exact = expand_url(name, remote, is_data, allow_missing=allow_missing)
            is_folder = not (is_exact or glob.has_magic(name))
            name, options = public_url(name), remote
        else:
            files = _expand(name, is_data)
            is_exact = files == [name]
            is_folder = not is_exact and os.path.isdir(name)
        data = [] if is_exact else [file for file in files if not companion.search(file)]
        found.append(_Given(name, files, data, is_folder, options))
    if not any(each.files for each in found):
        raise ValueError("paths is empty: name at least one file")
    return found


def _expand(name: str, is_data: Callable[[str], bool]) -> list[str]:
    """Return the local files that a path, pattern or directory stands for."""
    if os.path.isdir(name):
        entries = list(os.scandir(name))
        files = [entry.name for entry in entries if entry.is_file()]
        return data_files(name, files, [entry.name for entry in entries if entry.is_dir()], is_data)
    if os.path.exists(name):
        return [name]
    if is_collapsed_url(name):
        raise FileNotFoundError(f"no such file: {name!r}; a URL must be a str, not a pathlib.Path")
    if not glob.has_magic(name):
        raise FileNotFoundError(f"no such file: {name!r}")
    matches = sorted(match for match in glob.glob(name, recursive=True) if os.path.isfile(match))
    matches = [match for match in matches if not match.endswith(".tfidx")]
    if not matches:
        raise FileNotFoundError(f"the pattern {name!r} matches no file")
    return matches


def has_data_suffix(name: str) -> bool:
    """Return whether a file name has one of the usual suffixes of TFRecord files."""
    return _DATA_SUFFIX.search(name) is not None


def _is_tfrecord_name(name: str) -> bool:
    is_data = has_data_suffix(name) or _DATA_NAME.search(name)
    return bool(is_data) and not _COMPANION_NAME.search(name) and not name.startswith((".", "_"))


def _is_data_name(name: str) -> bool:
    return not name.startswith(".") and not name.endswith(".tfidx")
