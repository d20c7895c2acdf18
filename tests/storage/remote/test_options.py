"""Secrets of storage_options: where they go, and where they never do."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from typing import Any

import pytest

import torchrec_io as tio
from torchrec_io._storage.remote.options import RemoteOptions

OPTIONS = {
    "endpoint": "http://host:1",
    "access_key_id": "name-5f2a",
    "secret_access_key": "word-5f2a",
}
SIGNED = "https://host/a.tfrecord?X-Amz-Signature=5f2a"


def made() -> RemoteOptions:
    options = RemoteOptions(OPTIONS, 1 << 20)
    options.name(SIGNED)
    return options


def test_repr_has_no_secrets() -> None:
    assert repr(made()) == (
        "{'endpoint': 'http://host:1', 'access_key_id': ..., 'secret_access_key': ...}"
    )
    other = {"AWS_REGION": "x", "endpoint": "http://user:5f2a@host", "something_new": "5f2a"}
    assert (
        repr(RemoteOptions(other)) == "{'AWS_REGION': 'x', 'endpoint': ..., 'something_new': ...}"
    )


def test_pickles_have_no_secrets() -> None:
    data = pickle.dumps(made())
    assert b"5f2a" not in data
    restored = pickle.loads(data)
    assert restored.fetch_bytes == 1 << 20
    with pytest.raises(ValueError, match=r"access_key_id, .*secrets are not pickled") as caught:
        restored.options  # noqa: B018
    assert "5f2a" not in str(caught.value)
    # It stays known that they are missing.
    with pytest.raises(ValueError, match="secrets are not pickled"):
        pickle.loads(pickle.dumps(restored)).options  # noqa: B018


def test_options_without_secrets_are_pickled() -> None:
    options = RemoteOptions({"skip_signature": True, "region": "x", "aws_endpoint": "http://h"})
    assert pickle.loads(pickle.dumps(options)).options == options.options
    assert pickle.loads(pickle.dumps(options)) == options


def test_copies_keep_secrets() -> None:
    options = made()
    for other in (copy.copy(options), copy.deepcopy(options), copy.deepcopy([options])[0]):
        assert other.options == OPTIONS
        assert other.address("https://host/a.tfrecord") == SIGNED


def send_back(options: RemoteOptions, queue: Any) -> None:
    queue.put((options.options, options.address("https://host/a.tfrecord")))


def test_processes_that_are_started_get_secrets() -> None:
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    process = context.Process(target=send_back, args=(made(), queue))
    process.start()
    assert queue.get() == (OPTIONS, SIGNED)
    process.join()


def test_wrong_types() -> None:
    with pytest.raises(ValueError, match="storage_options must be a mapping or None, got str"):
        tio.TFRecordStream("x", storage_options="secret")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="cache_bytes must be"):
        tio.TFRecordStream("x", cache_bytes=1)
