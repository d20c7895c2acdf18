"""Candidate presets for some data, with the arguments that would fit it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from .._records.scanned_block import raise_at_gaps
from .._schema.inspect import inspect_example
from .._schema.record_sample import choose_records
from .._schema.schema import Schema
from .._schema.sniff import image_size
from ..errors import SchemaError
from .driving import waymo_motion
from .evidence import Evidence
from .images import imagenet, kaggle_images, object_detection
from .physics import learning_to_simulate, mesh_graph_nets
from .scenes import gqn
from .sound import nsynth
from .text import bert_pretraining
from .video import audioset, youtube8m_frames, youtube8m_video

# Number of records whose frames are measured.
_FRAMES_INSPECTED = 1000


class Layout(NamedTuple):
    """A preset that may fit some data.

    Attributes:
        name: Name of the preset.
        arguments: Python source of its arguments.
        schema: Schema that the preset returns.
        marks: Features that identify the layout. The data must have all of them.
        also: Another reason why the layout fits, or "".
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


def _layout(preset: Callable[..., Schema], marks: Iterable[str], **arguments: Any) -> Layout:
    schema = preset(**arguments)
    source = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return Layout(preset.__name__, source.replace("'", '"'), schema, tuple(marks))


def _suggest_fixed(_: Evidence) -> Iterator[Layout]:
    """Yield the layouts of presets without arguments."""
    for preset in (audioset, nsynth):
        yield _layout(preset, preset())


def _suggest_imagenet(evidence: Evidence) -> Iterator[Layout]:
    if "image/object/class/label" not in evidence.findings:
        yield _layout(imagenet, ("image/encoded", "image/class/label", "image/class/synset"))


def _suggest_object_detection(evidence: Evidence) -> Iterator[Layout]:
    boxes = [f"image/object/bbox/{end}" for end in ("ymin", "xmin", "ymax", "xmax")]
    # Masks that are stored as numbers are not read by the preset.
    for options in ({"masks": True}, {}) if "image/object/mask" in evidence.findings else ({},):
        for label in ("label", "text"):
            marks = ("image/encoded", *boxes, f"image/object/class/{label}")
            yield _layout(object_detection, marks, **options)


def _suggest_kaggle_images(evidence: Evidence) -> Iterator[Layout]:
    choices = (("class", "id"), ("target", "image_name"), (None, "id"), (None, "image_name"))
    for names in (*choices, ("class", None)):
        marks = ("image", *(name for name in names if name is not None))
        # These names are common: unless both are known, no other feature is allowed.
        if None not in names or set(evidence.findings) == {*marks}:
            keys = zip(("label_key", "id_key"), names, ("class", "id"), strict=True)
            options = {key: name for key, name, usual in keys if name != usual}
            yield _layout(kaggle_images, marks, **options)


def _suggest_youtube8m(evidence: Evidence) -> Iterator[Layout]:
    segments = {"segments": True} if "segment_start_times" in evidence.findings else {}
    for id_key in ("id", "video_id"):
        options = {} if id_key == "id" else {"id_key": id_key}
        # Labels are not marks, because those of test data are not published.
        yield _layout(youtube8m_video, (id_key, "mean_rgb", "mean_audio"), **options)
        yield _layout(youtube8m_frames, (id_key, "rgb", "audio"), **options, **segments)


def _suggest_waymo_motion(evidence: Evidence) -> Iterator[Layout]:
    points = evidence.count("roadgraph_samples/id")
    if points:
        options: dict[str, Any] = {} if points == 30_000 else {"roadgraph_points": points}
        if "state/future/x" not in evidence.findings:
            options["future"] = False
        marks = ("scenario/id", "roadgraph_samples/xyz", "state/past/x", "state/current/x")
        yield _layout(waymo_motion, marks, **options)


def _suggest_bert_pretraining(evidence: Evidence) -> Iterator[Layout]:
    tokens, masked = evidence.count("input_ids"), evidence.count("masked_lm_ids")
    if tokens and masked:
        schema = bert_pretraining(tokens, masked)
        yield _layout(
            bert_pretraining, schema, max_seq_length=tokens, max_predictions_per_seq=masked
        )


def _suggest_gqn(evidence: Evidence) -> Iterator[Layout]:
    views = 0 if evidence.is_sequence else evidence.count("frames")
    if views and evidence.count("cameras") == 5 * views:
        size = _find_frame_size(evidence)
        if size is not None:
            yield _layout(gqn, ("frames", "cameras"), sequence_length=views, frame_size=size)


def _find_frame_size(evidence: Evidence) -> int | None:
    """Return the size of all frames, if they are squares of one size."""
    sizes = set()
    records = min(_FRAMES_INSPECTED, evidence.findings["frames"].records)
    for piece in choose_records(evidence.files, records).pieces:
        for block in raise_at_gaps(piece()):
            for _, record in block.records():
                frames = (inspect_example(record) or {})["frames"].values
                sizes |= {image_size(frame) for frame in frames if isinstance(frame, bytes)}
                if len(sizes) > 1:
                    return None
    size = sizes.pop() if sizes else None
    return size[0] if size is not None and size[0] == size[1] else None


def _suggest_physics(evidence: Evidence) -> Iterator[Layout]:
    for preset, name in ((mesh_graph_nets, "meta.json"), (learning_to_simulate, "metadata.json")):
        path = evidence.files[0].parent.child(name)
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
    _suggest_fixed,
    _suggest_waymo_motion,
    _suggest_bert_pretraining,
    _suggest_gqn,
    _suggest_physics,
    _suggest_kaggle_images,
)
