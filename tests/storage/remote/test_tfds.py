"""Directories of TFDS in a store: which records, which requests, and what is checked."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.support.proxy import Proxy
from tests.support.stores import S3Server
from tests.support.tfds import numbered, write_tfds
from tests.support.web import WebServer
from torchrec_io._storage.remote.options import RemoteOptions
from torchrec_io._storage.remote.upload import put_object

SHARDS = [numbered(*range(5)), numbered(*range(5, 12)), [], numbered(*range(12, 20))]
SPLITS = {"train": SHARDS, "test": [numbered(100, 101, 102)]}
_folders = itertools.count()


@pytest.fixture
def options(s3: S3Server, proxy: Proxy) -> dict[str, Any]:
    return s3.options(proxy.port)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHREC_IO_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def local(tmp_path: Path) -> Path:
    return write_tfds(tmp_path / "data" / "1.0.0", SPLITS)


def put_tree(folder: Path, url: str, options: dict[str, Any]) -> str:
    """Write all files of a folder as objects."""
    remote = RemoteOptions(options)
    for path in folder.rglob("*"):
        if path.is_file():
            put_object(f"{url}/{path.relative_to(folder)}", path.read_bytes(), remote)
    return url


@pytest.fixture
def url(local: Path, options: dict[str, Any]) -> str:
    """Return the URL of a dataset with one version."""
    return put_tree(local.parent, f"s3://data/tfds-{next(_folders)}", options)


def ids(dataset: Any) -> list[int]:
    return [int(sample["id"]) for sample in dataset]


@pytest.mark.parametrize("split", ["train[4:13]", "train[-1shard:]+test"])
def test_records_and_states_are_those_of_local_files(
    local: Path, url: str, options: dict[str, Any], split: str
) -> None:
    expected = tio.TFRecordDataset.from_tfds(local, split, shuffle=True, seed=4)
    found = tio.TFRecordDataset.from_tfds(
        f"{url}/1.0.0", split, shuffle=True, seed=4, storage_options=options
    )
    assert ids(found) == ids(expected)
    found.load_state_dict(expected.state_dict())
    by_number = tio.TFRecordMapDataset.from_tfds(url, split, storage_options=options)
    assert ids(by_number) == ids(tio.TFRecordMapDataset.from_tfds(local, split))
    schema = tio.Schema.from_tfds(url, storage_options=options)
    assert schema == tio.Schema.from_tfds(local)


def test_opening_takes_a_listing_and_the_two_descriptions(
    url: str, options: dict[str, Any], proxy: Proxy
) -> None:
    proxy.requests.clear()
    dataset = tio.TFRecordMapDataset.from_tfds(f"{url}/1.0.0/", "train", storage_options=options)
    assert len(dataset) == 20
    assert [line.split()[0] for line in proxy.requests] == ["GET"] * 3
    assert "list-type=2" in proxy.requests[0]
    # A shard is indexed when it is first needed.
    proxy.requests.clear()
    assert int(dataset[5]["id"]) == 5
    assert {line.split()[1].rpartition("/")[2] for line in proxy.requests} == {
        "data-train.tfrecord-00001-of-00004"
    }


def test_configs_and_versions(options: dict[str, Any], tmp_path: Path) -> None:
    for config, version in (("en", "1.0.0"), ("en", "1.10.0"), ("de", "1.2.0")):
        write_tfds(tmp_path / "all" / config / version, SPLITS, config_name=config, version=version)
    url = put_tree(tmp_path / "all", f"s3://data/tfds-{next(_folders)}", options)
    found = tio.tfds.Directory(url, "en", storage_options=options)
    assert (found.version, found.config, found.path) == ("1.10.0", "en", f"{url}/en/1.10.0")
    assert tio.tfds.Directory(f"{url}/de", storage_options=options).version == "1.2.0"
    with pytest.raises(ValueError, match="config is required, and must be one of 'de', 'en'"):
        tio.tfds.Directory(url, storage_options=options)
    with pytest.raises(FileNotFoundError, match=r"no dataset_info\.json in this directory"):
        tio.tfds.Directory(f"{url}/none", storage_options=options)


def test_an_http_server(local: Path, web: WebServer) -> None:
    for path in local.iterdir():
        web.put(f"/data/1.0.0/{path.name}", path.read_bytes())
    assert ids(tio.TFRecordDataset.from_tfds(web.url("/data/1.0.0"), "train")) == [*range(20)]
    with pytest.raises(FileNotFoundError, match="an HTTP server has no listing"):
        tio.TFRecordDataset.from_tfds(web.url("/data"), "train")
