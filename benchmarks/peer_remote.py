"""Other libraries' side of ``remote.py``: ``peer_remote.py LIBRARY JSON``; prints JSON.

``mosaicml`` and ``litdata`` read copies of the records in their own formats, and keep what they
download on disk. ``s3torchconnector`` reads the TFRecord files whole; the frames are taken apart
here, without checks. ``tfdata_s3`` is tf.data with the file systems of tensorflow-io, of which the
newest release needs TensorFlow 2.16.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from benchmarks.remote_case import RECORD_BYTES, PeakMemory, digest_of

_BATCH = 64
_HEADER_BYTES = 12
_FOOTER_BYTES = 4
# More are not faster.
_PARALLEL_READS = 4


def main() -> None:
    """Write a library's copy of the records, or measure the library."""
    library, case = sys.argv[1], json.loads(sys.argv[2])
    if "prepare" in case:
        _WRITERS[library](case["prepare"], case["count"])
        print("{}")
        return
    memory = PeakMemory() if case.get("watches_memory", False) else None
    config = case["config"]
    set_credentials(config)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        batches = _READERS[library](case["url"], config, folder)
        first = 0.0
        found: list[torch.Tensor] = []
        start = time.perf_counter()
        for batch in batches:
            first = first or time.perf_counter() - begin
            if case["is_check"]:
                found.append(batch)
        seconds = time.perf_counter() - start
    total = sum(digest_of(row.numpy().tobytes() for row in batch) for batch in found)
    result = {"seconds": seconds, "first": first, "digest": total % (1 << 64)}
    print(json.dumps(result | {"memory": 0 if memory is None else memory.bytes}), flush=True)
    os._exit(0)  # threads of some of them go on for long


def set_credentials(config: dict[str, Any]) -> None:
    """Set the environment variables that libraries without options for a store read."""
    os.environ |= {
        "AWS_ACCESS_KEY_ID": config["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": config["secret_access_key"],
        "AWS_REGION": config["region"],
        "S3_ENDPOINT_URL": config["endpoint"],
    }


def records_of(count: int) -> Iterator[bytes]:
    """Yield the records that the TFRecord files have."""
    random = np.random.default_rng(0)
    for _ in range(count):
        yield random.bytes(RECORD_BYTES)


# ---- s3torchconnector ----


def _read_s3torchconnector(
    url: str, config: dict[str, Any], _folder: str
) -> Iterable[torch.Tensor]:
    from s3torchconnector import (  # noqa: PLC0415  # each library has its own environment
        S3ClientConfig,
        S3IterableDataset,
    )

    objects = S3IterableDataset.from_objects(
        [f"{url}{name}" for name in config["names"]],
        region=config["region"],
        endpoint=config["endpoint"],
        s3client_config=S3ClientConfig(force_path_style=True),
    )
    arrays = (_array(data) for each in objects for data in _payloads(each.read()))
    return _batches(arrays)


def _payloads(data: bytes) -> Iterator[bytes]:
    """Yield the last bytes of each record of a TFRecord file: those of its only feature."""
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        end = at + _HEADER_BYTES + length
        yield data[end - RECORD_BYTES : end]
        at = end + _FOOTER_BYTES


def _array(data: bytes) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(bytearray(data), np.uint8))


