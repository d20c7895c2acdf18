"""Expansion of URLs, patterns, folders and ranges of numbers to objects, by few requests."""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..byte_source import Stamp
from ..file_sets import named_some
from ..thread_pool import REMOTE_THREADS, map_in_threads
from .messages import ObjectInfo
from .options import RemoteOptions
from .patterns import matches
from .process import ask
from .remote_file import stamp_of_info
from .urls import can_pin, expand_ranges, has_ranges, is_url, is_web_url, split_url
from .web import store_of

# More objects of one folder than this are found by listing it. Those of a range are most likely all
# that the folder has; a folder may have many more than those that are named one by one.
_WORTH_LISTING = 4
_WORTH_LISTING_NAMED = 256


class Found(NamedTuple):
    """The objects that a URL stands for.

    Attributes:
        urls: Public URLs, in order.
        is_exact: Whether the URL names each of them.
    """

    urls: list[str]
    is_exact: bool


# ---- requests ----


def read_remote_stamp(url: str, options: RemoteOptions) -> Stamp:
    """Return the stamp of an object as it is now.

    Raises:
        FileNotFoundError: If it does not exist.
        OSError: If the request failed.
    """
    return stamp_of_info(ask(url, options, "head"))


def list_stamps(
    folder: str, options: RemoteOptions, *, is_recursive: bool = False
) -> dict[str, Stamp]:
    """Return the stamps of the objects of a folder as they are now, by their public URLs.

    Args:
        folder: Public URL, with a slash at its end.
        options: Options for remote objects.
        is_recursive: Whether the objects in folders of the folder are listed, too.

    Raises:
        OSError: If the request failed.
    """
    key = store_of(folder, options).key
    try:
        infos: list[ObjectInfo] = ask(folder, options, "list_objects", key, is_recursive)
    except FileNotFoundError:  # there is no such store
        return {}
    root = split_url(folder).root
    urls = (info.key if is_url(info.key) else f"{root}/{info.key}" for info in infos)
    return dict(zip(urls, map(stamp_of_info, infos), strict=True))


def list_subfolders(folder: str, options: RemoteOptions) -> list[str]:
    """Return the names of the folders in a folder, in order.

    Folders of HTTP servers, which have no listing, seem to have none.

    Args:
        folder: Public URL without a slash at its end.
        options: Options for remote objects.

    Raises:
        OSError: If the request failed.
    """
    if is_web_url(folder):
        return []
    try:
        names: list[str] = ask(f"{folder}/", options, "list_folders")
    except FileNotFoundError:  # there is no such store
        return []
    return sorted(os.path.basename(name.rstrip("/")) for name in names)


# ---- what is known ----


def list_once(folder: str, options: RemoteOptions) -> list[str]:
    """Return the objects in a folder, and remember their stamps. It is listed once.

    Folders of HTTP servers, which have no listing, seem to be empty.

    Args:
        folder: Public URL without a slash at its end.
        options: Options for remote objects.

    Raises:
        OSError: If the request failed.
    """
    if is_web_url(folder):
        return []
    if f"{folder}/" in options.listed:
        return [url for url in options.stamps if os.path.dirname(url) == folder]
    return _list(f"{folder}/", options)


def _list(folder: str, options: RemoteOptions, *, is_recursive: bool = False) -> list[str]:
    """List a folder, and remember the stamps of its objects."""
    found = list_stamps(folder, options, is_recursive=is_recursive)
    options.stamps.update(found)
    options.listed.add(folder)
    if is_recursive:
        options.listed.update(f"{os.path.dirname(url)}/" for url in found)
    return [*found]


def is_known_missing(url: str, options: RemoteOptions) -> bool:
    """Return whether a listing showed that an object does not exist."""
    return url not in options.stamps and f"{os.path.dirname(url)}/" in options.listed


def _is_object(url: str, options: RemoteOptions) -> bool:
    """Return whether a URL names an object, and remember its stamp."""
    if url not in options.stamps:
        try:
            options.stamps[url] = read_remote_stamp(url, options)
        except FileNotFoundError:
            return False
    return True


def find_objects(
    names: Sequence[str], options: RemoteOptions, worth_listing: int = _WORTH_LISTING
) -> None:
    """Find the objects that exist, and remember their stamps.

    Args:
        names: Public URLs.
        options: Options for remote objects.
        worth_listing: Largest number of objects of a folder that are asked for one by one, several
            at the same time, and not by listing the folder.

    Raises:
        OSError: If a request failed.
    """
    folders: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        folders.setdefault(f"{os.path.dirname(name)}/", []).append(name)

    def try_listing(folder: str) -> None:
        is_worth = len(folders[folder]) > worth_listing and not is_web_url(folder)
        if is_worth and folder not in options.listed:
            with contextlib.suppress(PermissionError):  # its objects may still be read
                _list(folder, options)

    map_in_threads(try_listing, [*folders], REMOTE_THREADS)
    rest = [name for name in dict.fromkeys(names) if not is_known_missing(name, options)]
    map_in_threads(lambda name: _is_object(name, options), rest, REMOTE_THREADS)


