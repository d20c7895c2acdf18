"""Text that may not be UTF-8, escaped for readers that refuse such a file as a whole.

Bytes that are not UTF-8 are escaped, and the escape character itself. It stands for nothing in
Unicode, so it is rare in text.
"""

from __future__ import annotations

import codecs
import functools
import io
import itertools
import re
from typing import Any, BinaryIO

from . import arrow as pa

_ESCAPE = "\ufffe"
_ESCAPED_ESCAPE, _ESCAPED_BYTE = _ESCAPE + "0", _ESCAPE + "1"
# A value that no escaped text has.
END = _ESCAPE + "2"
_READ_BYTES = 1 << 16
_INVALID_BYTES = re.compile("[\udc80-\udcff]")  # as surrogateescape decodes them


class EscapedText(io.RawIOBase):
    """A readable file with the escaped text of another one.

    Args:
        file: File of text.
        end: Text to add at the end.
    """

    def __init__(self, file: BinaryIO, end: str = "") -> None:
        super().__init__()
        parts = iter(functools.partial(file.read, _READ_BYTES), b"")
        texts = codecs.iterdecode(parts, "utf-8", "surrogateescape")
        self._texts = itertools.chain(map(_escaped, texts), [end])
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            text = next(self._texts, None)
            if text is None:
                return 0
            self._left = text.encode()
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size


def unescaped(column: Any) -> Any:
    """Return an Arrow column of escaped text as bytes. An escaped byte becomes ``ff``."""
    column = pa.compute.replace_substring(column, _ESCAPED_BYTE.encode(), b"\xff")
    return pa.compute.replace_substring(column, _ESCAPED_ESCAPE.encode(), _ESCAPE.encode())


def _escaped(text: str) -> str:
    return _INVALID_BYTES.sub(_ESCAPED_BYTE, text.replace(_ESCAPE, _ESCAPED_ESCAPE))
