"""Writing of small objects: whole or not at all, and under conditions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import fsspec  # type: ignore[import-untyped]
import pytest

from tests.support.proxy import Proxy
from tests.support.stores import S3Server
from torchrec_io import StaleIndexError
from torchrec_io._storage.byte_source import read_bytes
from torchrec_io._storage.location import Location
from torchrec_io._storage.remote.options import RemoteOptions
from torchrec_io._storage.remote.upload import put_object


class Place(NamedTuple):
    """Where objects are written, as a URL, with options."""

    url: str
    options: RemoteOptions

    def read(self, name: str) -> bytes:
        return read_bytes(
            Location.of(f"{self.url}/{name}", self.options.options).open(), 0, 1 << 20
        )


@pytest.fixture(scope="module")
def places(s3: S3Server) -> Iterator[dict[str, Place]]:
    # fake-gcs-server does not take the requests by which obstore writes to GCS.
    filesystem = fsspec.filesystem("memory")
    yield {
        "s3": Place("s3://data/put", RemoteOptions(s3.options())),
        "memory": Place("memory://put", RemoteOptions()),
    }
    filesystem.rm("/put", recursive=True)


@pytest.fixture(params=["s3", "memory"])
def place(request: Any, places: dict[str, Place]) -> Place:
    return places[request.param]


def test_an_object_that_must_be_absent(place: Place) -> None:
    put_object(f"{place.url}/new", b"one", place.options, only_if="absent")
    with pytest.raises(FileExistsError, match=r"the object exists: .*/new"):
        put_object(f"{place.url}/new", b"two", place.options, only_if="absent")
    assert place.read("new") == b"one"


def test_an_object_that_must_not_have_changed(place: Place) -> None:
    url = f"{place.url}/same"
    put_object(url, b"first", place.options)
    stamp = Location.of(url, place.options).stamp_now()
    put_object(url, b"second", place.options, only_if=stamp)
    assert place.read("same") == b"second"
    with pytest.raises(StaleIndexError, match="was replaced"):
        put_object(url, b"third", place.options, only_if=stamp)
    assert place.read("same") == b"second"


def test_an_answer_that_is_lost_is_no_conflict(s3: S3Server, proxy: Proxy) -> None:
    options = RemoteOptions(s3.options(proxy.port))
    proxy.most_bytes = 0
    stamp = put_object("s3://data/put/lost", b"x" * 1000, options, only_if="absent")
    assert proxy.most_bytes is None
    assert len(proxy.requests) > 2
    assert stamp == Location.of("s3://data/put/lost", options).stamp_now()


def test_what_cannot_be_written(s3: S3Server) -> None:
    with pytest.raises(OSError, match="an HTTP server cannot be written; use a URL of s3://"):
        put_object("http://127.0.0.1:9/a", b"x", RemoteOptions())
    wrong = RemoteOptions({**s3.options(), "secret_access_key": "wrong"})
    with pytest.raises(PermissionError, match="may write objects, or pass storage_options"):
        put_object("s3://data/put/denied", b"x", wrong)
