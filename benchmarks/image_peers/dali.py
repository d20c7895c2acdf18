"""NVIDIA DALI on the CPU: only the box of an image is decoded, and resized with antialiasing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
from nvidia.dali import fn, pipeline_def, types

from benchmarks.image_data import SIZE, Recipe, images_of

_BATCH = 64


def _open(recipe: Recipe, threads: int) -> Callable[[], Iterable[Any]]:
    images = [np.frombuffer(image, np.uint8) for image in images_of(recipe)]
    boxes = recipe.boxes
    starts = range(0, len(images), _BATCH)
    batches = [(images[at : at + _BATCH], boxes[at : at + _BATCH]) for at in starts]
    return partial(_epoch, batches, threads)


def _epoch(batches: list[Any], threads: int) -> Iterator[Any]:
    pipeline = _pipeline(batches, threads)
    for _ in batches:
        [output] = pipeline.run()
        yield output.as_array()


def _pipeline(batches: list[Any], threads: int) -> Any:
    @pipeline_def(  # type: ignore[untyped-decorator]  # has no types
        batch_size=_BATCH, num_threads=threads, device_id=None, prefetch_queue_depth=2
    )
    def define() -> Any:
        stored = fn.external_source([images for images, _ in batches], cycle="quiet")
        box = fn.external_source([boxes for _, boxes in batches], cycle="quiet")
        part = fn.decoders.image_slice(
            stored, box[:2], box[2:4], axes=[0, 1], device="cpu", output_type=types.RGB
        )
        options = {"resize_x": SIZE, "resize_y": SIZE, "interp_type": types.INTERP_LINEAR}
        resized = fn.resize(part, antialias=True, **options)
        return fn.flip(resized, horizontal=box[4])

    pipeline = define()
    pipeline.build()
    return pipeline


PEERS = {"NVIDIA DALI (CPU)": _open}
