"""Patterns of URLs."""

from __future__ import annotations

from torchrec_io._storage.remote.patterns import matches


def test_patterns() -> None:
    for pattern, matching, others in (
        ("s3://b/*.x", ["s3://b/a.x"], ["s3://b/c/a.x", "s3://b/.x", "s3://b/a.xx", "s3://c/a.x"]),
        ("s3://b/a?c", ["s3://b/abc", "s3://b/a.c"], ["s3://b/a/c", "s3://b/ac", "s3://b/abbc"]),
        ("s3://b/a[!x]c", ["s3://b/abc", "s3://b/a!c"], ["s3://b/a/c", "s3://b/axc"]),
        ("s3://b/a[+-9]c", ["s3://b/a+c", "s3://b/a7c"], ["s3://b/a/c", "s3://b/aac"]),
        ("s3://b/a[/]c", ["s3://b/a[/]c"], ["s3://b/a/c"]),
        ("s3://b/[]-]", ["s3://b/]", "s3://b/-"], ["s3://b/[]-]", "s3://b/a"]),
        ("s3://b/[ab", ["s3://b/[ab"], ["s3://b/a"]),
        ("s3://b/[z-a]x", [], ["s3://b/zx", "s3://b/[z-a]x"]),
        ("s3://b/**/x", ["s3://b/x", "s3://b/a/c/x"], ["s3://b/.a/x", "s3://b/ax"]),
        ("s3://b/**", ["s3://b/x", "s3://b/a/x"], ["s3://b/.x", "s3://b/a/.x", "s3://b/"]),
        ("s3://b/.*", ["s3://b/.x"], ["s3://b/x"]),
        ("s3://b/a+(c)*", ["s3://b/a+(c)1"], ["s3://b/aac1"]),
    ):
        assert [url for url in (*matching, *others) if matches(pattern, url)] == matching, pattern
