"""Expansion of URLs, patterns, folders and ranges of numbers to objects, by few requests."""

from __future__ import annotations

import contextlib
import glob
import os
from collections import Counter
from collections.abc import Callable, Sequence

from ..file_sets import data_files
from ..stamp import Stamp
from ..thread_pool import REMOTE_THREADS, map_in_threads
from .options import RemoteOptions
from .patterns import matches
from .process import ask
from .urls import can_pin, expand_ranges, has_ranges, is_url, is_web_url, split_url

# More objects of one folder than this are found by listing it. Those of a range are most likely all
# that the folder has; a folder may have many more than those that are named one by one.
_WORTH_LISTING = 4
_WORTH_LISTING_NAMED = 256


# ---- requests ----


def read_remote_stamp(url: str, options: RemoteOptions) -> Stamp:
    """Return the stamp of an object as it is now.

    Raises:
        FileNotFoundError: If it does not exist.
        OSError: If the request failed.
    """
    stamp: Stamp = ask(url, options, "head")
    return stamp


def list_folder(
    folder: str, options: RemoteOptions, *, is_recursive: bool = False
) -> tuple[dict[str, Stamp], list[str]]:
    """List a folder as it is now. Folders of HTTP servers, which have no listing, seem empty.

    Args:
        folder: Public URL without a slash at its end.
        options: Options for remote objects.
        is_recursive: Whether the objects in folders of the folder are listed, too, and not the
            folders.

    Returns:
        Stamps of the objects by their public URLs, and the names of the folders in order.

    Raises:
        OSError: If the request failed.
    """
    if is_web_url(folder):
        return {}, []
    stamps: dict[str, Stamp]
    folders: list[str]
    try:
        stamps, folders = ask(f"{folder}/", options, "list_folder", is_recursive)
    except FileNotFoundError:  # there is no such store
        return {}, []
    root = split_url(folder).root
    found = {key if is_url(key) else f"{root}/{key}": stamp for key, stamp in stamps.items()}
    names = sorted(os.path.basename(name.rstrip("/")) for name in folders)
    return found, names


# ---- what is known ----


def list_once(folder: str, options: RemoteOptions) -> list[str]:
    """Return the objects in a folder, and remember their stamps. It is listed once.

    Args:
        folder: Public URL without a slash at its end.
        options: Options for remote objects.

    Raises:
        OSError: If the request failed.
    """
    if folder in options.listed:
        return [url for url in options.stamps if os.path.dirname(url) == folder]
    return [] if is_web_url(folder) else _list(folder, options)[0]


def _list(
    folder: str, options: RemoteOptions, *, is_recursive: bool = False
) -> tuple[list[str], list[str]]:
    """Return the objects in a folder, and remember their stamps; and the names of its folders."""
    found, folders = list_folder(folder, options, is_recursive=is_recursive)
    options.stamps.update(found)
    options.listed.add(folder)
    if is_recursive:
        options.listed.update(map(os.path.dirname, found))
    return [*found], folders


def is_known_missing(url: str, options: RemoteOptions) -> bool:
    """Return whether a listing showed that an object does not exist."""
    return url not in options.stamps and os.path.dirname(url) in options.listed


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
    names = [*dict.fromkeys(names)]
    counts = Counter(map(os.path.dirname, names))

    def try_listing(folder: str) -> None:
        with contextlib.suppress(PermissionError):  # its objects may still be read
            list_once(folder, options)

    worth = [folder for folder, count in counts.items() if count > worth_listing]
    map_in_threads(try_listing, worth, REMOTE_THREADS)
    rest = [name for name in names if not is_known_missing(name, options)]
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
) -> tuple[list[str], bool]:
    """Return the objects that a URL stands for, and remember their stamps.

    Args:
        url: URL, pattern, folder, or a URL with ranges of numbers; as the user gave it.
        options: Options for remote objects.
        is_data: Whether the object of a name in a folder is a data file.
        allow_missing: Whether objects of a range may be missing.

    Returns:
        Public URLs in order, and whether the URL names each of them.

    Raises:
        FileNotFoundError: If there is no such object, or objects of a range are missing.
        OSError: If a request failed.
        ValueError: If the URL is a pattern or folder of an HTTP server, which has no listing.
    """
    if has_ranges(url):
        names = [options.name(each) for each in expand_ranges(url)]
        return _existing(names, options, allow_missing=allow_missing), True
    public = options.name(url)
    if is_web_url(public):
        if public.endswith("/") or "*" in public:
            raise no_listing(public)
        return _existing([public], options, allow_missing=False), True
    if glob.has_magic(public):
        matched = _find_matches(public, options)
        # A name may have the characters of a pattern.
        return ([public], True) if public in options.stamps else (matched, False)
    if not public.endswith("/") and _is_object(public, options):
        return [public], True
    folder = public.rstrip("/")
    found, below = _list(folder, options)
    if not found and not below:
        raise FileNotFoundError(f"no such object or folder: {folder!r}")
    return data_files(folder, map(os.path.basename, found), below, is_data), False


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
    folder = "/".join(parts[:first])
    is_recursive = first < len(parts) - 1 or parts[-1] == "**"
    found, _ = _list(folder, options, is_recursive=is_recursive)
    matched = sorted(url for url in found if matches(pattern, url) and not url.endswith(".tfidx"))
    if not matched and pattern not in found:
        raise FileNotFoundError(f"the pattern {pattern!r} matches no object")
    return matched
