"""Locations: paths and URLs with the options to reach them."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from torchrec_io._storage.location import Location, threads_for
from torchrec_io._storage.paths import expand_paths

SIGNED = "https://user:word@host/a/x.tfrecord?sig=secret"


def test_a_local_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    place = Location.of("a/x")
    assert place == Location.of(Path("a/x")) == Location.of(place)
    assert (str(place), repr(place), os.fspath(place), place.local_path) == (
        "a/x",
        "'a/x'",
        *["a/x"] * 2,
    )
    assert (place.basename, place.parent, place.child("y")) == (
        "x", Location("a"), Location("a/x/y"))  # fmt: skip
    assert place.beside(".tfidx").name == "a/x.tfidx"
    assert place.absolute().name == str(tmp_path / "a" / "x")
    assert Location.of("file:///a%20b").name == "/a b"
    assert threads_for([place]) is None
    with pytest.raises(FileNotFoundError, match="'a/x'"):
        place.stamp()


def test_what_is_secret_is_not_in_names() -> None:
    place = Location.of(SIGNED, {"client_options": {"default_headers": {"key": "secret"}}})
    assert place.name == "https://host/a/x.tfrecord"
    shown = (str(place), repr(place), os.fspath(place), place.parent.name, pickle.dumps(place))
    assert not any(word in str(each) for each in shown for word in ("secret", "word@", "sig="))
    assert place.is_signed
    assert not place.beside(".tfidx").is_signed
    assert not place.has_listing
    assert pickle.loads(pickle.dumps(place)).name == place.name
    with pytest.raises(ValueError, match="must be in storage_options or in the environment"):
        Location.of("s3://key:secret@bucket/x")


def test_locations_of_objects() -> None:
    place = Location.of("S3://bucket/a/x", {"region": "eu"})
    assert (place.name, place.local_path, place.absolute()) == ("s3://bucket/a/x", None, place)
    assert place.parent.child("x") == place.at("s3://bucket/a/x") == place
    assert place.parent.child("/x").name == "s3://bucket/a//x"
    assert Location.of("s3://bucket/").child("x").name == "s3://bucket/x"
    assert place != Location.of("s3://bucket/a/x")
    assert place != place.at("s3://bucket/a/x", {"region": "us"})
    assert len({place, Location.of("s3://bucket/a/x", {"region": "eu"})}) == 1
    assert threads_for([Location("x"), place]) == 32
    assert expand_paths([place, place.beside("y")]) == [place, place.beside("y")]  # no request
