"""The connections of this process to object stores."""

from __future__ import annotations

import importlib.util
import os
import re
import threading
from typing import Any, NamedTuple

from .client import Client, KnownStore, OpenObject
from .connection import HelperConnection
from .failures import Failure, Kind, error_of
from .fetcher import Fetcher
from .messages import ObjectInfo
from .options import RemoteOptions
from .urls import OBJECT_STORES, Location, scheme_of
from .web import store_of

_USED_VARIABLES = re.compile(
    r"AWS_|GOOGLE_|GCS_|GCLOUD|AZURE_|AZ_|SSL_|HOME$|(HTTPS?|ALL|NO)_PROXY$", re.IGNORECASE
)


class _Connections:
    """The fetchers of a process, by the size of their memory, and by what they are for."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.fetchers: dict[tuple[str, int], Fetcher] = {}


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

    def ask(self, url: str, name: str, *arguments: Any) -> Any:
        """Make a request about an object or folder, and return the answer.

        Raises:
            OSError: If the request failed.
        """
        answer = self.fetcher.client.ask(name, self.store, *arguments)
        if isinstance(answer, Failure):
            forget_refused(self.fetcher, self.store, answer)
            raise error_of(answer, url, self.tried)
        return answer

    def head(self, url: str) -> ObjectInfo:
        """Return what a store says about an object."""
        info: ObjectInfo = self.ask(url, "head", self.key)
        return info

    def open(self, pin: ObjectInfo) -> OpenObject:
        """Return an object to read exactly as it was."""
        return OpenObject(self.store, pin._replace(key=self.key))


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
        fetcher = _fetcher(kind, scheme, options.fetch_bytes)
        key = (location.root, options.identity)
        known = fetcher.stores.get(key)
        if known is None:
            known = fetcher.stores[key] = _add_store(fetcher, location, options)
    return ObjectAccess(fetcher, known.number, location.key, known.tried)


def _fetcher(kind: str, scheme: str, fetch_bytes: int) -> Fetcher:
    environment = _environment() if kind == "objects" else 0
    fetcher = _connections.fetchers.get((kind, fetch_bytes))
    # A helper has the credentials that were in the environment when it was started.
    if fetcher is not None and (fetcher.client.has_failed() or fetcher.environment != environment):
        fetcher.client.close()
        fetcher = None
    if fetcher is None:
        fetcher = Fetcher(_client(kind, scheme, fetch_bytes), environment)
        _connections.fetchers[kind, fetch_bytes] = fetcher
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
    from .fsspec_client import FsspecClient  # noqa: PLC0415  # loads fsspec

    return FsspecClient(memory_bytes)


def _add_store(fetcher: Fetcher, location: Location, options: RemoteOptions) -> KnownStore:
    number = fetcher.new_store_number()
    answer = fetcher.client.ask("store", number, location.root, options.options)
    if isinstance(answer, Exception):
        raise answer
    return KnownStore(number, answer)


def close_connections() -> None:
    """End the helpers of this process. Reading starts new ones."""
    with _connections.lock:
        for fetcher in _connections.fetchers.values():
            fetcher.client.close()
        _connections.fetchers.clear()


def _forget_connections() -> None:
    """Drop the connections of the parent, in a child that it forked."""
    global _connections  # its lock may be held by a thread that does not exist
    inherited, _connections = _connections, _Connections()
    for fetcher in inherited.fetchers.values():
        fetcher.client.forget()


os.register_at_fork(after_in_child=_forget_connections)
