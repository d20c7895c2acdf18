"""By what the layout of each preset is known, and with which arguments it would read some data."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..errors import SchemaError
from ..schema.infer import sample_records
from ..schema.inspect import inspect_example
from ..schema.schema import Schema
from ..schema.sniff import image_size
from .driving import waymo_motion
from .evidence import Evidence
from .images import imagenet, kaggle_images, object_detection
from .physics import learning_to_simulate, mesh_graph_nets
from .scenes import gqn
from .sound import nsynth
from .text import bert_pretraining
from .video import audioset, youtube8m_frames, youtube8m_video


class Layout(NamedTuple):
    """A preset that may read some data.

    Attributes:
        name: Of the preset.
        arguments: Source of its arguments.
        schema: What it gives.
        marks: Features that make the layout: the data must have them all.
        also: What else says so, if anything does.
    """

    name: str
    arguments: str
    schema: Schema
    marks: tuple[str, ...]
    also: str = ""


def layouts_of(evidence: Evidence) -> Iterator[Layout]:
    """Those that the names and sizes in the data suggest."""
    for look in _LOOKS:
        yield from look(evidence)


def _imagenet(evidence: Evidence) -> Iterator[Layout]:
    if "image/object/class/label" not in evidence.findings:
        marks = ("image/encoded", "image/class/label", "image/class/synset")
        yield Layout("imagenet", "", imagenet(), marks)


def _object_detection(evidence: Evidence) -> Iterator[Layout]:
    boxes = tuple(f"image/object/bbox/{end}" for end in ("ymin", "xmin", "ymax", "xmax"))
    # Masks may also be stored as numbers, which the preset does not read.
    for masks in (True, False) if "image/object/mask" in evidence.findings else (False,):
        for label in ("label", "text"):
            marks = ("image/encoded", *boxes, f"image/object/class/{label}")
            arguments = "masks=True" if masks else ""
            yield Layout("object_detection", arguments, object_detection(masks=masks), marks)


def _kaggle_images(evidence: Evidence) -> Iterator[Layout]:
    choices = (("class", "id"), ("target", "image_name"), (None, "id"), (None, "image_name"))
    for names in (*choices, ("class", None)):
        label, name = names
        marks = ("image", *(mark for mark in names if mark is not None))
        keys = {"label_key": label, "id_key": name}
        usual = {"label_key": "class", "id_key": "id"}
        arguments = ", ".join(f"{key}={keys[key]!r}" for key in keys if keys[key] != usual[key])
        # Such names are common: without a label and a name there must be no others.
        if None not in names or set(evidence.findings) == {*marks}:
            schema = kaggle_images(label_key=label, id_key=name)
            yield Layout("kaggle_images", arguments.replace("'", '"'), schema, marks)


def _youtube8m(evidence: Evidence) -> Iterator[Layout]:
    for id_key in ("id", "video_id"):
        words = [] if id_key == "id" else [f'id_key="{id_key}"']
        video = youtube8m_video(id_key=id_key)
        # The labels of test data are not published.
        marks = (id_key, "mean_rgb", "mean_audio")
        yield Layout("youtube8m_video", ", ".join(words), video, marks)
        segments = "segment_start_times" in evidence.findings
        frames = youtube8m_frames(id_key=id_key, segments=segments)
        arguments = ", ".join([*words, *(["segments=True"] if segments else [])])
        yield Layout("youtube8m_frames", arguments, frames, (id_key, "rgb", "audio"))


def _audioset(_: Evidence) -> Iterator[Layout]:
    schema = audioset()
    yield Layout("audioset", "", schema, (*schema,))


def _nsynth(_: Evidence) -> Iterator[Layout]:
    schema = nsynth()
    yield Layout("nsynth", "", schema, (*schema,))


def _waymo_motion(evidence: Evidence) -> Iterator[Layout]:
    points = evidence.count("roadgraph_samples/id")
    if points:
        future = "state/future/x" in evidence.findings
        words = [] if points == 30_000 else [f"roadgraph_points={points}"]
        words += [] if future else ["future=False"]
        schema = waymo_motion(roadgraph_points=points, future=future)
        marks = ("scenario/id", "roadgraph_samples/xyz", "state/past/x", "state/current/x")
        yield Layout("waymo_motion", ", ".join(words), schema, marks)


def _bert_pretraining(evidence: Evidence) -> Iterator[Layout]:
    tokens, masked = evidence.count("input_ids"), evidence.count("masked_lm_ids")
    if tokens and masked:
        schema = bert_pretraining(tokens, masked)
        arguments = f"max_seq_length={tokens}, max_predictions_per_seq={masked}"
        yield Layout("bert_pretraining", arguments, schema, (*schema,))


def _gqn(evidence: Evidence) -> Iterator[Layout]:
    views = 0 if evidence.is_sequence else evidence.count("frames")
    if views and evidence.count("cameras") == 5 * views:
        size = _frame_size(evidence)
        if size is not None:
            arguments = f"sequence_length={views}, frame_size={size}"
            yield Layout("gqn", arguments, gqn(views, size), ("frames", "cameras"))


def _frame_size(evidence: Evidence) -> int | None:
    """Height and width of all frames, if they are squares of one size."""
    sizes = set()
    for record in sample_records(
        [*evidence.files], evidence.findings["frames"].records, skip_errors=False
    ):
        frames = (inspect_example(record.data) or {})["frames"].values
        sizes |= {image_size(frame) for frame in frames if isinstance(frame, bytes)}
        if len(sizes) > 1:
            return None
    size = sizes.pop() if sizes else None
    return size[0] if size is not None and size[0] == size[1] else None


def _physics(evidence: Evidence) -> Iterator[Layout]:
    for preset, name in ((mesh_graph_nets, "meta.json"), (learning_to_simulate, "metadata.json")):
        path = os.path.join(os.path.dirname(evidence.files[0]), name)
        try:
            schema = preset(path)
        except (OSError, SchemaError):
            continue
        marks = tuple(mark for mark in schema if mark != "key")
        also = f"{name} beside the data describes it"
        yield Layout(preset.__name__, repr(path), schema, marks, also)


_LOOKS: tuple[Callable[[Evidence], Iterator[Layout]], ...] = (
    _imagenet,
    _object_detection,
    _youtube8m,
    _audioset,
    _nsynth,
    _waymo_motion,
    _bert_pretraining,
    _gqn,
    _physics,
    _kaggle_images,
)
