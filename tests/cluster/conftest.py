"""Ray for the tests of this room."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import ray.data

with warnings.catch_warnings():  # of Ray about options of its own
    warnings.simplefilter("ignore", DeprecationWarning)
    ray.data.DataContext.get_current()

from tests.cluster.local_ray import local_ray  # a fixture
from tests.support.stores import S3Server, s3_server
from torchrec_io._storage.remote.process import close_connections

__all__ = ["local_ray", "s3"]


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """Return an S3 server with a bucket, for all tests."""
    with s3_server() as server:
        yield server
    close_connections()


@pytest.fixture
def in_store(s3: S3Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """Return the URL of an empty folder that all processes can write to."""
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.nodeid)
    return f"s3://data/cluster/{name}"
