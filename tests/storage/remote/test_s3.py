"""Objects of an S3 server: listing, datasets, credentials and processes."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.examples import example_of
from tests.support.proxy import Proxy
from tests.support.stores import S3Server
from tests.support.tfrecord import frame
from tests.support.web import WebServer
from torchrec_io import TFRecordDataset, TFRecordStream
from torchrec_io._storage.paths import expand_paths
from torchrec_io._storage.remote import listing
from torchrec_io._storage.remote.options import RemoteOptions
from torchrec_io._storage.remote.process import close_connections

SCHEMA = {"n": tio.FixedLenFeature([], "int64")}
SHARDS, EACH = 6, 50


def records_of(shard: int) -> list[bytes]:
    return [example_of(n=[number]) for number in range(shard * EACH, (shard + 1) * EACH)]


@pytest.fixture(scope="module")
def bucket(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> S3Server:
    """Return the server, with shards in above/shards/ and in set/, which has other data files."""
    folder = tmp_path_factory.mktemp("objects")
    for shard in range(SHARDS):
        path = folder / f"x-{shard:05d}-of-{SHARDS:05d}"
        path.write_bytes(b"".join(map(frame, records_of(shard))))
    (folder / "notes.txt").write_bytes(b"hello\n")
    (folder / ".hidden.tfrecord").write_bytes(frame(b"hidden"))
    s3.put_files(folder, "above/shards")
    (folder / "a b%20é+[1].tfrecord").write_bytes(frame(b"odd"))
    (folder / "packed.tfrecord.gz").write_bytes(gzip.compress(frame(b"one") + frame(b"two")))
    s3.put_files(folder, "set")
    return s3


def numbers_of(loader: Any) -> list[int]:
    return sorted(int(number) for batch in loader for number in batch["n"])


ALL = list(range(SHARDS * EACH))
PATTERN = "s3://data/set/x-*"


# ---- listing ----


@pytest.mark.parametrize(
    ("path", "count"),
    [
        ("s3://data/above/shards", SHARDS),
        ("s3://data/above/shards/*", SHARDS + 1),
        (PATTERN, SHARDS),
        ("s3://data/se?/x-0000[0-3]*", 4),
        ("s3://data/se?/**/x-*-of-00006", SHARDS),
        ("s3://data/set/x-{00000..00005}-of-00006", SHARDS),
        ("s3://data/set/x-00003-of-00006", 1),
        ("s3://data/set/*.txt", 1),
        ("s3://data/set/a b%20é+[1].tfrecord", 1),
    ],
)
def test_what_paths_stand_for(bucket: S3Server, path: str, count: int) -> None:
    found = [file.name for file in expand_paths(path, storage_options=bucket.options())]
    assert len(found) == count
    assert found == sorted(found)
    assert all(each.startswith(("s3://data/set/", "s3://data/above/shards/")) for each in found)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("s3://data/none", "no such object or folder: 's3://data/none'"),
        ("s3://data/set/none", "no such object or folder"),
        ("s3://data/none/*", "matches no object"),
        ("s3://data/set/x-{00004..00007}-of-00006", r"2 of 4 objects are missing: '.*x-00006"),
        ("s3://none/set/x", "no such object or folder: 's3://none/set/x'"),
        ("s3://none/*", r"the pattern 's3://none/\*' matches no object"),
    ],
)
def test_paths_that_stand_for_nothing(bucket: S3Server, path: str, message: str) -> None:
    with pytest.raises(FileNotFoundError, match=message):
        TFRecordDataset(path, storage_options=bucket.options())


def test_opening_takes_one_listing(bucket: S3Server, proxy: Proxy) -> None:
    TFRecordDataset(PATTERN, storage_options=bucket.options())  # builds indexes
    dataset = TFRecordDataset(PATTERN, storage_options=bucket.options(proxy.port))
    assert len(dataset) == len(ALL)
    assert len(proxy.requests) == 1
    assert "list-type=2" in proxy.requests[0]


def named(bucket: S3Server) -> tuple[list[str], RemoteOptions]:
    """Return the URLs of the shards, and options that know nothing of them."""
    urls = [f"s3://data/set/x-{shard:05d}-of-{SHARDS:05d}" for shard in range(SHARDS)]
    return urls, RemoteOptions(bucket.options())


def test_many_named_objects_are_found_by_listing(
    bucket: S3Server, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_WORTH_LISTING_NAMED", SHARDS - 1)
    urls, _ = named(bucket)
    options = RemoteOptions(bucket.options(proxy.port))
    assert [file.name for file in expand_paths(urls, storage_options=options)] == urls
    assert len(proxy.requests) == 1
    with pytest.raises(FileNotFoundError, match="no such object or folder: 's3://data/set/y'"):
        expand_paths([*urls, "s3://data/set/y"], storage_options=options)


def test_objects_are_found_where_listing_is_denied(
    bucket: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls, options = named(bucket)

    def deny(*_: Any, **__: Any) -> list[str]:
        raise PermissionError

    monkeypatch.setattr(listing, "_list", deny)
    shards = f"s3://data/set/x-{{00000..{SHARDS - 1:05d}}}-of-{SHARDS:05d}"
    assert [file.name for file in expand_paths(shards, storage_options=options)] == urls


# ---- credentials ----


@pytest.mark.parametrize(
    "names",
    [
        ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        ("AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
        ("storage_options", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    ],
)
def test_options_from_the_environment(
    bucket: S3Server, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    """The first of the endpoints counts."""
    environment = bucket.environment()
    endpoint = environment.pop("AWS_ENDPOINT_URL")
    environment |= {**dict.fromkeys(names, "http://127.0.0.1:1"), names[0]: endpoint}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    options = {"endpoint": endpoint} if names[0] == "storage_options" else None
    assert len(list(TFRecordDataset(PATTERN, SCHEMA, storage_options=options))) == len(ALL)


def files_of(options: dict[str, Any]) -> tuple[str, str]:
    """Return lines of the AWS files: the keys, and the rest."""
    keys = "".join(f"aws_{n} = {options[n]}\n" for n in ("access_key_id", "secret_access_key"))
    return keys, f"region = {options['region']}\nendpoint_url = {options['endpoint']}\n"


def botocore_with(program: str) -> str:
    """Return the module botocore.session, where some lines return the credentials."""
    return (
        "class Session:\n"
        "    def __init__(self, profile):\n"
        "        assert profile == 'team'\n"
        "    def get_credentials(self):\n"
        "        return self\n"
        f"    def get_frozen_credentials(self):\n        {program}\n"
    )


@pytest.fixture
def profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Return a function that writes the AWS files with a profile ``team``, and botocore."""
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "team")
    monkeypatch.syspath_prepend(tmp_path)

    def write(config: str, credentials: str = "", botocore: str = "") -> None:
        (tmp_path / "config").write_text(f"[profile team]\n{config}\n")
        (tmp_path / "credentials").write_text(f"[team]\n{credentials}\n")
        if botocore:
            (tmp_path / "botocore").mkdir(exist_ok=True)
            (tmp_path / "botocore" / "__init__.py").touch()
            (tmp_path / "botocore" / "session.py").write_text(botocore)
            close_connections()  # a new process loads it

    return write


