"""Text that may not be UTF-8, escaped for readers that refuse such a file as a whole.

Bytes that are not UTF-8 are escaped, and the escape character itself. It stands for nothing in
Unicode, so it is rare in text.
"""

from __future__ import annotations

import codecs
import re
from typing import Any, BinaryIO

from . import arrow as pa

_ESCAPE = "\ufffe"
_ESCAPED_ESCAPE, _ESCAPED_BYTE = _ESCAPE + "0", _ESCAPE + "1"
# A value that no escaped text has.
END = _ESCAPE + "2"
_INVALID_BYTES = re.compile("[\udc80-\udcff]")  # as surrogateescape decodes them


def escaped_text(file: BinaryIO, end: str = "") -> Any:
    """Return an Arrow input stream of the escaped text of a file, and of ``end`` after it."""
    decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
    ends = iter([end])

    def escape(data: Any) -> bytes:
        is_end = not len(data)
        text = decode(data, is_end).replace(_ESCAPE, _ESCAPED_ESCAPE)
        escaped = _INVALID_BYTES.sub(_ESCAPED_BYTE, text)
        return (escaped + next(ends, "") if is_end else escaped).encode()

    return pa.TransformInputStream(pa.PythonFile(file, mode="r"), escape)


def unescaped(column: Any) -> Any:
    """Return an Arrow column of escaped text as bytes. An escaped byte becomes ``ff``."""
    column = pa.compute.replace_substring(column, _ESCAPED_BYTE.encode(), b"\xff")
    return pa.compute.replace_substring(column, _ESCAPED_ESCAPE.encode(), _ESCAPE.encode())
