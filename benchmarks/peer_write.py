"""TensorFlow's side of ``write.py``. Needs a Python that has TensorFlow.

Checks that TensorFlow reads the same messages from both files, then prints the CPU microseconds
per record.
"""

from __future__ import annotations

import json
import sys

import tensorflow as tf

from benchmarks.peer_encode import message_of
from benchmarks.write_values import cpu_of_writing, examples_to_write


def _messages(path: str) -> list[bytes]:
    records = tf.data.TFRecordDataset(path).as_numpy_iterator()
    return [tf.train.Example.FromString(record) for record in records]


def main() -> None:
    """Write, check and measure. Arguments: file of this library, path of TensorFlow's file."""
    ours, theirs = sys.argv[1:]
    examples = examples_to_write()

    def work(path: str) -> None:
        with tf.io.TFRecordWriter(path) as writer:
            for example in examples:
                writer.write(message_of(example).SerializeToString())

    cpu_of_writing(work, theirs)
    assert _messages(theirs) == _messages(ours)
    print(json.dumps(cpu_of_writing(work, theirs) / len(examples) * 1e6))


if __name__ == "__main__":
    main()
