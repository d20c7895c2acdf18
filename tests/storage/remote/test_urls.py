"""URLs of remote objects."""

from __future__ import annotations

import pytest

from torchrec_io._storage.remote.options import RemoteOptions
from torchrec_io._storage.remote.urls import expand_ranges, local_path, public_url
from torchrec_io._storage.remote.web import store_of


def test_public_url() -> None:
    for url, expected in (
        ("https://u:p@host:8/a%20b?sig=x#y", "https://host:8/a%20b"),
        ("HTTP://host/a", "http://host/a"),
        ("s3://bucket/a?b#c@d", "s3://bucket/a?b#c@d"),
        ("S3://bucket/a", "s3://bucket/a"),
        ("ftp://user@host:21/a?b", "ftp://user@host:21/a?b"),
        ("GitHub://org:repo@main/a", "github://org:repo@main/a"),
        ("git://:main@a/b", "git://:main@a/b"),
    ):
        assert public_url(url) == expected


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("s3://5f2a:5f2a@bucket/a", "credentials must be in storage_options"),
        ("ftp://me:5f2a@host/a", "ftp://host: credentials must be in storage_options"),
        ("gist://me:5f2a@gist/a", "gist://gist: credentials must be in storage_options"),
        ("zip://x::https://me:5f2a@host/a", "zip://x::https:: credentials must be in"),
        ("hdfs://host/a?token=5f2a", "hdfs://host: the URL must have no query"),
        ("hdfs://host?X-Token=5f2a", "hdfs://host: the URL must have no query"),
    ],
)
def test_secrets_in_the_url(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        public_url(url)
    assert "5f2a" not in str(caught.value)


def test_local_path() -> None:
    assert local_path("file:///a/b%20c") == "/a/b c"
    assert local_path("file://localhost/a") == "/a"
    with pytest.raises(ValueError, match="must name a file of this machine, got 'file://other/a'"):
        local_path("file://other/a")


def test_expand_ranges() -> None:
    assert expand_ranges("s3://b/{08..11}-x") == [f"s3://b/{n}-x" for n in ("08", "09", "10", "11")]
    assert len(expand_ranges("s3://b/{0..1}/{00000..00127}")) == 256
    assert expand_ranges("s3://b/{0..1}{0..1}") == [f"s3://b/{n}" for n in ("00", "01", "10", "11")]
    with pytest.raises(ValueError, match=r"ranges of numbers must ascend, got '\{3..1\}'"):
        expand_ranges("s3://b/{3..1}")
    with pytest.raises(ValueError, match="more than 1,000,000 names"):
        expand_ranges("s3://b/{0..999999}{0..9}")


def test_secrets_stay_in_the_store() -> None:
    options = RemoteOptions()
    public = options.name("https://u:p@host/a?sig=1")
    assert public == "https://host/a"
    assert store_of(public, options) == ("https://u:p@host/a?sig=1", "")
    with pytest.raises(ValueError, match="two URLs differ only in their query") as caught:
        options.name("https://host/a?sig=2")
    assert "sig=" not in str(caught.value)
