"""Conversion of NumPy archives to TFRecord."""

from __future__ import annotations

import errno
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import torchrec_io as tio
from tests.convert.reading import Heard, contents, count_read, kinds_of, rows_of

Arrays = dict[str, npt.NDArray[Any]]


def convert(folder: Path, arrays: Arrays, **options: Any) -> tio.tools.Result:
    np.savez_compressed(folder / "in.npz", allow_pickle=False, **arrays)
    return tio.convert.from_npz(folder / "in.npz", folder / "out", **{"force": True, **options})


def test_rows_become_records(tmp_path: Path) -> None:
    done = convert(
        tmp_path,
        {
            "x": np.arange(12.0).reshape(3, 2, 2),
            "n": np.array([1, 2, 3], ">u2"),
            "s": np.array(["a", "bc", "é"]),
            "raw": np.array([b"a", b"b\0c", b""]),
            "flag": np.array([True, False, True]),
            "none": np.zeros((3, 0)),
        },
    )
    rows = rows_of(done.paths)
    assert rows[1] == {
        "x": [4.0, 5.0, 6.0, 7.0], "n": [2], "s": [b"bc"], "raw": [b"b\0c"], "flag": [0],
        "none": [],
    }  # fmt: skip
    assert [row["s"] for row in rows] == [[b"a"], [b"bc"], ["é".encode()]]
    assert kinds_of(done.paths[0])["none"] == {"float_list"}
    assert done.schema == tio.Schema(
        {
            "x": tio.FixedLenFeature([2, 2], "float32"),
            "n": tio.FixedLenFeature([], "int64"),
            "s": tio.FixedLenFeature([], "string"),
            "raw": tio.FixedLenFeature([], "string"),
            "flag": tio.FixedLenFeature([], "int64"),
            "none": tio.VarLenFeature("float32"),
        }
    )
    assert count_read(done) == 3


DTYPES = st.sampled_from([*"?bBhHiIlLefd", ">i4", ">f8", "<U3"])


@given(st.data())
def test_values_round_trip(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 4))
    shapes = st.lists(st.integers(1, 3), max_size=2).map(lambda tail: (count, *tail))
    dtype = np.dtype(data.draw(DTYPES))
    values = hnp.from_dtype(dtype, allow_nan=False)
    array: npt.NDArray[Any] = data.draw(hnp.arrays(dtype, data.draw(shapes), elements=values))
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            array = array.astype(np.float32).astype(array.dtype)
    if array.dtype.kind == "u" and array.dtype.itemsize == 8:
        array //= 2
    if data.draw(st.booleans()):
        array = np.asfortranarray(array)
    folder = tmp_path_factory.mktemp("npz")
    done = convert(folder, {"a": array, "id": np.arange(count)}, index=False)
    for i, row in enumerate(rows_of(done.paths)):
        assert row["id"] == [i]
        expected = array[i].ravel().tolist()
        if array.dtype.kind == "U":
            expected = [value.encode() for value in expected]
        assert row["a"] == expected


def test_value_out_of_range(tmp_path: Path) -> None:
    arrays = {
        "n": np.array([1, 1 << 63, 3, 4], np.uint64),
        "x": np.array([[0.5], [1], [1e39], [np.inf]]),
    }
    with pytest.raises(tio.ConversionError, match="row 1: 9223372036854775808 does not") as raised:
        convert(tmp_path, arrays)
    assert (raised.value.feature, raised.value.path) == ("n", str(tmp_path / "in.npz"))
    heard = Heard()
    done = convert(tmp_path, arrays, on_error="skip", watcher=heard)
    assert rows_of(done.paths) == [{"n": [1], "x": [0.5]}, {"n": [4], "x": [np.inf]}]
    assert [error.reason for error in done.errors] == [
        "row 1: 9223372036854775808 does not fit in int64",
        "row 2: 1e+39 does not fit in float32",
    ]
    assert heard.size == heard.total


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"a": np.zeros(3), "b": np.zeros(4)}, "the array has 4 rows, but 'a' has 3"),
        ({"a": np.zeros(())}, "the array is a scalar, which has no rows"),
        ({"a": np.zeros(2, complex)}, "an array of complex128 cannot be stored"),
        ({"a": np.zeros(2, "M8[s]")}, "an array of datetime64"),
        ({"a": np.zeros(2, [("x", int)])}, "cannot be stored"),
        ({"a": np.zeros((2, 0))}, "the arrays have no values"),
        ({"a": np.zeros(0)}, "there is no record to write"),
        ({}, "the archive has no arrays"),
    ],
)
def test_invalid_arrays(tmp_path: Path, arrays: Arrays, reason: str) -> None:
    for on_error in ("raise", "skip"):
        with pytest.raises(tio.ConversionError, match=reason):
            convert(tmp_path, arrays, on_error=on_error)
    assert list(contents(tmp_path)) == ["in.npz"]


def test_objects_are_never_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", a=np.array([{}, {}]))
    with pytest.raises(tio.ConversionError, match="an array of object cannot be stored"):
        tio.convert.from_npz(tmp_path / "in.npz", tmp_path / "out")


KINDS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]


