"""TensorFlow's side of ``encode.py``. Needs a Python that has TensorFlow.

Checks that the encoded examples of a file equal TensorFlow's messages, then prints the CPU
microseconds per example of a workload.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf

from benchmarks.encode_values import cpu_of, examples_of


def _feature(value: Any) -> Any:
    values = value if isinstance(value, list) else [value]
    if isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def message_of(example: dict[str, Any]) -> Any:
    """Return a ``tf.train.Example`` of plain Python values."""
    features = {name: _feature(value) for name, value in example.items()}
    return tf.train.Example(features=tf.train.Features(feature=features))


def main() -> None:
    """Check and measure. Arguments: workload, file with each encoded example as a hex line."""
    workload, ours = sys.argv[1:]
    examples = examples_of(workload)
    lines = Path(ours).read_text("utf-8").splitlines()
    for example, line in zip(examples, lines, strict=True):
        assert tf.train.Example.FromString(bytes.fromhex(line)) == message_of(example)
    print(json.dumps(cpu_of(lambda: [message_of(e).SerializeToString() for e in examples])))


if __name__ == "__main__":
    main()
