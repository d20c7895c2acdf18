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


_lock = threading.Lock()  # held while the clients are changed
_clients: dict[str, Client] = {}  # one for objects of stores, and one for files of filesystems


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
    with _lock:
        client = _client_for(scheme_of(url), options.fetch_bytes)
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


def _client_for(scheme: str, memory_bytes: int) -> Client:
    """Return the client for URLs of a scheme, with memory of at least a size."""
    is_store = scheme in OBJECT_STORES
    kind, environment = ("objects", _environment()) if is_store else ("files", 0)
    client = _clients.get(kind)
    # A helper has the credentials that were in the environment when it was started.
    if client is not None and (client.has_failed() or client.environment != environment):
        _clients.pop(kind).close()
        client = None
    if client is None:
        client = _clients[kind] = _new_client(scheme, memory_bytes, environment)
    client.grow(memory_bytes)
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
    with _lock:
        for client in _clients.values():
            client.close()
        _clients.clear()


def _drop_inherited_clients() -> None:
    """Drop the clients of the parent, in a child that it forked."""
    global _lock  # noqa: PLW0603  # a thread that does not exist may hold it
    _lock = threading.Lock()
    for client in _clients.values():
        client.close_in_child()
    _clients.clear()


os.register_at_fork(after_in_child=_drop_inherited_clients)
