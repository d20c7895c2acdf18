"""Writing of small objects: whole or not at all."""

from __future__ import annotations

import pytest

from tests.support.proxy import Proxy
from tests.support.stores import S3Server
from torchrec_io._storage.byte_source import read_bytes
from torchrec_io._storage.location import Location
from torchrec_io._storage.remote.options import RemoteOptions
from torchrec_io._storage.remote.upload import put_object


def test_an_answer_that_is_lost_is_no_conflict(s3: S3Server, proxy: Proxy) -> None:
    options = RemoteOptions(s3.options(proxy.port))
    proxy.most_bytes = 0
    stamp = put_object("s3://data/put/lost", b"x" * 1000, options, must_be_new=True)
    assert proxy.most_bytes is None
    assert len(proxy.requests) > 2
    assert stamp == Location.of("s3://data/put/lost", options).stamp_now()


def test_writing_that_is_denied(s3: S3Server) -> None:
    wrong = RemoteOptions({**s3.options(), "secret_access_key": "wrong"})
    with pytest.raises(PermissionError, match="may write objects, or pass storage_options"):
        put_object("s3://data/put/denied", b"x", wrong)


def test_a_file_that_must_be_new() -> None:
    url, options = "memory://put/new", RemoteOptions()
    put_object(url, b"one", options, must_be_new=True)
    with pytest.raises(FileExistsError):
        put_object(url, b"two", options, must_be_new=True)
    assert read_bytes(Location.of(url).open(), 0, 9) == b"one"
