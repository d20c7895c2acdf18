"""TensorFlow's readers of CSV and other formats; runs in the process of ``tf_oracle.py``."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from tf_json import Json

_READERS = {
    "lines": tf.compat.v1.TextLineReader,
    "fixed": tf.compat.v1.FixedLengthRecordReader,
    "whole": tf.compat.v1.WholeFileReader,
}
_DATASETS = {
    "lines": tf.data.TextLineDataset,
    "fixed": tf.data.FixedLengthRecordDataset,
}


def read_by_reader(kind: str, paths: Sequence[str], options: Json) -> Json:
    """Return keys and records, in hexadecimal, of a TensorFlow 1 reader."""
    v1 = tf.compat.v1
    pairs: list[list[str]] = []
    with tf.Graph().as_default(), v1.Session() as session:
        reader = _READERS[kind](**options)
        queue = v1.FIFOQueue(len(paths), tf.string)
        session.run(queue.enqueue_many([list(paths)]))
        session.run(queue.close())
        read = reader.read(queue)
        while True:
            try:
                key, value = session.run(read)
            except tf.errors.OutOfRangeError:
                return {"pairs": pairs}
            pairs.append([key.decode(), value.hex()])


def read_by_dataset(kind: str, path: str, options: Json) -> Json:
    """Return the records of a tf.data dataset of a file, or the class of its error."""
    records: list[str] = []
    try:
        for record in _DATASETS[kind](path, **options):
            records.append(record.numpy().hex())
    except tf.errors.OpError as error:
        return {"records": records, "error": type(error).__name__}
    return {"records": records, "error": None}


def decode_csv(lines: Sequence[bytes], columns: Json, options: Json) -> Json:
    """Return the values of each line, numbers as bytes, or None if TensorFlow rejects it."""
    defaults = [
        tf.constant([] if default is None else [default], dtype) for dtype, default in columns
    ]
    answers: list[Json] = []
    for line in lines:
        try:
            values = tf.io.decode_csv([line], defaults, **options)
        except (
            tf.errors.InvalidArgumentError,
            UnicodeDecodeError,
        ):  # the latter for an error message
            answers.append({})
            continue
        arrays = [value.numpy() for value in values]
        answers.append(
            {"values": [a[0].hex() if a.dtype == object else a.tobytes().hex() for a in arrays]}
        )
    return {"lines": answers}
