"""The peer: tf.data on one thread, parsing whole batches. Needs a Python that has TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from benchmarks import epoch
from benchmarks.workloads import BATCH_SIZE, Column, Workload

_DTYPES = {"int64": tf.int64, "float32": tf.float32, "string": tf.string, "raw": tf.string}


def batches(workload: Workload) -> Iterable[Mapping[str, Any]]:
    """TensorFlow's fastest way: batch the serialized records, then parse each batch in one call."""
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    features = {name: _feature(column) for name, column in workload.columns.items()}

    def parse(serialized: Any) -> dict[str, Any]:
        parsed: dict[str, Any] = tf.io.parse_example(serialized, features)
        for name, column in workload.columns.items():
            if column.kind == "raw":
                flat = tf.io.decode_raw(parsed[name], tf.uint8)
                parsed[name] = tf.reshape(flat, (-1, *column.shape))
        return parsed

    dataset: Iterable[Mapping[str, Any]] = (
        tf.data.TFRecordDataset(workload.files)
        .batch(BATCH_SIZE)
        .map(parse)
        .with_options(_one_thread())
    )
    return dataset


def _feature(column: Column) -> Any:
    shape = () if column.kind == "raw" else column.shape
    return tf.io.FixedLenFeature(shape, _DTYPES[column.kind])


def _one_thread() -> Any:
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    options.threading.max_intra_op_parallelism = 1
    options.autotune.enabled = False
    return options


def _to_host(column: Any) -> Any:
    values = column.numpy()
    return values.ravel().tolist() if column.dtype == tf.string else values


if __name__ == "__main__":
    epoch.main(batches, _to_host)
