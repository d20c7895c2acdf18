"""Locations: paths and URLs with the options to reach them."""

from __future__ import annotations

import os
import pickle

import pytest

from torchrec_io._storage.location import Location

SIGNED = "https://user:word@host/a/x.tfrecord?sig=secret"


def test_what_is_secret_is_not_in_names() -> None:
    place = Location.of(SIGNED, {"client_options": {"default_headers": {"key": "secret"}}})
    assert place.name == "https://host/a/x.tfrecord"
    shown = (str(place), repr(place), os.fspath(place), place.parent.name, pickle.dumps(place))
    assert not any(word in str(each) for each in shown for word in ("secret", "word@", "sig="))
    assert place.options is not None
    assert "sig=secret" in place.options.address(place.name)
    beside = place.beside(".tfidx")
    assert place.options.address(beside.name) == beside.name
    assert not place.has_listing
    assert pickle.loads(pickle.dumps(place)).name == place.name
    with pytest.raises(ValueError, match="must be in storage_options or in the environment"):
        Location.of("s3://key:secret@bucket/x")
