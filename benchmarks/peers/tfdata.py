"""tf.data: batches of serialized records, each parsed in one call, with several settings.

Columns stay TensorFlow tensors; the conversion to PyTorch is not included. TensorFlow always
verifies both checksums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.peers.base import Batch, HostBatch, Peer
from benchmarks.workloads import Column, Workload

_DTYPES = {"int64": tf.int64, "float32": tf.float32}
_CALLS = 2  # number of cores of the machine that the figures are for
_LENGTH = "length of "  # prefix of the lengths of a padded column


class _TfData(Peer):
    def __init__(self, name: str, make: Callable[[Workload], Any]) -> None:
        super().__init__(f"tf.data, {name}")
        self._make = make

    def supports(self, workload: Workload, workers: int) -> str | None:  # noqa: ARG002
        return "uses threads, not worker processes" if workers else None

    def batches(self, workload: Workload, workers: int) -> Iterable[Batch]:
        del workers
        dataset: Iterable[Batch] = self._make(workload)
        return dataset

    def to_host(self, workload: Workload, batch: Batch) -> HostBatch:
        host: HostBatch = {}
        for name, column in workload.columns.items():
            value = batch[name]
            if column.in_lists:
                host[name] = (value.numpy(), batch[_LENGTH + name].numpy())
            elif isinstance(value, tf.RaggedTensor):
                host[name] = (value.values.numpy(), value.row_splits.numpy().astype(np.int64))
            elif column.kind == "string":
                host[name] = value.numpy().tolist()
            else:
                host[name] = value.numpy()
        return host


# ---- settings ----


def _one_thread(workload: Workload) -> Any:
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    options.threading.max_intra_op_parallelism = 1
    options.autotune.enabled = False
    return _batched(_files(workload), workload, None).with_options(options)


def _parallel_map(workload: Workload) -> Any:
    return _batched(_files(workload), workload, _CALLS).prefetch(2)


def _autotune(workload: Workload) -> Any:
    records = _files(workload, num_parallel_reads=tf.data.AUTOTUNE)
    return _batched(records, workload, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def _interleave(workload: Workload) -> Any:
    records = tf.data.Dataset.from_tensor_slices(workload.files).interleave(
        lambda file: tf.data.TFRecordDataset(file, compression_type=workload.compression or None),
        cycle_length=_CALLS,
        block_length=workload.batch_size,
        num_parallel_calls=_CALLS,
        deterministic=False,
    )
    return _batched(records, workload, _CALLS).prefetch(2)


# ---- parsing ----


def _files(workload: Workload, **options: Any) -> Any:
    compression = workload.compression or None
    return tf.data.TFRecordDataset(workload.files, compression_type=compression, **options)


def _batched(records: Any, workload: Workload, calls: int | None) -> Any:
    """Return batches of columns. Images are decoded record by record."""
    if not any(column.kind == "jpeg" for column in workload.columns.values()):
        return records.batch(workload.batch_size).map(_parser(workload), num_parallel_calls=calls)
    decoded = records.map(_image_decoder(workload), num_parallel_calls=calls)
    return decoded.batch(workload.batch_size)


def _parser(workload: Workload) -> Callable[[Any], Any]:
    context = {name: _feature(c) for name, c in workload.columns.items() if not c.in_lists}
    in_lists = {name: _feature(c) for name, c in workload.columns.items() if c.in_lists}

    def parse(serialized: Any) -> Any:
        if in_lists:
            columns, padded, lengths = tf.io.parse_sequence_example(serialized, context, in_lists)
            return columns | padded | {_LENGTH + name: length for name, length in lengths.items()}
        columns = tf.io.parse_example(serialized, context)
        for name, column in workload.columns.items():
            if column.kind == "raw":
                flat = tf.io.decode_raw(columns[name], tf.uint8)
                columns[name] = tf.reshape(flat, (-1, *(column.shape or ())))
        return columns

    return parse


def _image_decoder(workload: Workload) -> Callable[[Any], Any]:
    features = {name: _feature(column) for name, column in workload.columns.items()}

    def decode(serialized: Any) -> Any:
        columns = tf.io.parse_single_example(serialized, features)
        for name, column in workload.columns.items():
            if column.kind == "jpeg":
                # The default of other decoders. It is not slower.
                image = tf.io.decode_jpeg(columns[name], channels=3, dct_method="INTEGER_ACCURATE")
                columns[name] = tf.ensure_shape(image, column.shape)
        return columns

    return decode


def _feature(column: Column) -> Any:
    dtype = _DTYPES.get(column.kind, tf.string)
    if column.in_lists:
        return tf.io.FixedLenSequenceFeature((), dtype)
    if column.shape is None:
        return tf.io.RaggedFeature(dtype)
    return tf.io.FixedLenFeature(column.shape if column.kind in _DTYPES else (), dtype)


PEERS: list[Peer] = [
    _TfData("one thread", _one_thread),
    _TfData("map(2)", _parallel_map),
    _TfData("AUTOTUNE", _autotune),
    _TfData("interleave(2)", _interleave),
]
