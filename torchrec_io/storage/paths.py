"""Expansion of file names, glob patterns and directories to data files."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable

from .commit_journal import refuse_interrupted
from .local import StrPath
from .opening import local_name
from .remote.options import RemoteOptions
from .remote.urls import is_collapsed_url, is_url
from .shard_names import check_complete

# Names of TFRecord files, in a directory that also holds other files.
_DATA_SUFFIX = re.compile(r"\.(tfrecords?|tfrecs?|tfr|records?|recordio)\b", re.IGNORECASE)
_DATA_NAME = re.compile(r"-\d{5,}-of-\d{5,}|^part-")
_COMPANION_NAME = re.compile(
    r"\.(tfidx|idx|index|json|pbtxt|txt|md|crc|csv|sha256|md5)$", re.IGNORECASE
)
_INDEX_NAME = re.compile(r"\.(tfidx|idx|index)$")


def expand_paths(
    paths: StrPath | Iterable[StrPath],
    *,
    tfrecord_names: bool = True,
    allow_missing: bool = False,
    remote: RemoteOptions | None = None,
) -> list[str]:
    """Return the files that names, glob patterns and directories stand for, in order.

    A directory stands for the files in it with the usual names of TFRecord files, sorted: with a
    part ``.tfrecord``, ``.tfrecords``, ``.tfrec``, ``.tfrecs``, ``.tfr``, ``.record``, ``.records``
    or ``.recordio``, in any case (``x.tfrecord.gz``, ``x.tfrecord-00000-of-00008``); and
    ``name-00000-of-00008`` and ``part-*``. A pattern stands for its matches, sorted; ``**`` in a
    pattern matches any number of directories.

    Where a directory stands for shards ``name-00001-of-00003``, or a pattern with only wildcards in
    the place of the shard's number (``name-*``, ``name-?????-of-00003``), all shards must exist.
    Other names and patterns stand for what exists.

    URLs of remote objects (``s3://``, ``gs://``, ``az://``, ``https://``) may be patterns and
    folders, too, which are resolved by listing once; those of HTTP may not. In a URL,
    ``{00000..01023}`` stands for the numbers of a range, all of which must exist. The result has
    URLs without secrets, which ``remote`` remembers.

    A directory where a process was interrupted while it replaced files is refused, so that old and
    new files are never mixed. Nothing in it is changed.

    Args:
        paths: A name, pattern or directory, or several.
        tfrecord_names: Take only files with names of TFRecord files from a directory. If False, all
            files are taken, except hidden ones and indexes (``*.tfidx``).
        allow_missing: Whether shards may be missing.
        remote: Options for remote objects.

    Raises:
        FileNotFoundError: If a file does not exist, a pattern or directory has no matching file, or
            shards are missing.
        InterruptedCommitError: If a process was interrupted while it replaced files.
        OSError: If a request to a store failed.
        ValueError: If ``paths`` is empty, a URL is not valid, or there are two sets of shards of
            one name.
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    names = [local_name(name) for name in given]
    remote = remote or RemoteOptions()
    urls = [name for name in names if is_url(name)]
    found = _expand_urls(urls, tfrecord_names, remote, allow_missing=allow_missing) if urls else {}
    local = [name for name in names if name not in found]
    found.update(zip(local, _expand_local(local, tfrecord_names), strict=True))
    if not allow_missing:
        for name in local:
            _check_shards(name, found[name], tfrecord_names)
    files = [file for name in names for file in found[name]]
    if not files:
        raise ValueError("paths is empty: name at least one file")
    return files


def _expand_local(names: list[str], tfrecord_names: bool) -> list[list[str]]:
    """Return the files of each local name, after waiting for commits to their folders."""
    for folder in _folders_of(names):
        refuse_interrupted(folder)
    found = [_expand(name, tfrecord_names) for name in names]
    linked = {
        os.path.dirname(os.path.realpath(file))
        for files in found
        for file in files
        if os.path.islink(file)
    }
    changed = [folder for folder in linked if refuse_interrupted(folder)]
    return [_expand(name, tfrecord_names) for name in names] if changed else found


def _expand_urls(
    urls: list[str], tfrecord_names: bool, remote: RemoteOptions, *, allow_missing: bool
) -> dict[str, list[str]]:
    """Return the objects that each URL stands for."""
    from .remote.listing import find_named  # noqa: PLC0415  # not for local files

    find_named(urls, remote)
    return {
        url: _expand_remote(url, tfrecord_names, remote, allow_missing=allow_missing)
        for url in urls
    }


def _expand_remote(
    url: str, tfrecord_names: bool, remote: RemoteOptions, *, allow_missing: bool
) -> list[str]:
    """Return the objects that a URL stands for."""
    from .remote.listing import expand_url  # noqa: PLC0415  # as above

    is_data = _is_tfrecord_name if tfrecord_names else _is_data_name
    found = expand_url(url, remote, is_data, allow_missing=allow_missing)
    if not (allow_missing or found.is_exact):
        companion = _COMPANION_NAME if tfrecord_names else _INDEX_NAME
        data = [each for each in found.urls if not companion.search(each)]
        check_complete(data, url if glob.has_magic(url) else None)
    return found.urls


def _folders_of(names: Iterable[str]) -> set[str]:
    """Return the directories of names and patterns, and those that are named."""
    folders = {os.path.dirname(name) for name in names}
    patterns = {folder for folder in folders if glob.has_magic(folder)}
    found = {match for pattern in patterns for match in glob.iglob(pattern, recursive=True)}
    return {*(folders - patterns), *found, *filter(os.path.isdir, names)}


def _check_shards(name: str, files: list[str], tfrecord_names: bool) -> None:
    """Check that no shard is missing of those that a pattern or a directory stands for."""
    if files != [name]:
        companion = _COMPANION_NAME if tfrecord_names else _INDEX_NAME
        data = [file for file in files if not companion.search(file)]
        check_complete(data, None if os.path.isdir(name) else name)


def _expand(name: str, tfrecord_names: bool) -> list[str]:
    if os.path.isdir(name):
        return _files_in(name, tfrecord_names)
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


def _files_in(folder: str, tfrecord_names: bool) -> list[str]:
    is_data = _is_tfrecord_name if tfrecord_names else _is_data_name
    found = sorted(
        entry.path for entry in os.scandir(folder) if entry.is_file() and is_data(entry.name)
    )
    if not found:
        wanted = "file with the name of a TFRecord file" if tfrecord_names else "file"
        raise FileNotFoundError(f"the directory {folder!r} holds no {wanted}; use a pattern")
    return found


def _is_tfrecord_name(name: str) -> bool:
    is_data = has_data_suffix(name) or _DATA_NAME.search(name)
    return bool(is_data) and not _COMPANION_NAME.search(name) and not name.startswith((".", "_"))


def _is_data_name(name: str) -> bool:
    return not name.startswith(".") and not name.endswith(".tfidx")


class LinkResolver:
    """Resolves symbolic links in paths, each folder once."""

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}

    def resolve(self, path: str) -> str:
        """Return the real path of a file."""
        if os.path.islink(path):
            path = os.path.realpath(path)
        folder, name = os.path.split(path)
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder)
        return os.path.join(self._folders[folder], name)
