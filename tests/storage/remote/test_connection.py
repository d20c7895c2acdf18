"""The helper process: it ends with its parent, and is replaced when it ends itself."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import is_running, wait_until
from tests.support.web import WebServer
from torchrec_io._storage.byte_source import read_bytes
from torchrec_io._storage.location import Location
from torchrec_io._storage.remote.connection import HelperConnection
from torchrec_io._storage.remote.listing import read_remote_stamp
from torchrec_io._storage.remote.options import RemoteOptions
from torchrec_io._storage.remote.process import access, close_connections

DATA = bytes(range(256)) * 5000
START = """
import os, signal, sys, time
from torchrec_io._storage.location import Location
from torchrec_io._storage.remote.options import RemoteOptions
from torchrec_io._storage.remote.process import access, close_connections
from torchrec_io._storage.byte_source import read_bytes
url = sys.argv[1]
options = RemoteOptions()
assert len(read_bytes(Location.of(url, options).open(), 0, 1 << 20)) == 1 << 20
print(access(url, options).client.helper_pid, flush=True)
"""


def started(url: str, rest: str) -> tuple[subprocess.Popen[str], int]:
    """Return a program that has read, and then runs further lines; and its helper's identifier."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", START + rest, url]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        _, errors = process.communicate()
        raise AssertionError(errors)
    return process, int(line)


def test_the_helper_ends_with_its_parent(web: WebServer) -> None:
    process, helper = started(web.put("/a", DATA), "")
    output, errors = process.communicate(timeout=30)
    assert (process.returncode, output, errors) == (0, "", "")
    assert not is_running(helper)


@pytest.mark.parametrize("has_child", [False, True])
def test_the_helper_ends_when_its_parent_is_killed(web: WebServer, has_child: bool) -> None:
    # A forked child has copies of all that is open.
    rest = "if os.fork() == 0: time.sleep(60)\n" if has_child else ""
    process, helper = started(web.put("/a", DATA), rest + "time.sleep(60)")
    process.kill()
    process.wait()
    try:
        wait_until(lambda: not is_running(helper))
    finally:
        if has_child:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_reading_goes_on_after_ctrl_c(web: WebServer) -> None:
    is_reading, may_answer = threading.Event(), threading.Event()

    def hold(handler: Any) -> bool:
        if handler.path == "/slow" and handler.headers.get("Range") == "bytes=0-999":
            is_reading.set()
            may_answer.wait(60)
        return False

    web.answering = hold
    web.put("/slow", DATA)
    process, helper = started(
        web.put("/a", DATA),
        "file = Location.of(url.replace('/a', '/slow'), options).open()\n"
        "try:\n"
        "    read_bytes(file, 0, 1000)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
        "other = Location.of(url, options).open()\n"
        "print(len(read_bytes(file, 0, 1000)), len(read_bytes(other, 5, 10)))\n",
    )
    assert is_reading.wait(60)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    assert process.stdout is not None
    assert process.stdout.readline() == "interrupted\n"
    may_answer.set()
    output, errors = process.communicate(timeout=30)
    assert (output, errors) == ("1000 10\n", "")
    wait_until(lambda: not is_running(helper))


@pytest.mark.parametrize("is_reading", [False, True])
def test_a_helper_that_was_killed_is_replaced(web: WebServer, is_reading: bool) -> None:
    url, options = web.put("/a", DATA), RemoteOptions()
    file = Location.of(url, options).open()
    client = access(url, options).client
    assert isinstance(client, HelperConnection)

    def kill(handler: Any) -> bool:
        if handler.headers.get("Range") == "bytes=50-149":
            web.answering = lambda _: False
            os.kill(client.helper_pid, signal.SIGKILL)
        return False

    if is_reading:
        web.answering = kill
    else:
        os.kill(client.helper_pid, signal.SIGKILL)
    assert read_bytes(file, 50, 100) == DATA[50:150]
    assert read_remote_stamp(url, options).size == len(DATA)
    assert access(url, options).client is not client
    assert not Path(f"/proc/{client.helper_pid}").exists()  # no zombie


def test_datasets_share_one_memory(web: WebServer) -> None:
    """Its size is the largest that was asked for, whatever the values."""
    close_connections()
    url = web.put("/a", DATA)
    small, large = (RemoteOptions({"max_attempts": n}, n << 20) for n in (2, 6))
    files = [Location.of(url, options).open() for options in (small, large, small)]
    assert [read_bytes(file, 0, len(DATA)) for file in files] == [DATA] * 3
    client = access(url, small).client
    assert access(url, large).client is client
    assert isinstance(client, HelperConnection)
    assert len(client.memory) == 6 << 20
    close_connections()


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    close_connections()  # of earlier tests, which have the package
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    for url, text in (
        ("s3://b/a", r"s3:// needs the package obstore: pip install torchrec-io\[remote\]"),
        ("hf://b/a", r"hf:// needs the package fsspec: pip install fsspec"),
    ):
        with pytest.raises(ImportError, match=text):
            Location.of(url, RemoteOptions(None, (1 << 20) + 3)).open()
