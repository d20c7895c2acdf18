"""Candidate presets for some data, with the arguments that would fit it."""

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
    """A preset that may fit some data.

    Attributes:
        name: Name of the preset.
        arguments: Python source of its arguments.
        schema: Schema that the preset returns.
        marks: Features that identify the layout. The data must have all of them.
        also: Another reason why the layout fits, if there is one.
    """

    name: str
    arguments: str
    schema: Schema
    marks: tuple[str, ...]
    also: str = ""


def suggest_layouts(evidence: Evidence) -> Iterator[Layout]:
    """Yield the layouts that the names and sizes of features suggest."""
    for find in _FINDERS:
        yield from find(evidence)


def _suggest_imagenet(evidence: Evidence) -> Iterator[Layout]:
    if "image/object/class/label" not in evidence.findings:
        marks = ("image/encoded", "image/class/label", "image/class/synset")
        yield Layout("imagenet", "", imagenet(), marks)


def _suggest_object_detection(evidence: Evidence) -> Iterator[Layout]:
    boxes = tuple(f"image/object/bbox/{end}" for end in ("ymin", "xmin", "ymax", "xmax"))
    # Masks that are stored as numbers are not read by the preset.
    for masks in (True, False) if "image/object/mask" in evidence.findings else (False,):
        for label in ("label", "text"):
            marks = ("image/encoded", *boxes, f"image/object/class/{label}")
            arguments = "masks=True" if masks else ""
            yield Layout("object_detection", arguments, object_detection(masks=masks), marks)


def _suggest_kaggle_images(evidence: Evidence) -> Iterator[Layout]:
    choices = (("class", "id"), ("target", "image_name"), (None, "id"), (None, "image_name"))
    for names in (*choices, ("class", None)):
        label, name = names
        marks = ("image", *(mark for mark in names if mark is not None))
        keys = {"label_key": label, "id_key": name}
        usual = {"label_key": "class", "id_key": "id"}
        arguments = ", ".join(f"{key}={keys[key]!r}" for key in keys if keys[key] != usual[key])
        # These names are common: unless both are known, no other feature is allowed.
        if None not in names or set(evidence.findings) == {*marks}:
            schema = kaggle_images(label_key=label, id_key=name)
            yield Layout("kaggle_images", arguments.replace("'", '"'), schema, marks)


def _suggest_youtube8m(evidence: Evidence) -> Iterator[Layout]:
    for id_key in ("id", "video_id"):
        options = [] if id_key == "id" else [f'id_key="{id_key}"']
        video = youtube8m_video(id_key=id_key)
        # Labels are not marks, because those of test data are not published.
        marks = (id_key, "mean_rgb", "mean_audio")
        yield Layout("youtube8m_video", ", ".join(options), video, marks)
        segments = "segment_start_times" in evidence.findings
        frames = youtube8m_frames(id_key=id_key, segments=segments)
        arguments = ", ".join([*options, *(["segments=True"] if segments else [])])
        yield Layout("youtube8m_frames", arguments, frames, (id_key, "rgb", "audio"))


def _suggest_audioset(_: Evidence) -> Iterator[Layout]:
    schema = audioset()
    yield Layout("audioset", "", schema, (*schema,))


def _suggest_nsynth(_: Evidence) -> Iterator[Layout]:
    schema = nsynth()
    yield Layout("nsynth", "", schema, (*schema,))


def _suggest_waymo_motion(evidence: Evidence) -> Iterator[Layout]:
    points = evidence.count("roadgraph_samples/id")
    if points:
        future = "state/future/x" in evidence.findings
        options = [] if points == 30_000 else [f"roadgraph_points={points}"]
        options += [] if future else ["future=False"]
        schema = waymo_motion(roadgraph_points=points, future=future)
        marks = ("scenario/id", "roadgraph_samples/xyz", "state/past/x", "state/current/x")
        yield Layout("waymo_motion", ", ".join(options), schema, marks)


def _suggest_bert_pretraining(evidence: Evidence) -> Iterator[Layout]:
    tokens, masked = evidence.count("input_ids"), evidence.count("masked_lm_ids")
    if tokens and masked:
        schema = bert_pretraining(tokens, masked)
        arguments = f"max_seq_length={tokens}, max_predictions_per_seq={masked}"
        yield Layout("bert_pretraining", arguments, schema, (*schema,))


def _suggest_gqn(evidence: Evidence) -> Iterator[Layout]:
    views = 0 if evidence.is_sequence else evidence.count("frames")
    if views and evidence.count("cameras") == 5 * views:
        size = _find_frame_size(evidence)
        if size is not None:
            arguments = f"sequence_length={views}, frame_size={size}"
            yield Layout("gqn", arguments, gqn(views, size), ("frames", "cameras"))


def _find_frame_size(evidence: Evidence) -> int | None:
    """Return the size of all frames, if they are squares of one size."""
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


def _suggest_physics(evidence: Evidence) -> Iterator[Layout]:
    for preset, name in ((mesh_graph_nets, "meta.json"), (learning_to_simulate, "metadata.json")):
        path = os.path.join(os.path.dirname(evidence.files[0]), name)
        try:
            schema = preset(path)
        except (OSError, SchemaError):
            continue
        marks = tuple(mark for mark in schema if mark != "key")
        also = f"{name} beside the data describes it"
        yield Layout(preset.__name__, repr(path), schema, marks, also)


_FINDERS: tuple[Callable[[Evidence], Iterator[Layout]], ...] = (
    _suggest_imagenet,
    _suggest_object_detection,
    _suggest_youtube8m,
    _suggest_audioset,
    _suggest_nsynth,
    _suggest_waymo_motion,
    _suggest_bert_pretraining,
    _suggest_gqn,
    _suggest_physics,
    _suggest_kaggle_images,
)