@pytest.mark.parametrize("is_config", [False, True])
def test_keys_in_the_files_of_the_aws_tools(
    bucket: S3Server, profile: Callable[..., None], is_config: bool
) -> None:
    keys, rest = files_of(bucket.options())
    profile(*((keys + rest, "") if is_config else (rest, keys)))
    assert len(list(TFRecordDataset(PATTERN, SCHEMA))) == len(ALL)


@pytest.mark.parametrize(
    "config",
    [
        "sso_session = x",
        "role_arn = arn:aws:iam::1:role/x\nsource_profile = team",
    ],
)
def test_profiles_without_keys(bucket: S3Server, profile: Callable[..., None], config: str) -> None:
    options = bucket.options()
    config = f"{config}\n{files_of(options)[1]}"
    profile(config, botocore=botocore_with("return 'key-5f2a', 'wrong-5f2a', None, 'account'"))
    with pytest.raises(PermissionError, match="tried the login of profile 'team'") as caught:
        TFRecordDataset(PATTERN)
    assert "5f2a" not in str(caught.value)
    keys = (options["access_key_id"], options["secret_access_key"], None)
    profile(config, botocore=botocore_with(f"return {keys}"))
    assert len(list(TFRecordDataset(PATTERN, SCHEMA))) == len(ALL)


@pytest.mark.parametrize(
    ("botocore", "error", "message"),
    [
        (botocore_with("raise OSError('word-5f2a')"), PermissionError, "profile has no valid cred"),
        ("raise ImportError", ImportError, "'team' of the AWS files uses .* needs the package bo"),
    ],
    ids=["no login", "no botocore"],
)
def test_profiles_that_cannot_be_used(
    bucket: S3Server,
    profile: Callable[..., None],
    botocore: str,
    error: type[Exception],
    message: str,
) -> None:
    profile(f"sso_session = x\n{files_of(bucket.options())[1]}", botocore=botocore)
    with pytest.raises(error, match=message) as caught:
        TFRecordDataset(PATTERN)
    assert "5f2a" not in str(caught.value)


