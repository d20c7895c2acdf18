"""The formats of bytes in plain Python: the model of the native core."""

from __future__ import annotations

from typing import Any

from torchrec_io.inspection.byte_formats import EMPTY, OTHER, TENSOR, TEXT
from torchrec_io.inspection.dynamic_messages import GROUP, parse_fields

# First bytes of files by format.
_SIGNATURES = {
    b"\xff\xd8\xff": "JPEG",
    b"\x89PNG\r\n\x1a\n": "PNG",
    b"GIF87a": "GIF",
    b"GIF89a": "GIF",
    b"BM": "BMP",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
    b"fLaC": "FLAC",
    b"OggS": "Ogg",
    b"ID3": "MP3",
    b"\x93NUMPY": "NumPy array",
    b"PK\x03\x04": "zip",
    b"\x1f\x8b\x08": "gzip",
}
_RIFF_FORMATS = {b"WEBP": "WebP", b"WAVE": "WAV", b"AVI ": "AVI"}
_PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
# Tags of the fields of a TensorProto: the dtype, the shape, which has only sizes, and the values:
# bytes, or a list of each kind of number.
_TENSOR_START = b"\x08"
_TENSOR_SHAPE = _SHAPE_SIZE = 2 << 3 | 2
_TENSOR_VALUES = {number << 3 | 2 for number in (4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 17)}


def sniff_model(data: bytes) -> str:
    """Return the format that bytes seem to have: one of a file, or one of the names above."""
    if not data:
        return EMPTY
    if _is_text(data):
        return TEXT
    return _file_format(data) or (TENSOR if _is_tensor_proto(data) else OTHER)


def _file_format(data: bytes) -> str | None:
    """Return the format of the files that start like these bytes, or None if it is not known."""
    if data.startswith(b"RIFF"):
        return _RIFF_FORMATS.get(data[8:12])
    if data.startswith(_PICKLES) and data.endswith(b"."):
        return "pickle"
    return next((name for start, name in _SIGNATURES.items() if data.startswith(start)), None)


def _is_tensor_proto(data: bytes) -> bool:
    """Return whether bytes may be a ``TensorProto`` that ``tf.io.serialize_tensor`` wrote.

    Such a message starts with the dtype and the shape. The values are not compared with them.
    """
    if not data.startswith(_TENSOR_START):
        return False
    fields = _tagged_fields(data) or []
    shape = next((content for tag, content in fields if tag == _TENSOR_SHAPE), None)
    sizes = None if shape is None else _tagged_fields(shape)
    if sizes is None or not {tag for tag, _ in sizes} <= {_SHAPE_SIZE}:
        return False
    return {tag for tag, _ in fields[2:]} <= _TENSOR_VALUES


def _tagged_fields(data: bytes) -> list[tuple[int, Any]] | None:
    """Return the tag and the content of each field of a message, without old groups."""
    fields = parse_fields(data)
    if fields is None:
        return None
    return [
        (field.field_number << 3 | field.wire_type, field.data)
        for field in fields
        if field.wire_type != GROUP
    ]


def _is_text(data: bytes) -> bool:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    for white in "\t\r\n":
        text = text.replace(white, "")
    return text.isprintable()
