"""Write scikit-learn's handwritten digits as TFRecord shards.

The committed shards were written by TensorFlow 2.21.0 (``tf.io.TFRecordWriter`` and
``tf.io.encode_png``) from the digits of scikit-learn 1.9.1. Run this script with the Python of an
environment that has ``tensorflow-cpu`` and ``scikit-learn``; it writes the same bytes every time.

Each record is a ``tf.train.Example`` with these features, one value each:

* ``image/encoded``: PNG bytes of the 8x8 grey image, pixel values 0..240
* ``image/height``, ``image/width``: int64, always 8
* ``label``: int64, the digit 0..9
* ``id``: int64, the row of the image in scikit-learn's dataset
"""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # must be set before TensorFlow is imported

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

OUT = Path(__file__).parent / "digits"
SEED = 20240501
TEST_FRACTION = 0.2
TRAIN_SHARDS = 4
TEST_SHARDS = 2

# The dataset's pixels are 0..16. Multiplied by 15, they use most of the range of a byte.
PIXEL_SCALE = 15


def bytes_feature(value: bytes) -> tf.train.Feature:
    """Return a feature with one bytes value."""
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def int64_feature(value: int) -> tf.train.Feature:
    """Return a feature with one int64 value."""
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


def make_example(image: npt.NDArray[np.float64], label: int, row: int) -> bytes:
    """Return the serialized Example of one image."""
    pixels = (image * PIXEL_SCALE).astype(np.uint8)
    height, width = pixels.shape
    features = {
        "image/encoded": bytes_feature(tf.io.encode_png(pixels[:, :, np.newaxis]).numpy()),
        "image/height": int64_feature(height),
        "image/width": int64_feature(width),
        "label": int64_feature(label),
        "id": int64_feature(row),
    }
    example = tf.train.Example(features=tf.train.Features(feature=features))
    # Without deterministic=True the order of the features may change from run to run.
    serialized: bytes = example.SerializeToString(deterministic=True)
    return serialized


def write_shards(split: str, records: list[bytes], count: int) -> None:
    """Distribute the records to ``count`` shards, in turn."""
    for shard in range(count):
        path = OUT / f"digits-{split}-{shard:05d}-of-{count:05d}.tfrecord"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for record in records[shard::count]:
                writer.write(record)


def main() -> None:
    """Split the digits and write both parts."""
    digits = load_digits()
    rows = np.arange(len(digits.target))
    # This also shuffles, so every shard contains a mix of all digits.
    train, test = train_test_split(
        rows, test_size=TEST_FRACTION, stratify=digits.target, random_state=SEED
    )
    OUT.mkdir(exist_ok=True)
    for split, chosen, shards in (("train", train, TRAIN_SHARDS), ("test", test, TEST_SHARDS)):
        records = [
            make_example(digits.images[row], int(digits.target[row]), int(row)) for row in chosen
        ]
        write_shards(split, records, shards)
        print(f"{split}: {len(records)} examples in {shards} shards")


if __name__ == "__main__":
    main()