# ---- URLs of the user ----


def find_named(urls: Sequence[str], options: RemoteOptions) -> None:
    """Find the objects that URLs name, by concurrent requests, and remember their stamps.

    Args:
        urls: URLs as the user gave them. Patterns and ranges of numbers are left out.
        options: Options for remote objects.

    Raises:
        OSError: If a request failed.
    """
    named = [options.name(url) for url in urls if not has_ranges(url)]
    named = [url for url in named if not (glob.has_magic(url) or url.endswith("/"))]
    if len(named) > 1:
        find_objects(named, options, _WORTH_LISTING_NAMED)


def expand_url(
    url: str,
    options: RemoteOptions,
    is_data: Callable[[str], bool],
    *,
    allow_missing: bool,
) -> Found:
    """Return the objects that a URL stands for, and remember their stamps.

    Args:
        url: URL, pattern, folder, or a URL with ranges of numbers; as the user gave it.
        options: Options for remote objects.
        is_data: Whether the object of a name in a folder is a data file.
        allow_missing: Whether objects of a range may be missing.

    Raises:
        FileNotFoundError: If there is no such object, or objects of a range are missing.
        OSError: If a request failed.
        ValueError: If the URL is a pattern or folder of an HTTP server, which has no listing.
    """
    if has_ranges(url):
        names = [options.name(each) for each in expand_ranges(url)]
        return Found(_existing(names, options, allow_missing=allow_missing), is_exact=True)
    public = options.name(url)
    if is_web_url(public):
        if public.endswith("/") or "*" in public:
            raise no_listing(public)
        return Found(_existing([public], options, allow_missing=False), is_exact=True)
    if glob.has_magic(public):
        matched = _find_matches(public, options)
        # A name may have the characters of a pattern.
        return Found([public], True) if public in options.stamps else Found(matched, False)
    if not public.endswith("/") and _is_object(public, options):
        return Found([public], is_exact=True)
    return Found(_files_in(public.rstrip("/"), options, is_data), is_exact=False)


def no_listing(url: str) -> ValueError:
    """Return the error of a folder or pattern of an HTTP server."""
    return ValueError(
        f"{url}: an HTTP server has no listing; name each file, or use a range of numbers such as "
        "{00000..00127}"
    )


def _existing(names: list[str], options: RemoteOptions, *, allow_missing: bool) -> list[str]:
    """Return the URLs of existing objects, and remember the stamps of the objects."""
    find_objects(names, options)
    missing = [name for name in names if name not in options.stamps]
    if missing and (not allow_missing or len(missing) == len(names)):
        if len(names) == 1:
            raise FileNotFoundError(f"no such object: {names[0]!r}")
        raise FileNotFoundError(
            f"{len(missing):,} of {len(names):,} objects are missing: {missing[0]!r}"
            f"{' and others' if len(missing) > 1 else ''}; restore what is missing, or name the "
            "objects that exist in a list (tools: allow_missing=True, --allow-missing)"
        )
    return [name for name in names if name in options.stamps]


def _find_matches(pattern: str, options: RemoteOptions) -> list[str]:
    """Return the objects that match a pattern, in order."""
    parts = pattern.split("/")
    first = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    if first < 3 and can_pin(pattern):  # a filesystem may have no name of a store there
        raise ValueError(f"the name of a store must have no wildcard, got {pattern!r}")
    folder = "/".join(parts[:first]) + "/"
    is_recursive = first < len(parts) - 1 or parts[-1] == "**"
    found = _list(folder, options, is_recursive=is_recursive)
    matched = sorted(url for url in found if matches(pattern, url) and not url.endswith(".tfidx"))
    if not matched and pattern not in found:
        raise FileNotFoundError(f"the pattern {pattern!r} matches no object")
    return matched


def _files_in(folder: str, options: RemoteOptions, is_data: Callable[[str], bool]) -> list[str]:
    """Return the data files in a folder, in order."""
    found = _list(f"{folder}/", options)
    files = sorted(url for url in found if is_data(os.path.basename(url)))
    if files:
        return files
    below = [repr(f"{folder}/{name}") for name in list_subfolders(folder, options)]
    if below:
        raise FileNotFoundError(
            f"the folder '{folder}/' holds no data file, but has folders: "
            f"{named_some(len(below), below)}; pass one of these"
        )
    if not found:
        raise FileNotFoundError(f"no such object or folder: {folder!r}")
    raise FileNotFoundError(f"the folder '{folder}/' holds no data file; use a pattern")
