"""TFDS's side of ``episodes.py``. Needs a Python that has tensorflow-datasets.

Reads one epoch of samples: two cameras at one step, and the next 16 actions, clamped to the
episode. Images are decoded by TFDS with their episode, as it does by default, or after the shuffle
buffer, as Octo and OpenVLA do. Prints samples, CPU and wall seconds, peak memory in bytes, and sums
of all values.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

import tensorflow as tf
import tensorflow_datasets as tfds

BATCH_SIZE, BUFFER = 32, 1000


def samples_of(episode: Any, horizon: int) -> Any:
    """Return a dataset of the samples of an episode."""
    steps = episode["steps"]
    if isinstance(steps, tf.data.Dataset):  # decoded
        steps = steps.batch(1 << 20).get_single_element()
    count = tf.shape(steps["action"])[0]
    later = tf.range(count)[:, None] + tf.range(horizon)[None]
    actions = tf.gather(steps["action"], tf.minimum(later, count - 1))
    observation = steps["observation"]
    return tf.data.Dataset.from_tensor_slices({"action": actions, **observation})


def decode(sample: Any) -> Any:
    """Decode the images of a sample."""
    images = {
        name: tf.io.decode_jpeg(sample[name], 3, dct_method="INTEGER_ACCURATE")
        for name in ("front", "wrist")
    }
    return {**sample, **images}


def main() -> None:
    """Read an epoch. Arguments: directory, horizon, "early" or "late" decoding."""
    folder, horizon, is_late = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "late"
    builder = tfds.builder_from_directory(folder)
    config = tfds.ReadConfig(try_autocache=False, interleave_cycle_length=1)
    decoders = {"steps": tfds.decode.SkipDecoding()} if is_late else None
    episodes = builder.as_dataset("train", decoders=decoders, read_config=config)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    dataset = episodes.flat_map(lambda episode: samples_of(episode, horizon))
    dataset = dataset.shuffle(BUFFER)
    dataset = (dataset.map(decode) if is_late else dataset).batch(BATCH_SIZE).prefetch(1)
    batches = iter(dataset.with_options(options).as_numpy_iterator())
    first = next(batches)
    found: dict[str, Any] = {"samples": 0, "sums": sums_of(first)}
    cpu, wall = time.process_time(), time.perf_counter()
    spent = 0.0  # for the sums
    for batch in batches:
        found["samples"] += len(batch["action"])
        start = time.process_time()
        found["sums"] = [sum(pair) for pair in zip(found["sums"], sums_of(batch), strict=True)]
        spent += time.process_time() - start
    found["cpu"] = time.process_time() - cpu - spent
    found["wall"] = time.perf_counter() - wall - spent
    found["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(found))


def sums_of(batch: Any) -> list[float]:
    """Return the sums of pixels and of actions."""
    pixels = sum(int(batch[name].sum(dtype="int64")) for name in ("front", "wrist"))
    return [pixels, float(batch["action"].sum(dtype="float64"))]


if __name__ == "__main__":
    main()