def _batches(arrays: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    group: list[torch.Tensor] = []
    for array in arrays:
        group.append(array)
        if len(group) == _BATCH:
            yield torch.stack(group)
            group.clear()
    if group:
        yield torch.stack(group)


# ---- tf.data ----


def _read_tfdata(url: str, config: dict[str, Any], _folder: str) -> Iterable[torch.Tensor]:
    os.environ |= {
        "S3_ENDPOINT": config["endpoint"],
        "S3_USE_HTTPS": "0",
        "S3_VERIFY_SSL": "0",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    tf = importlib.import_module("tensorflow")
    importlib.import_module("tensorflow_io")  # registers s3://
    features = {"data": tf.io.FixedLenFeature([], tf.string)}

    def parse(records: Any) -> Any:
        return tf.io.decode_raw(tf.io.parse_example(records, features)["data"], tf.uint8)

    dataset = tf.data.TFRecordDataset(
        [f"{url}{name}" for name in config["names"]],
        buffer_size=8 << 20,
        num_parallel_reads=_PARALLEL_READS,
    )
    dataset = dataset.batch(_BATCH).map(parse, num_parallel_calls=2).prefetch(2)
    return (torch.from_numpy(batch) for batch in dataset.as_numpy_iterator())


# ---- MosaicML streaming ----


def _stand_in() -> None:
    """Install the stand-ins for torchvision, which is not needed."""
    importlib.import_module("benchmarks.peers.mosaicml")


def write_mosaicml(folder: str, samples: Iterable[dict[str, Any]], columns: dict[str, str]) -> None:
    """Write samples as MDS files."""
    _stand_in()
    from streaming import MDSWriter  # noqa: PLC0415

    with MDSWriter(out=folder, columns=columns, exist_ok=True) as writer:
        for sample in samples:
            writer.write(sample)


def open_mosaicml(url: str, folder: str, **options: Any) -> Any:
    """Return a dataset of MDS files at a URL, which are kept in a folder."""
    _stand_in()
    from streaming import StreamingDataset  # noqa: PLC0415
    from streaming.base.util import clean_stale_shared_memory  # noqa: PLC0415

    clean_stale_shared_memory()  # an earlier process may have left its list of files there
    return StreamingDataset(remote=url, local=folder, **options)


def _write_mosaicml(folder: str, count: int) -> None:
    write_mosaicml(folder, ({"data": data} for data in records_of(count)), {"data": "bytes"})


def _read_mosaicml(
    url: str, _config: dict[str, Any], folder: str, *, shuffle: bool = False
) -> Iterable[torch.Tensor]:
    dataset = open_mosaicml(f"{url}mosaicml", folder, shuffle=shuffle, batch_size=_BATCH)
    return DataLoader(dataset, batch_size=_BATCH, collate_fn=_stack)


def _stack(samples: list[dict[str, Any]]) -> torch.Tensor:
    return torch.stack([_array(sample["data"]) for sample in samples])


# ---- litdata ----


def write_litdata(folder: str, samples: Iterable[dict[str, Any]], **chunks: Any) -> None:
    """Write samples in the format of LitData, by default in chunks of 64 MB."""
    from litdata.streaming.writer import BinaryWriter  # noqa: PLC0415

    writer = BinaryWriter(folder, **(chunks or {"chunk_bytes": "64MB"}))
    for number, sample in enumerate(samples):
        writer[number] = sample
    writer.done()
    writer.merge(1)


def open_litdata(url: str, config: dict[str, Any], folder: str, *, shuffle: bool) -> Any:
    """Return a dataset of LitData's files at a URL, which are kept in a folder."""
    from litdata import StreamingDataset  # noqa: PLC0415
    from litdata.streaming import downloader  # noqa: PLC0415

    # It has no option for servers without TLS.
    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = "true"  # noqa: SLF001
    storage_options = {
        "aws_access_key_id": config["access_key_id"],
        "aws_secret_access_key": config["secret_access_key"],
        "endpoint_url": config["endpoint"],
        "region_name": config["region"],
    }
    return StreamingDataset(url, cache_dir=folder, shuffle=shuffle, storage_options=storage_options)


def _write_litdata(folder: str, count: int) -> None:
    write_litdata(folder, ({"data": data} for data in records_of(count)))


def _read_litdata(
    url: str, config: dict[str, Any], folder: str, *, shuffle: bool = False
) -> Iterable[torch.Tensor]:
    dataset = open_litdata(f"{url}litdata", config, folder, shuffle=shuffle)
    return DataLoader(dataset, batch_size=_BATCH, collate_fn=_stack)


_Reader = Callable[[str, dict[str, Any], str], Iterable[torch.Tensor]]
_WRITERS = {"mosaicml": _write_mosaicml, "litdata": _write_litdata}
_READERS: dict[str, _Reader] = {
    "s3torchconnector": _read_s3torchconnector,
    "tfdata_s3": _read_tfdata,
    "mosaicml": _read_mosaicml,
    "mosaicml-shuffled": functools.partial(_read_mosaicml, shuffle=True),
    "litdata": _read_litdata,
    "litdata-shuffled": functools.partial(_read_litdata, shuffle=True),
}


if __name__ == "__main__":
    main()
