"""The clients of this process, and the way to an object through them."""

from __future__ import annotations

import errno
import importlib.util
import os
import re
import threading
from typing import Any, NamedTuple

from .client import Client, HelperError
from .connection import HelperConnection
from .failures import Failure, error_of
from .messages import StoreAddress
from .options import RemoteOptions
from .urls import OBJECT_STORES, scheme_of
from .web import store_of

_USED_VARIABLES = re.compile(
    r"AWS_|GOOGLE_|GCS_|GCLOUD|AZURE_|AZ_|SSL_|HOME$|(HTTPS?|ALL|NO)_PROXY$", re.IGNORECASE
)


class _Clients:
    """The clients of a process.

    Attributes:
        lock: Held while the clients are changed.
        of_kind: One for objects of stores, and one for files of filesystems.
        memory_bytes: Size of the memory of each: the largest that was asked for.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.of_kind: dict[str, Client] = {}
        self.memory_bytes = 0


_clients = _Clients()


class ObjectAccess(NamedTuple):
    """The way to an object in this process.

    Attributes:
        client: Makes the requests.
        store: Its store.
        key: Its name in the store.
    """

    client: Client
    store: StoreAddress
    key: str

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
            HelperError: If the helper has ended.
            OSError: If the request failed.
        """
        answer = self.client.ask(self.store, name, *arguments)
        if isinstance(answer, Failure):
            raise error_of(answer, url, needs)
        return answer


def access(url: str, options: RemoteOptions) -> ObjectAccess:
    """Return the way to an object or folder in this process.

    Args:
        url: Public URL.
        options: Options for remote objects.

    Raises:
        ImportError: If a package is missing.
        ValueError: If secrets were left out when the options were pickled.
    """
    root, key = store_of(url, options)
    store = StoreAddress(root, options.identity, options.options)
    with _clients.lock:
        _clients.memory_bytes = max(_clients.memory_bytes, options.fetch_bytes)
        client = _client_for(scheme_of(url))
    return ObjectAccess(client, store, key)


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


def _client_for(scheme: str) -> Client:
    """Return the client for URLs of a scheme."""
    is_store = scheme in OBJECT_STORES
    kind, environment = ("objects", _environment()) if is_store else ("files", 0)
    known = _clients.of_kind
    client = known.get(kind)
    # A helper has the credentials that were in the environment when it was started.
    if client is not None and (client.has_failed() or client.environment != environment):
        known.pop(kind).close()
        client = None
    if client is None:
        client = known[kind] = _new_client(scheme, _clients.memory_bytes, environment)
    client.grow(_clients.memory_bytes)
    return client


def _environment() -> int:
    """Return a number that changes with the variables that stores and HTTP clients use."""
    used = (item for item in os.environ.items() if _USED_VARIABLES.match(item[0]))
    return hash(frozenset(used))


def _new_client(scheme: str, memory_bytes: int, environment: int) -> Client:
    is_store = scheme in OBJECT_STORES
    package = "obstore" if is_store else "fsspec"
    if importlib.util.find_spec(package) is None:
        install = "torchrec-io[remote]" if is_store else "fsspec"
        raise ImportError(f"reading {scheme}:// needs the package {package}: pip install {install}")
    if is_store:
        return HelperConnection(memory_bytes, environment)
    from .filesystem import FilesystemClient  # noqa: PLC0415  # loads fsspec

    return FilesystemClient(memory_bytes)


def close_connections() -> None:
    """End the helpers of this process. Reading starts new ones."""
    with _clients.lock:
        for client in _clients.of_kind.values():
            client.close()
        _clients.of_kind.clear()
        _clients.memory_bytes = 0


def _forget_clients() -> None:
    """Drop the clients of the parent, in a child that it forked."""
    global _clients  # its lock may be held by a thread that does not exist
    inherited, _clients = _clients, _Clients()
    for client in inherited.of_kind.values():
        client.forget()


os.register_at_fork(after_in_child=_forget_clients)
