"""Choice of a config and a version among the directories of a TFDS dataset."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable

from .._storage.folders import has_file, remember_folder, subfolder_names
from .._storage.location import Location
from .info import INFO_FILE, DatasetInfo

_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})")


def find_directory(folder: Location, config: str | None, version: str | None) -> Location:
    """Return the directory of a version, which contains its dataset_info.json.

    Args:
        folder: Directory of the version, of its config, or of the dataset.
        config: Name of the config. Required if there are several.
        version: Version. Default: the greatest one.

    Raises:
        ValueError: If the config or version does not exist, or if there are several configs and
            none is given.
        FileNotFoundError: If there is no dataset.
        NotADirectoryError: If ``folder`` is a file.
    """
    if has_file(remember_folder(folder).child(INFO_FILE)):
        return folder
    found = find_configs(folder)
    if not found:
        if folder.local_path is not None:
            os.scandir(folder).close()  # raises if this is not a directory
        reason = f"no {INFO_FILE} in this directory"
        if folder.has_listing:
            reason += " or in directories of configs and versions in it"
        else:
            reason += "; an HTTP server has no listing, so name the directory of the version"
        raise FileNotFoundError(errno.ENOENT, reason, folder.name)
    chosen = _choose_config(folder, found, config)
    versions = found[chosen]
    if version is not None and version not in versions:
        raise ValueError(f"{folder}: version must be one of {_quote(versions)}, got {version!r}")
    found_at = folder.child(chosen).child(versions[-1] if version is None else version)
    return remember_folder(found_at)


def find_configs(folder: Location) -> dict[str, list[str]]:
    """Return the configs in the directory of a dataset, each with its versions in ascending order.

    A dataset without configs has one config with the name "".
    """
    names = subfolder_names(folder)
    found = {"": _list_versions(folder, names)}
    for name in names:
        if not _VERSION.fullmatch(name):
            config = folder.child(name)
            found[name] = _list_versions(config, subfolder_names(config))
    return {config: versions for config, versions in found.items() if versions}


def _list_versions(folder: Location, names: Iterable[str]) -> list[str]:
    """Return the names that are folders of a version, in ascending order of the versions."""
    found = [
        name
        for name in names
        if _VERSION.fullmatch(name) and has_file(folder.child(name).child(INFO_FILE))
    ]
    return sorted(found, key=lambda name: tuple(map(int, name.split("."))))


def _choose_config(folder: Location, found: dict[str, list[str]], config: str | None) -> str:
    own = os.path.basename(os.path.abspath(folder))
    if config is None:
        if "" in found or len(found) == 1:
            return "" if "" in found else next(iter(found))
        raise ValueError(f"{folder}: config is required, and must be one of {_quote(found)}")
    if config in found:
        return config
    if "" in found and config == own:  # this is the directory of the config
        return ""
    if [*found] == [""]:
        raise ValueError(
            f"{folder}: config must be None, because the dataset has no configs, got {config!r}"
        )
    raise ValueError(f"{folder}: config must be one of {_quote(found)}, got {config!r}")


def check_names(info: DatasetInfo, config: str | None, version: str | None) -> None:
    """Raise an error unless a directory is the one of a config and a version.

    Raises:
        ValueError: If neither dataset_info.json nor the path has that config or version.
    """
    above, own = os.path.split(os.path.dirname(os.path.abspath(info.path)))
    names = (("config", config, info.config, os.path.basename(above)),)
    for argument, value, in_info, in_path in (*names, ("version", version, info.version, own)):
        if value not in (None, in_info, in_path):
            raise ValueError(
                f"{info.path}: {argument} must be {in_info or in_path!r}, got {value!r}"
            )


def _quote(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
