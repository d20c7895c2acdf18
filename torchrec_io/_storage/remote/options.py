"""Options for remote objects: the user's ``storage_options``, and limits."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ..digest import digest_text
from .option_names import is_public
from .urls import is_web_url, public_url

if TYPE_CHECKING:
    from ..cache.block_cache import BlockCache
    from ..stamp import Stamp

DEFAULT_FETCH_BYTES = 256 << 20
LEAST_FETCH_BYTES = 1 << 20


class RemoteOptions:
    """Options for remote objects.

    Secrets appear neither in its ``repr`` nor in its pickled form. The exception are the pickles
    that start a process of :mod:`multiprocessing`, such as a worker of a DataLoader, which go from
    one process to the other.

    Args:
        options: The user's ``storage_options``.
        fetch_bytes: Size of the memory for ranges that are fetched, in bytes.
        cache: Cache on the local disk, if there is one.

    Attributes:
        fetch_bytes: Size of the memory for ranges that are fetched, in bytes.
        cache: Cache on the local disk, if there is one.
        stamps: Stamps of objects that were listed or asked for, by their public URLs.
        listed: Public URLs of the folders that were listed, without a slash at their ends.
    """

    def __init__(
        self,
        options: Mapping[str, Any] | None = None,
        fetch_bytes: int = DEFAULT_FETCH_BYTES,
        cache: BlockCache | None = None,
    ) -> None:
        self.fetch_bytes = fetch_bytes
        self.cache = cache
        self.stamps: dict[str, Stamp] = {}
        self.listed: set[str] = set()
        self._options = dict(options or {})
        self._urls: dict[str, str] = {}  # public ones of HTTP to those with secrets
        self._lost: tuple[str, ...] = ()  # names of secrets that were not pickled

    @staticmethod
    def of(options: StorageOptions) -> RemoteOptions:
        """Return a user's options as an object of this class."""
        return options if isinstance(options, RemoteOptions) else RemoteOptions(options)

    @property
    def options(self) -> dict[str, Any]:
        """The user's options, with secrets.

        Raises:
            ValueError: If secrets were left out when these options were pickled.
        """
        if self._lost:
            raise ValueError(
                f"{', '.join(self._lost)} cannot be used here: secrets are not pickled, except to "
                "start a process. Create the dataset in this process, or give the secrets in the "
                "environment"
            )
        return self._options

    @property
    def identity(self) -> str:
        """Text that is equal for equal options."""
        return digest_text(repr(sorted(self._options.items())))

    def place(self, scheme: str) -> str:
        """Return text that is equal for options that lead to the same server and account."""
        from .endpoints import place_of  # noqa: PLC0415  # not for local files

        return place_of(scheme, self._options)

    def name(self, url: str) -> str:
        """Return the public form of a URL, and remember the rest of it.

        Raises:
            ValueError: If another URL differs from this one only in what is secret.
        """
        public = public_url(url)
        if is_web_url(url) and public != url:
            known = self._urls.setdefault(public, url)
            if known != url:
                raise ValueError(
                    f"two URLs differ only in their query or user: {public}. Use URLs with "
                    "different paths"
                )
        return public

    def address(self, public: str) -> str:
        """Return the whole URL, with its secrets, of a public URL."""
        return self._urls.get(public, public)

    def __repr__(self) -> str:
        shown = (
            f"{name!r}: {value!r}" if is_public(name, value) else f"{name!r}: ..."
            for name, value in self._options.items()
        )
        return f"{{{', '.join(shown)}}}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RemoteOptions):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.identity, self.fetch_bytes, self.cache

    def __copy__(self) -> RemoteOptions:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> RemoteOptions:
        return self  # a copy would be pickled otherwise, without secrets

    def __reduce__(self) -> tuple[Any, ...]:
        from multiprocessing import context  # noqa: PLC0415  # only where processes are started

        options, urls, lost = self._options, self._urls, self._lost
        if context.get_spawning_popen() is None:  # as for authentication keys of multiprocessing
            options = {name: value for name, value in options.items() if is_public(name, value)}
            hidden = itertools.chain(self._options.keys() - options.keys(), urls)
            lost = tuple(dict.fromkeys([*lost, *hidden]))
            urls = {}
        return _restore, (options, self.fetch_bytes, self.cache, urls, lost)


# Type of the argument ``storage_options`` of public functions.
StorageOptions: TypeAlias = Mapping[str, Any] | RemoteOptions | None


def _restore(
    options: dict[str, Any],
    fetch_bytes: int,
    cache: BlockCache | None,
    urls: dict[str, str],
    lost: tuple[str, ...],
) -> RemoteOptions:
    restored = RemoteOptions(options, fetch_bytes, cache)
    restored._urls = urls  # noqa: SLF001  # of this module
    restored._lost = lost  # noqa: SLF001
    return restored


def check_storage_options(name: str, value: Any) -> StorageOptions:
    """Check the argument ``storage_options``, whose secrets are not shown from then on.

    Raises:
        ValueError: If it is neither a mapping nor None.
    """
    if value is not None and not isinstance(value, (Mapping, RemoteOptions)):
        # The value may be a secret.
        raise ValueError(f"{name} must be a mapping or None, got {type(value).__name__}")
    return None if value is None else RemoteOptions.of(value)


def with_limits(
    options: StorageOptions, fetch_bytes: int, cache: BlockCache | None
) -> StorageOptions:
    """Return the same options with limits of their own.

    Args:
        options: The user's options.
        fetch_bytes: Size of the memory for ranges that are fetched, in bytes.
        cache: Cache on the local disk, if there is one.
    """
    known = options._options if isinstance(options, RemoteOptions) else options  # noqa: SLF001
    return RemoteOptions(known, fetch_bytes, cache)
