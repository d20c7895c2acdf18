"""The connections of this process to object stores."""

from __future__ import annotations

import errno
import importlib.util
import os
import re
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from .client import Client, HelperError, KnownStore, OpenObject
from .connection import HelperConnection
from .failures import Failure, Kind, error_of
from .fetcher import Fetcher
from .messages import ObjectInfo
from .options import RemoteOptions
from .urls import OBJECT_STORES, ObjectName, scheme_of
from .web import store_of

if TYPE_CHECKING:
    from ..cache.object_blocks import ObjectBlocks

_USED_VARIABLES = re.compile(
    r"AWS_|GOOGLE_|GCS_|GCLOUD|AZURE_|AZ_|SSL_|HOME$|(HTTPS?|ALL|NO)_PROXY$", re.IGNORECASE
)


class _Connections:
    """The fetchers of a process, by what they are for.

    Attributes:
        lock: Held while the fetchers are changed.
        fetchers: One for object stores, and one for filesystems.
        memory_bytes: Size of the memory of all of them: the largest that was asked for.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.fetchers: dict[str, Fetcher] = {}
        self.memory_bytes = 0


_connections = _Connections()


class ObjectAccess(NamedTuple):
    """The way to an object in this process.

    Attributes:
        fetcher: Fetches its bytes.
        store: Number of its store in the fetcher's client.
        key: Its name in the store.
        tried: Credentials that requests have, in words.
    """

    fetcher: Fetcher
    store: int
    key: str
    tried: str

    def ask(
        self, url: str, name: str, *arguments: Any, needs: str = "read and list objects"
    ) -> Any:
        """Make a request about an object or folder, and return the answer.

        Args:
            url: Public URL.
            name: Name of the request.
            arguments: Its arguments.
            needs: Actions that the credentials must allow.

        Raises:
            OSError: If the request failed.
        """
        answer = self.fetcher.client.ask(name, self.store, *arguments)
        if isinstance(answer, Failure):
            forget_refused(self.fetcher, self.store, answer)
            raise error_of(answer, url, self.tried, needs)
        return answer

    def open(self, pin: ObjectInfo, blocks: ObjectBlocks | None = None) -> OpenObject:
        """Return an object to read exactly as it was, through the cache if it has blocks there."""
        return OpenObject(self.store, pin._replace(key=self.key), blocks)


def access(url: str, options: RemoteOptions) -> ObjectAccess:
    """Return the way to an object or folder in this process.

    Args:
        url: Public URL.
        options: Options for remote objects.

    Raises:
        ImportError: If a package is missing.
        ValueError: If the options are not valid.
    """
    scheme = scheme_of(url)
    kind = "objects" if scheme in OBJECT_STORES else "files"
    location = store_of(url, options)
    with _connections.lock:
        _connections.memory_bytes = max(_connections.memory_bytes, options.fetch_bytes)
        fetcher = _fetcher(kind, scheme)
        key = (location.root, options.identity)
        known = fetcher.stores.get(key)
        if known is None:
            known = fetcher.stores[key] = _add_store(fetcher, url, location, options)
    return ObjectAccess(fetcher, known.number, location.key, known.tried)


def ask_again(
    url: str,
    options: RemoteOptions,
    name: str,
    *arguments: Any,
    needs: str = "read and list objects",
) -> Any:
    """Make a request that may be made twice, as where the helper process has ended meanwhile.

    Args:
        url: Public URL of the object or folder.
        options: Options for remote objects.
        name: Name of the request.
        arguments: Its arguments. Default: the name of the object in the store.
        needs: Actions that the credentials must allow.

    Raises:
        OSError: If the request failed.
    """
    for _ in range(2):
        try:
            way = access(url, options)
            return way.ask(url, name, *(arguments or [way.key]), needs=needs)
        except HelperError as error:
            failure = error
    raise OSError(errno.EIO, str(failure), url)


def _fetcher(kind: str, scheme: str) -> Fetcher:
    environment = _environment() if kind == "objects" else 0
    fetchers = _connections.fetchers
    fetcher = fetchers.get(kind)
    # A helper has the credentials that were in the environment when it was started.
    if fetcher is not None and (fetcher.client.has_failed() or fetcher.environment != environment):
        fetchers.pop(kind).client.close()
        fetcher = None
    # Both kinds share the memory.
    limit = _connections.memory_bytes // len({*fetchers, kind})
    if fetcher is None:
        fetcher = fetchers[kind] = Fetcher(_client(kind, scheme, limit), environment)
    for each in fetchers.values():
        if each.limit != limit and not each.client.has_failed():
            each.set_limit(limit)
    return fetcher


def _environment() -> int:
    """Return a number that changes with the variables that stores and HTTP clients use."""
    used = (item for item in os.environ.items() if _USED_VARIABLES.match(item[0]))
    return hash(frozenset(used))


def forget_refused(fetcher: Fetcher, store: int, failure: Failure) -> None:
    """Forget a store whose credentials were refused, so that they are looked for again."""
    if failure.kind is Kind.denied:
        for key in [key for key, known in fetcher.stores.items() if known.number == store]:
            fetcher.stores.pop(key, None)


def _client(kind: str, scheme: str, memory_bytes: int) -> Client:
    package = "obstore" if kind == "objects" else "fsspec"
    if importlib.util.find_spec(package) is None:
        install = "pip install torchrec-io[remote]" if kind == "objects" else "pip install fsspec"
        raise ImportError(f"reading {scheme}:// needs the package {package}: {install}")
    if kind == "objects":
        return HelperConnection(memory_bytes)
    from .filesystem import FilesystemClient  # noqa: PLC0415  # loads fsspec

    return FilesystemClient(memory_bytes)


def _add_store(
    fetcher: Fetcher, url: str, location: ObjectName, options: RemoteOptions
) -> KnownStore:
    number = fetcher.new_store_number()
    answer = fetcher.client.ask("make", number, location.root, options.options)
    if isinstance(answer, Failure):
        raise error_of(answer, url, "the credentials that fsspec finds")
    if isinstance(answer, Exception):
        raise answer
    return KnownStore(number, answer)


def close_connections() -> None:
    """End the helpers of this process. Reading starts new ones."""
    with _connections.lock:
        for fetcher in _connections.fetchers.values():
            fetcher.client.close()
        _connections.fetchers.clear()
        _connections.memory_bytes = 0


def _forget_connections() -> None:
    """Drop the connections of the parent, in a child that it forked."""
    global _connections  # its lock may be held by a thread that does not exist
    inherited, _connections = _connections, _Connections()
    for fetcher in inherited.fetchers.values():
        fetcher.client.forget()


os.register_at_fork(after_in_child=_forget_connections)
