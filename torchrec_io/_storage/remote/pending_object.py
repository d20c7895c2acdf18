"""Objects that appear under their names only when they are complete."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import sys
import tempfile
import weakref
from typing import Literal

from ..byte_source import ByteSource
from ..pending_file import output_exists
from ..stamp import Stamp
from ..temporary import temporary_name
from .failures import HelperError, RequestError, error_of
from .messages import PART_BYTES, SECONDS_TO_GIVE_UP
from .options import RemoteOptions
from .process import ObjectAccess, access, ask
from .upload import WRITE, check_writable, copy_object, delete_objects, exists, put_object
from .urls import can_pin

# The most that stores take.
MOST_PARTS = 10_000
# Stores copy larger objects only in parts.
MOST_COPIED_BYTES = 5 << 30
# What is kept of both ends of an object, for the fingerprint in its index.
_END_BYTES = 1 << 16

_numbers = itertools.count()


class PendingObject:
    """A new object. Nothing of it can be seen before it gets its name.

    Its bytes are gathered in a temporary file of this machine. Whenever that has a whole part, the
    part is sent to the store, which shows no object before the last part is sent and the upload is
    completed. The parts are dropped when the object is discarded, when the interpreter exits, or
    when this process is killed. A filesystem of fsspec gets the whole file at the end.

    Args:
        url: Public URL of the object.
        options: Options for remote objects.
        has_name: Whether the object keeps this name. Otherwise a large object gets its name by a
            copy in the store, for lack of a renaming.

    Attributes:
        path: Public URL of the object.
        size: Number of bytes written.

    Raises:
        OSError: If the URL is one of HTTP, or there is no place for a temporary file.
    """

    def __init__(self, url: str, options: RemoteOptions, *, has_name: bool = True) -> None:
        check_writable(url)
        self.path = url
        self.size = 0
        self._options = options
        self._upload_url = url if has_name else temporary_name(url)
        self._number = next(_numbers)  # of the upload
        self._way: ObjectAccess | None = None  # once a part was sent: where all parts must go
        self._drop: weakref.finalize[..., PendingObject] | None = None  # from then on
        self._most = PART_BYTES if can_pin(url) else sys.maxsize
        self._head = b""
        self._tail = b""
        self._gathered = 0  # number of bytes in the file
        self._file = tempfile.TemporaryFile(  # noqa: SIM115  # closed with this object
            prefix="torchrec_io-", buffering=0
        )

    def write(self, *parts: bytes | memoryview) -> None:
        """Append bytes."""
        for part in parts:
            view = memoryview(part).cast("B")
            self._head += view[: _END_BYTES - len(self._head)]
            self._tail = (self._tail + view[-_END_BYTES:])[-_END_BYTES:]
            while view:
                if self._gathered == self._most:
                    self._send_part()
                fitting = view[: self._most - self._gathered]
                done = os.pwrite(self._file.fileno(), fitting, self._gathered)
                view = view[done:]
                self.size += done
                self._gathered += done

    def sync(self) -> None:
        """Wait until the content is stored: a no-op, because :meth:`rename` sends the rest."""

    def source(self) -> ByteSource:
        """Open the content that was written so far; only its two ends can be read."""
        return _WrittenEnds(self.path, self.size, self._head, self._tail)

    def rename(self, url: str, *, must_be_new: bool = False) -> Stamp | None:
        """Give the object its name, replacing any object of that name.

        Args:
            url: Public URL.
            must_be_new: Whether an object of that name is an error.

        Returns:
            Stamp of the object, if the store has told it.

        Raises:
            FileExistsError: If there is an object of that name, and it must be new.
            OSError: If a request failed.
        """
        stamp = None
        if self.size <= PART_BYTES:
            try:
                stamp = put_object(url, self._rest(), self._options, must_be_new=must_be_new)
            except FileExistsError:
                raise output_exists(url) from None
        else:
            # Stores do not compare names where they complete an upload.
            if must_be_new and exists(url, self._options):
                raise output_exists(url)
            if can_pin(url):
                hidden = [] if self._upload_url == url else [self._upload_url]
                try:
                    self._send("finish")
                    for name in hidden:
                        copy_object(name, url, self._options)
                except BaseException:
                    with contextlib.suppress(OSError):
                        delete_objects(hidden, self._options)
                    raise
                delete_objects(hidden, self._options)
            else:
                local = f"/dev/fd/{self._file.fileno()}"
                ask(url, self._options, "put_file", local, needs=WRITE)
        if self._drop is not None:
            self._drop.detach()
        self._file.close()
        return stamp

    def discard(self) -> None:
        """Drop the content that was written. Has no effect once the object has its name."""
        if self._drop is not None:
            self._drop()
        self._file.close()

    def _send_part(self) -> None:
        if self.size >= PART_BYTES * MOST_PARTS:  # there is more
            limit = PART_BYTES * MOST_PARTS >> 30
            reason = f"an object cannot be larger than {limit} GiB here; write several files"
            raise OSError(errno.EFBIG, reason, self.path)
        self._send("write")
        self._gathered = 0

    def _send(self, name: Literal["write", "finish"]) -> None:
        """Send the gathered bytes to the store: a part, or the last part, which finishes it."""
        if self._way is None:
            self._way = access(self._upload_url, self._options)
            self._drop = weakref.finalize(self, _give_up, self._way, self._number)
        way = self._way
        try:
            way.client.ask(way.store, name, way.key, self._number, self._rest())
        except RequestError as error:
            raise error_of(error.failure, self.path, WRITE) from None
        except HelperError as error:  # it had the upload
            raise OSError(errno.EIO, f"the upload was lost: {error}", self.path) from None

    def _rest(self) -> bytes:
        return os.pread(self._file.fileno(), self._gathered, 0)


def _give_up(way: ObjectAccess, number: int) -> None:
    """Drop the parts of an upload, in the process that sends it.

    Args:
        way: Access to the object to which the parts were sent.
        number: Number of the upload.
    """
    if os.getpid() == way.pid:
        with contextlib.suppress(OSError, RequestError, TimeoutError):
            way.client.ask(way.store, "give_up", number, timeout=SECONDS_TO_GIVE_UP)


class _WrittenEnds(ByteSource):
    """The two ends of an object that is being written."""

    def __init__(self, path: str, size: int, head: bytes, tail: bytes) -> None:
        self.path = path
        self.stamp = Stamp(("", ""), size, 0)
        self._head = head
        self._tail = tail

    @property
    def size(self) -> int:
        return self.stamp.size

    def read_into(self, offset: int, out: memoryview) -> int:
        end, at = (self._head, 0) if offset == 0 else (self._tail, self.size - len(self._tail))
        data = end[offset - at :][: len(out)]
        out[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the source: a no-op, because both ends are in memory."""
