"""The clients of this process, and the way to an object through them."""

from __future__ import annotations

import errno
import importlib.util
import os
import re
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from .failures import HelperError, RequestError, error_of
from .messages import StoreAddress
from .options import RemoteOptions
from .urls import OBJECT_STORES, scheme_of
from .web import store_of

if TYPE_CHECKING:
    from .connection import HelperConnection
    from .filesystem import FilesystemClient

    # Makes requests to stores.
    Client: TypeAlias = HelperConnection | FilesystemClient

_USED_VARIABLES = re.compile(
    r"AWS_|GOOGLE_|GCS_|GCLOUD|AZURE_|AZ_|SSL_|HOME$|(HTTPS?|ALL|NO)_PROXY$", re.IGNORECASE
)

_lock = threading.Lock()  # held while the clients are changed
_helper: HelperConnection | None = None  # for objects of stores
_filesystems: FilesystemClient | None = None  # for files of fsspec


class ObjectAccess(NamedTuple):
    """The way to an object in this process.

    Attributes:
        client: Makes the requests.
        store: Its store.
        key: Its name in the store.
        pid: This process: a forked child needs another way.
    """

    client: Client
    store: StoreAddress
    key: str
    pid: int


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
    return ObjectAccess(client, store, key, os.getpid())


def ask(
    url: str,
    options: RemoteOptions,
    name: str,
    *arguments: Any,
    needs: str = "read and list objects",
) -> Any:
    """Make a request about an object or folder, once more if the helper process has ended.

    Args:
        url: Public URL.
        options: Options for remote objects.
        name: Name of the request; see :class:`ObjectStore`.
        arguments: Its arguments after the name of the object in the store.
        needs: Actions that the credentials must allow.

    Raises:
        OSError: If the request failed.
    """
    for _ in range(2):
        way = access(url, options)
        try:
            return way.client.ask(way.store, name, way.key, *arguments)
        except RequestError as error:
            raise error_of(error.failure, url, needs) from None
        except HelperError as error:
            reason = str(error)
    raise OSError(errno.EIO, reason, url)


def _client_for(scheme: str, memory_bytes: int) -> Client:
    """Return the client for URLs of a scheme."""
    global _helper, _filesystems  # noqa: PLW0603  # one of each in a process
    if scheme not in OBJECT_STORES:
        if _filesystems is None:
            _check_package("fsspec", scheme, "fsspec")
            from .filesystem import FilesystemClient  # noqa: PLC0415  # loads fsspec

            _filesystems = FilesystemClient()
        return _filesystems
    # A helper has the credentials that were in the environment when it was started.
    environment = _environment()
    if _helper is not None and (_helper.has_failed() or _helper.environment != environment):
        _helper.close()
        _helper = None
    if _helper is None:
        _check_package("obstore", scheme, "torchrec-io[remote]")
        from .connection import HelperConnection  # noqa: PLC0415  # not for local files

        _helper = HelperConnection(memory_bytes, environment)
    _helper.grow(memory_bytes)
    return _helper


def _environment() -> int:
    """Return a number that changes with the variables that stores and HTTP clients use."""
    used = (item for item in os.environ.items() if _USED_VARIABLES.match(item[0]))
    return hash(frozenset(used))


def _check_package(package: str, scheme: str, install: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise ImportError(f"reading {scheme}:// needs the package {package}: pip install {install}")


def close_connections() -> None:
    """End the helper of this process. Reading starts a new one."""
    global _helper, _filesystems  # noqa: PLW0603  # as above
    with _lock:
        if _helper is not None:
            _helper.close()
        _helper = _filesystems = None


def _drop_inherited_clients() -> None:
    """Drop the clients of the parent, in a child that it forked."""
    global _lock, _helper, _filesystems  # noqa: PLW0603  # a thread that is gone may hold the lock
    _lock = threading.Lock()
    _helper = _filesystems = None


os.register_at_fork(after_in_child=_drop_inherited_clients)