def test_credentials_that_change_while_they_are_used(
    bucket: S3Server, monkeypatch: pytest.MonkeyPatch, profile: Callable[..., None]
) -> None:
    """As where a tool of the store renews those in its file, or a notebook sets a variable."""
    keys, rest = files_of(bucket.options())
    profile(rest, keys.replace("5f2a", "old"))
    with pytest.raises(PermissionError):
        TFRecordDataset(PATTERN)
    profile(rest, keys)
    items = iter(TFRecordDataset(PATTERN, SCHEMA))
    next(items)
    for name, value in bucket.environment().items():
        monkeypatch.setenv(name, value)
    assert len(list(TFRecordDataset(PATTERN, SCHEMA))) == len(ALL)
    assert len(list(items)) == len(ALL) - 1


def test_wrong_credentials(bucket: S3Server) -> None:
    options = {**bucket.options(), "secret_access_key": "wrong-5f2a"}
    with pytest.raises(PermissionError) as caught:
        TFRecordDataset(PATTERN, storage_options=options)
    text = str(caught.value)
    assert "access denied (HTTP 403 SignatureDoesNotMatch)" in text
    assert "tried the access key of storage_options" in text
    assert "5f2a" not in text
    with pytest.raises(ValueError, match="nonsense") as wrong:
        TFRecordDataset(PATTERN, storage_options={**bucket.options(), "nonsense": "word-5f2a"})
    assert "5f2a" not in str(wrong.value)


def test_endpoints_that_are_no_url() -> None:
    with pytest.raises(ValueError, match="the endpoint of a store must be a URL"):
        TFRecordDataset("s3://data/a", storage_options={"endpoint": "host:9000"})


@pytest.mark.parametrize("path", ["s3://data/a", "s3://data/a/"])
def test_an_expired_token_is_named(web: WebServer, path: str) -> None:
    """Also where an object is asked for, whose answer has no body."""
    web.code = "ExpiredToken"
    options = {
        "endpoint": f"http://127.0.0.1:{web.port}",
        "access_key_id": "key",
        "secret_access_key": "word-5f2a",
        "token": "session-5f2a",
    }
    with pytest.raises(
        PermissionError, match=r"access denied \(HTTP 400 ExpiredToken\); tried the access key"
    ):
        TFRecordDataset(path, storage_options=options)
    assert len(web.requests) <= 2


# ---- processes ----


@pytest.mark.timeout(120)
@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_workers_after_the_parent_has_read(bucket: S3Server, method: str) -> None:
    dataset = TFRecordDataset(
        PATTERN, SCHEMA, batch_size=10, shuffle=True, storage_options=bucket.options()
    )
    next(iter(dataset))
    loader = DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context=method)
    assert numbers_of(loader) == ALL


def test_selections_and_odd_names(bucket: S3Server) -> None:
    options = bucket.options()
    dataset = TFRecordDataset(PATTERN, SCHEMA, batch_size=16, storage_options=options)
    where = dataset.where(lambda batch: batch["n"] < 30, features=["n"])
    assert numbers_of(where) == ALL[:30]
    assert tio.Schema.infer(PATTERN, storage_options=options) == tio.Schema(SCHEMA)
    assert tio.presets.recognize(PATTERN, storage_options=options) is None
    packed = "s3://data/set/packed.tfrecord.gz"
    assert list(TFRecordDataset(packed, storage_options=options)) == [b"one", b"two"]
    odd = "s3://data/set/a b%20é+[1].tfrecord"
    assert list(TFRecordStream(odd, storage_options=options)) == [b"odd"]


@pytest.mark.parametrize("variable", ["", "AWS_REQUEST_PAYER"])
def test_the_requester_pays(web: WebServer, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    web.put("/data/a", frame(b"one"))
    options = {"endpoint": f"http://127.0.0.1:{web.port}", "access_key_id": "key"}
    options |= {"secret_access_key": "word", **({} if variable else {"request_payer": "true"})}
    if variable:
        monkeypatch.setenv(variable, "true")
    assert list(TFRecordStream("s3://data/a", storage_options=options)) == [b"one"]
    assert {each.headers.get("x-amz-request-payer") for each in web.requests} == {"requester"}
