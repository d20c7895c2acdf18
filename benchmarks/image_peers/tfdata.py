"""tf.data: the images of a TFRecord file, decoded one by one on one thread or two.

The box of each image comes from a second dataset, so TensorFlow does not spend time to choose it.
``decode_and_crop_jpeg`` decodes only the box.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import tensorflow as tf

from benchmarks.image_data import MEAN, SHORT_SIDE, SIZE, STD, Recipe

_BATCH = 64
_FEATURES = {"image": tf.io.FixedLenFeature((), tf.string)}


def _open(recipe: Recipe, threads: int, *, antialias: bool) -> Callable[[], Iterable[Any]]:
    records = tf.data.TFRecordDataset(recipe.records)
    boxes = tf.data.Dataset.from_tensor_slices(recipe.boxes)
    decode = partial(_decode, recipe.name, antialias)
    calls = None if threads == 1 else threads
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    options.threading.max_intra_op_parallelism = 1
    options.autotune.enabled = False
    images = tf.data.Dataset.zip((records, boxes)).map(decode, num_parallel_calls=calls)
    dataset = images.batch(_BATCH).with_options(options)
    return lambda: dataset


def _decode(recipe: str, antialias: bool, serialized: Any, box: Any) -> Any:
    stored = tf.io.parse_single_example(serialized, _FEATURES)["image"]
    if recipe == "png":
        return tf.ensure_shape(tf.io.decode_png(stored, channels=3), (SIZE, SIZE, 3))
    # The default of other decoders. It is not slower.
    options = {"channels": 3, "dct_method": "INTEGER_ACCURATE"}
    if recipe in ("crop", "train"):
        part = tf.image.decode_and_crop_jpeg(stored, box[:4], **options)
        resized = tf.image.resize(part, (SIZE, SIZE), antialias=antialias)
        resized = _normalized(resized) if recipe == "train" else _rounded(resized)
        return tf.cond(box[4] != 0, lambda: tf.reverse(resized, [1]), lambda: resized)
    image = tf.io.decode_jpeg(stored, **options)
    if recipe == "whole":
        return tf.ensure_shape(image, (SIZE, SIZE, 3))
    sides = tf.shape(image)[:2]
    wanted = sides * SHORT_SIDE // tf.reduce_min(sides)
    resized = _rounded(tf.image.resize(image, wanted, antialias=antialias))
    # Half of an odd number is rounded to even, as other libraries do.
    top, left = tf.unstack(tf.cast(tf.round((wanted - SIZE) / 2), tf.int32))
    return tf.slice(resized, [top, left, 0], [SIZE, SIZE, 3])


def _normalized(pixels: Any) -> Any:
    """Normalize with constants that were multiplied by 255, as TensorFlow's ResNet does."""
    return (pixels - tf.constant(MEAN) * 255) / (tf.constant(STD) * 255)


def _rounded(pixels: Any) -> Any:
    return tf.cast(tf.round(pixels), tf.uint8)


PEERS = {
    "tf.data": partial(_open, antialias=False),
    "tf.data, antialias=True": partial(_open, antialias=True),
}
