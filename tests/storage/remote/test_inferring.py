"""Schemas and presets of remote objects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import torchrec_io as tio
from tests.presets import published
from tests.support.stores import S3Server
from torchrec_io._storage.remote.options import RemoteOptions
from torchrec_io._storage.remote.upload import put_object


def put(s3: S3Server, path: Path, folder: str) -> str:
    url = f"s3://data/{folder}/{path.name}"
    put_object(url, path.read_bytes(), RemoteOptions(s3.options()))
    return url


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (published.write_waymo, "waymo_motion"),
        (published.write_ranking, "ranking_elwc"),
    ],
)
def test_presets(s3: S3Server, tmp_path: Path, write: Callable[[Path], Path], name: str) -> None:
    data = write(tmp_path / name)
    for path in data.parent.iterdir():
        put(s3, path, name)
    url = f"s3://data/{name}/{data.name}"
    infer = tio.ranking.Schema.infer if name == "ranking_elwc" else tio.Schema.infer
    assert infer(url, storage_options=s3.options()) == infer(data)
    preset = tio.presets.recognize(url, storage_options=s3.options())
    assert preset is not None
    assert preset.name == name
    with pytest.raises(PermissionError):
        tio.presets.recognize(url, storage_options={**s3.options(), "secret_access_key": "no"})
