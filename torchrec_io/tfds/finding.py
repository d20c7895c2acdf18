"""Which directory of a TFDS dataset is meant: of its configs and versions, one."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable

from ..storage.local import StrPath
from .info import INFO_FILE, Info

_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})")


def find_directory(directory: StrPath, config: str | None, version: str | None) -> str:
    """The directory with the dataset_info.json that is meant.

    Args:
        directory: It, or that of the config, or that of the dataset, with all configs and versions.
        config: Needed if there are several.
        version: By default the greatest.

    Raises:
        ValueError: there is no such config or version, or several configs and none is named.
        FileNotFoundError: there is no dataset.
        NotADirectoryError: it is a file.
    """
    folder = os.path.expanduser(os.fspath(directory))
    if os.path.isfile(os.path.join(folder, INFO_FILE)):
        return folder
    found = find_configs(folder)
    if not found:
        os.scandir(folder).close()  # if there is nothing at all, or a file, that is what is wrong
        reason = f"there is no {INFO_FILE} in it, nor in folders of its configs and versions"
        raise FileNotFoundError(errno.ENOENT, reason, folder)
    chosen = _config(folder, found, config)
    versions = found[chosen]
    if version is not None and version not in versions:
        raise ValueError(f"{folder}: version must be one of {_listed(versions)}, not {version!r}")
    return os.path.join(folder, chosen, versions[-1] if version is None else version)


def find_configs(directory: StrPath) -> dict[str, list[str]]:
    """The configs that a dataset's directory holds, and the versions of each in their order.

    A dataset without configs has one whose name is "".
    """
    folder = os.path.expanduser(os.fspath(directory))
    found = {"": _versions(folder)}
    for name in _folders(folder):
        if not _VERSION.fullmatch(name):
            found[name] = _versions(os.path.join(folder, name))
    return {config: versions for config, versions in found.items() if versions}


def _versions(folder: str) -> list[str]:
    names = [
        name
        for name in _folders(folder)
        if _VERSION.fullmatch(name) and os.path.isfile(os.path.join(folder, name, INFO_FILE))
    ]
    return sorted(names, key=lambda name: tuple(map(int, name.split("."))))


def _folders(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _config(folder: str, found: dict[str, list[str]], config: str | None) -> str:
    own = os.path.basename(os.path.abspath(folder))
    if config is None:
        if "" in found or len(found) == 1:
            return "" if "" in found else next(iter(found))
        raise ValueError(f"{folder}: config must be one of {_listed(found)}; there are several")
    if config in found:
        return config
    if "" in found and config == own:  # the directory is that of the config
        return ""
    if [*found] == [""]:
        raise ValueError(f"{folder}: config must be None, not {config!r}: it holds versions alone")
    raise ValueError(f"{folder}: config must be one of {_listed(found)}, not {config!r}")


def check_names(info: Info, config: str | None, version: str | None) -> None:
    """Refuses a directory of another config or version than is asked for.

    Raises:
        ValueError: neither what it says nor its path has that name.
    """
    above, own = os.path.split(os.path.dirname(os.path.abspath(info.path)))
    names = (("config", config, info.config, os.path.basename(above)),)
    for what, asked, said, named in (*names, ("version", version, info.version, own)):
        if asked not in (None, said, named):
            raise ValueError(f"{info.path}: {what} must be {said or named!r}, not {asked!r}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
