"""Tests of errors: their attributes, also after crossing processes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import _utils
from torch.utils.data import DataLoader, Dataset

from torchrec_io import errors
from torchrec_io.errors import DecodeError, TorchRecIOError

FIELDS = ("reason", "path", "record", "offset", "feature")
CLASSES: list[Any] = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, Exception)
]

reasons = st.sampled_from(
    [
        "the record is cut short",
        "the image cannot be decoded: broken data stream",
        "it has 3 bytes (too few)",
        "a shape [2, -1] (record 9, offset 8) is odd",
        "the schema function raised ValueError: first line\nsecond line: more\n\nlast",
        "it's 'quoted' \"twice\"",
        "",
    ]
)
paths = st.sampled_from(
    ["/data/train-00000-of-00002", "a.tfrecord", "/with space/ö (record 1).gz", "C:\\x\\y.tfrecord"]
)
names = st.one_of(
    st.sampled_from(["x", "image/encoded", "it's", '"', "a'b\"c", "new\nline", "\\", "(record 1)"]),
    st.text(max_size=8),
)
numbers = st.integers(0, 2**62)
places = st.fixed_dictionaries(
    {},
    optional={"record": numbers, "offset": numbers, "feature": names},
)


def fields_of(error: TorchRecIOError) -> dict[str, Any]:
    return {name: getattr(error, name) for name in FIELDS}


def pickled(error: TorchRecIOError, protocol: int = pickle.DEFAULT_PROTOCOL) -> TorchRecIOError:
    again: TorchRecIOError = pickle.loads(pickle.dumps(error, protocol))
    return again


def test_there_is_one_base_class() -> None:
    for cls in CLASSES:
        assert issubclass(cls, TorchRecIOError)
        assert not issubclass(cls, (ValueError, OSError))
        assert cls.__module__ == "torchrec_io.errors"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "it broke"),
        ({"path": "a.tfrecord"}, "a.tfrecord: it broke"),
        ({"record": 0}, "it broke (record 0)"),
        ({"offset": 12}, "it broke (offset 12)"),
        ({"feature": "x"}, "it broke (feature 'x')"),
        (
            {"path": "/d/f", "record": 3, "offset": 44, "feature": "a'b"},
            '/d/f: it broke (record 3, offset 44, feature "a\'b")',
        ),
    ],
)
def test_the_text_has_all_known_attributes(fields: dict[str, Any], text: str) -> None:
    error = DecodeError("it broke", **fields)
    assert str(error) == text
    assert fields_of(error) == {**dict.fromkeys(FIELDS), "reason": "it broke", **fields}


@pytest.mark.parametrize("cls", CLASSES)
def test_pickling_keeps_every_field(cls: type[TorchRecIOError]) -> None:
    error = cls("it broke", path="/d/f", record=3, offset=44, feature="x")
    protocols = range(pickle.HIGHEST_PROTOCOL + 1)
    for again in (*(pickled(error, each) for each in protocols), copy.deepcopy(error)):
        assert type(again) is cls
        assert fields_of(again) == fields_of(error)
        assert str(again) == str(error)


def raised_in_a_worker(work: Callable[[], object]) -> TorchRecIOError:
    """What DataLoader raises in the parent for an error that comes up in a worker."""
    wrapper: Any = None
    try:
        work()
    except TorchRecIOError:
        wrapper = _utils.ExceptionWrapper(where="in DataLoader worker process 0")  # type: ignore[no-untyped-call]
    with pytest.raises(TorchRecIOError) as caught:
        wrapper.reraise()
    return caught.value


def across_a_worker(error: TorchRecIOError) -> TorchRecIOError:
    """An error of a worker as the parent sees it."""

    def fail() -> NoReturn:
        raise error

    return raised_in_a_worker(fail)


@given(st.sampled_from(CLASSES), reasons, paths, places)
def test_a_worker_s_error_keeps_its_places(
    cls: type[TorchRecIOError], reason: str, path: str, where: dict[str, Any]
) -> None:
    error = cls(reason, path=path, **where)
    again = across_a_worker(error)
    assert type(again) is cls
    assert again.path == path
    assert (again.record, again.offset, again.feature) == (
        error.record,
        error.offset,
        error.feature,
    )
    assert str(error) in str(again)
    assert "in DataLoader worker process 0" in str(again)
    assert "Traceback" in str(again)
    assert fields_of(pickled(again)) == fields_of(again)


@pytest.mark.parametrize("reason", ["it broke", "the image cannot be decoded: broken data stream"])
def test_a_worker_s_error_without_a_path(reason: str) -> None:
    again = across_a_worker(DecodeError(reason, record=2, feature="x"))
    assert (again.path, again.record, again.offset, again.feature) == (None, 2, None, "x")


@pytest.mark.parametrize(
    "reason",
    [
        "Caught in between\ntorchrec_io.errors.DecodeError: /a: b (record 3)",
        "the DataLoader worker said:\ntorchrec_io.errors.DecodeError: /a: b (record 3)",
        "Caught X in DataLoader worker process 0.\nOriginal Traceback: gone",
    ],
)
def test_other_texts_are_no_worker_s_error(reason: str) -> None:
    error = DecodeError(reason)
    assert fields_of(error) == {**dict.fromkeys(FIELDS), "reason": reason}


def test_a_worker_s_error_with_a_cause_keeps_its_places() -> None:
    def fail() -> NoReturn:
        try:
            raise DecodeError("an inner one", path="/inner", record=1)
        except DecodeError as cause:
            raise DecodeError("the outer one", path="/outer", record=2) from cause

    again = raised_in_a_worker(fail)
    assert (again.path, again.record) == ("/outer", 2)


class Failing(Dataset[int]):
    """Raises what it is told to."""

    def __init__(self, make: Callable[[], Exception]) -> None:
        self.make = make

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        raise self.make()


def make_error() -> DecodeError:
    return DecodeError("it broke", path="/d/f", record=3, offset=44, feature="x")


def test_a_real_worker_s_error_keeps_its_places() -> None:
    loader: Any = iter(DataLoader(Failing(make_error), num_workers=1))
    with pytest.raises(DecodeError, match="it broke") as caught:
        next(loader)
    loader._shutdown_workers()  # the traceback keeps it alive
    found = fields_of(caught.value)
    assert {name: found[name] for name in FIELDS[1:]} == {
        "path": "/d/f",
        "record": 3,
        "offset": 44,
        "feature": "x",
    }


@pytest.mark.parametrize("path", ["x/y", "/\x1b[31mred: y", "line\nbreak", "/both'\"\n", "\udcff"])
def test_paths_cannot_change_what_shows_an_error(path: str) -> None:
    error = errors.CorruptRecordError("the reason: it is bad", path=path, record=3)
    shown = str(error)
    assert shown.isprintable()
    assert shown.startswith(f"{path}: " if path.isprintable() else f"{path!r}: ")
    trace = f"Caught X in DataLoader worker process 0.\ntorchrec_io.errors.TorchRecIOError: {shown}"
    again = errors.CorruptRecordError(trace)  # as PyTorch raises it
    assert (again.path, again.record) == (path, 3)