def archive_of(array: npt.NDArray[Any], compression: int = zipfile.ZIP_STORED) -> bytes:
    member, file = io.BytesIO(), io.BytesIO()
    np.save(member, array)
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("a.npy", member.getvalue())
    return file.getvalue()


@given(st.data())
def test_any_damage_names_the_file(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Also damage of offsets, and of streams whose decompressors have errors of their own."""
    content = bytearray(archive_of(np.arange(9), data.draw(st.sampled_from(KINDS))))
    at = data.draw(st.integers(0, len(content) - 1))
    content[at : at + 4] = data.draw(st.binary(min_size=4, max_size=4))
    folder = tmp_path_factory.mktemp("npz")
    (folder / "in.npz").write_bytes(content)
    path = str(folder / "in.npz")
    try:
        tio.convert.from_npz(path, folder / "out")
    except tio.ConversionError as error:
        path = str(error.path)
    assert path == str(folder / "in.npz")


def damaged(content: bytes, kind: str) -> bytes:
    middle, end = len(content) // 2, content.rindex(b"PK\5\6")
    return {
        "empty": b"",
        "text": b"x" * 100,
        "cut": content[:middle],
        "a bit": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        "stream": content[:60] + bytes(byte ^ 0x55 for byte in content[60:68]) + content[68:],
        "offset": content[: end + 16] + b"\xff" * 4 + content[end + 20 :],
        "data before": b"program" + content,
    }[kind]


@pytest.mark.parametrize("compression", KINDS)
@pytest.mark.parametrize(
    "kind", ["empty", "text", "cut", "a bit", "stream", "offset", "data before"]
)
def test_damage(tmp_path: Path, kind: str, compression: int) -> None:
    path = tmp_path / "in.npz"
    path.write_bytes(damaged(archive_of(np.arange(1000), compression), kind))
    with pytest.raises(tio.ConversionError, match=r"the file is damaged or not an \.npz") as raised:
        tio.convert.from_npz(path, tmp_path / "out")
    assert raised.value.path == str(path)
    assert list(contents(tmp_path)) == ["in.npz"]


def test_failures_of_the_system_name_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in.npz").write_bytes(archive_of(np.arange(9)))

    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(zipfile.ZipExtFile, "read", fail)
    with pytest.raises(OSError, match="Input/output error") as raised:
        tio.convert.from_npz(tmp_path / "in.npz", tmp_path / "out")
    assert raised.value.filename == str(tmp_path / "in.npz")


def test_duplicate_array_name(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as archive:
        archive.write(tmp_path / "a.npy", "a.npy")
        archive.write(tmp_path / "a.npy", "a")
    with pytest.raises(tio.ConversionError, match="two arrays have this name") as raised:
        tio.convert.from_npz(tmp_path / "in.npz", tmp_path / "out")
    assert raised.value.feature == "a"


def test_encrypted_archive(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", a=np.arange(3))
    data = bytearray((tmp_path / "in.npz").read_bytes())
    data[6] |= 1
    data[data.index(b"PK\1\2") + 8] |= 1
    (tmp_path / "in.npz").write_bytes(data)
    with pytest.raises(tio.ConversionError, match=r"in\.npz: .* 'a\.npy' is encrypted"):
        tio.convert.from_npz(tmp_path / "in.npz", tmp_path / "out")


def test_invalid_shape(tmp_path: Path) -> None:
    file = io.BytesIO()
    np.save(file, np.zeros((3, 2)))
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as archive:
        archive.writestr("a.npy", file.getvalue().replace(b"(3, 2), ", b"(3, -2),"))
    with pytest.raises(tio.ConversionError, match=r"shape of 'a\.npy' is \(3, -2\)"):
        tio.convert.from_npz(tmp_path / "in.npz", tmp_path / "out")


def test_array_shorter_than_declared(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(10))
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as archive:
        archive.writestr("a.npy", (tmp_path / "a.npy").read_bytes()[:-8])
    with pytest.raises(tio.ConversionError, match="'a' is truncated"):
        tio.convert.from_npz(tmp_path / "in.npz", tmp_path / "out")


def test_several_pieces_in_processes_and_several_archives(tmp_path: Path) -> None:
    count = 2500  # of 4 KB each, in pieces of 4 MB
    arrays = {
        "n": np.arange(count),
        "f": np.asfortranarray(np.arange(2.0 * count).reshape(-1, 2)),
        "s": np.full(count, b"x" * 4000),
    }
    more: Any = {"n": np.array([-1]), "s": np.array([b"y"])}
    np.savez(tmp_path / "more.npz", f=np.zeros((1, 2), np.float32), **more)
    one = convert(tmp_path, arrays, index=False)
    assert [row["n"][0] for row in rows_of(one.paths)] == list(range(count))
    files = [tmp_path / "in.npz", tmp_path / "more.npz"]
    done = tio.convert.from_npz(files, tmp_path / "both", index=False, jobs=2)
    assert Path(done.paths[0]).read_bytes().startswith(Path(one.paths[0]).read_bytes())
    assert done.records == count + 1
    np.savez(tmp_path / "more.npz", f=np.zeros((1, 3)), **more)
    with pytest.raises(tio.ConversionError, match="dtypes of the arrays differ from those of"):
        tio.convert.from_npz(files, tmp_path / "both", force=True)
