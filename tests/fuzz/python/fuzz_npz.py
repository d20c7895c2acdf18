"""Conversion of NumPy archives, compared with NumPy.

Input: options (1 byte), a file. Or, with an option, the files of an archive that is made of them,
separated by lines ``---``: mutations of an archive itself rarely match its checksums.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np

import torchrec_io as tio
from tests.fuzz.python.converted import convert
from tests.fuzz.python.inputs import cut_options

_MADE, _DEFLATED, _SKIP = 1, 2, 4
_NAMES = ("a.npy", "b.npy", "dir/c.npy", "a")


def check(data: bytes) -> None:
    (bits,), file = cut_options(data, 1)
    if bits & _MADE:
        file = _archive_of(file.split(b"\n---\n")[:4], deflated=bool(bits & _DEFLATED))
    on_error = "skip" if bits & _SKIP else "raise"
    found = convert(tio.convert.from_npz, file, "data.npz", on_error=on_error)
    if found is None or found.errors:
        return
    with np.load(io.BytesIO(file), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    assert {len(array) for array in arrays.values()} == {len(found.records)}
    for number, record in enumerate(found.records):
        assert set(record) == set(arrays), "other features"
        for name, (kind, values) in record.items():
            _require_same(kind, values, arrays[name][number])


def _require_same(kind: str | None, values: list[Any], row: Any) -> None:
    row = np.asarray(row).reshape(-1)
    if kind == "bytes_list":
        texts = [text.encode() if isinstance(text, str) else text for text in row.tolist()]
        assert values == texts
    elif kind == "int64_list":
        assert values == row.tolist()
    else:
        with np.errstate(over="ignore", invalid="ignore"):  # too large, a signaling NaN
            np.testing.assert_equal(values, row.astype(np.float32))


def _archive_of(files: list[bytes], *, deflated: bool) -> bytes:
    out = io.BytesIO()
    kind = zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED
    with zipfile.ZipFile(out, "w", kind) as archive:
        for name, content in zip(_NAMES, files, strict=False):
            archive.writestr(zipfile.ZipInfo(name), content)
    return out.getvalue()


def _file_of(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()


def seeds() -> Iterator[bytes]:
    arrays = {
        "int": np.arange(6, dtype=">i4").reshape(3, 2),
        "float": np.linspace(0, 1, 3),
        "text": np.array(["a", "", "\u00e9"]),
        "bytes": np.array([b"a", b"bc", b""]),
        "flag": np.array([True, False, True]),
        "fortran": np.asfortranarray(np.arange(12.0, dtype=np.float16).reshape(3, 2, 2)),
        "empty": np.zeros((3, 0), np.uint8),
        "wide": np.full(3, 2**63, np.uint64),
    }
    files = {name: _file_of(array) for name, array in arrays.items()}
    for file in files.values():
        yield bytes([_MADE]) + file
    yield bytes([_MADE | _DEFLATED]) + files["int"] + b"\n---\n" + files["text"]
    yield bytes([_MADE | _SKIP]) + files["bytes"] + b"\n---\n" + files["wide"]
    for save in (np.savez, np.savez_compressed):
        out = io.BytesIO()
        save(out, x=arrays["int"], y=arrays["float"])
        yield b"\0" + out.getvalue()
