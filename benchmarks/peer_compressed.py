"""One epoch of tf.data over a gzip file of the records of ``compressed_data``, in two threads."""

from __future__ import annotations

import json
import sys
import time

import tensorflow as tf

_FLOATS, _CATEGORIES, _BATCH = 13, 26, 256
_MOST_SECONDS = 60.0


def main() -> None:
    """Print the number of records per second of processor time in JSON."""
    specs = {f"f{i}": tf.io.FixedLenFeature([], tf.float32) for i in range(_FLOATS)}
    for name in ["label", *(f"c{i}" for i in range(_CATEGORIES))]:
        specs[name] = tf.io.FixedLenFeature([], tf.int64)
    data = tf.data.TFRecordDataset(sys.argv[1], "GZIP").batch(_BATCH)
    data = data.map(lambda records: tf.io.parse_example(records, specs), 2).prefetch(2)
    wall, cpu, records = time.perf_counter(), time.process_time(), 0
    for batch in data:
        records += len(batch["label"])
        if time.perf_counter() - wall > _MOST_SECONDS:
            break
    print(json.dumps(records / (time.process_time() - cpu)))


if __name__ == "__main__":
    main()
