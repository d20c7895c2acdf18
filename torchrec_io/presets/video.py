"""Videos and sounds by what a network has seen and heard in them, second by second."""

from __future__ import annotations

from typing import Any

from ..schema.schema import Schema
from ..schema.specs import FixedLenFeature, VarLenFeature
from ..schema.stored_specs import RawFeature, SequenceFeature

# What 0 and 255 stand for: youtube-8m's readers.py, min_quantized_value and max_quantized_value.
_QUANTIZED = (-2.0, 2.0)
_RGB, _AUDIO = 1024, 128
_LABELS = VarLenFeature("int64")
_NAME = FixedLenFeature([], "string")


def youtube8m_video(*, id_key: str = "id") -> Schema:
    """YouTube-8M, one mean of all frames for each video.

    ``mean_rgb`` is float32 ``[B, 1024]``, ``mean_audio`` ``[B, 128]``, ``labels`` a Ragged of
    int64.

    Source: https://research.google.com/youtube8m/download.html and google/youtube-8m,
    ``readers.py`` (``YT8MAggregatedFeatureReader``).

    Args:
        id_key: The feature with the video's name: "id", before the version of 2018 "video_id".
    """
    return Schema(
        {
            id_key: _NAME,
            "labels": _LABELS,
            "mean_rgb": FixedLenFeature([_RGB], "float32"),
            "mean_audio": FixedLenFeature([_AUDIO], "float32"),
        }
    )


def youtube8m_frames(
    *, dequantize: bool = True, id_key: str = "id", segments: bool = False
) -> Schema:
    """YouTube-8M, features of each second of a video: SequenceExamples.

    ``rgb`` is a Ragged of values ``[N, 1024]`` over videos, ``audio`` one of ``[N, 128]``: a row
    for each second, up to 300 of a video. ``labels`` is a Ragged of int64.

    Source: https://research.google.com/youtube8m/download.html and google/youtube-8m,
    ``readers.py`` (``YT8MFrameFeatureReader``) and ``utils.py`` (``Dequantize``).

    Args:
        dequantize: Values as float32 from -2 to 2, as ``utils.Dequantize`` computes them; else
            uint8 as stored.
        id_key: The feature with the video's name: "id", before the version of 2018 "video_id".
        segments: Read the labels of segments (the version of 2019, validation and test):
            ``segment_start_times``, ``segment_end_times`` and ``segment_labels``, Raggeds of int64,
            and ``segment_scores``, one of float32.
    """
    context: dict[str, Any] = {id_key: _NAME, "labels": _LABELS}
    if segments:
        names = ("segment_start_times", "segment_end_times", "segment_labels")
        context |= dict.fromkeys(names, VarLenFeature("int64"))
        context["segment_scores"] = VarLenFeature("float32")
    sequence = {"rgb": _quantized(_RGB, dequantize), "audio": _quantized(_AUDIO, dequantize)}
    return Schema(context=context, sequence=sequence)


def audioset(*, dequantize: bool = True) -> Schema:
    """AudioSet, an embedding of each second of a clip: SequenceExamples.

    ``audio_embedding`` is a Ragged of values ``[N, 128]`` over clips, ``labels`` one of int64;
    ``start_time_seconds`` and ``end_time_seconds`` are float32 ``[B]``.

    Source: https://research.google.com/audioset/download.html, "Features dataset"; quantized as
    YouTube-8M's audio is (tensorflow/models, ``research/audioset/vggish/vggish_postprocess.py``).

    Args:
        dequantize: As of :func:`youtube8m_frames`.
    """
    return Schema(
        context={
            "video_id": _NAME,
            "start_time_seconds": FixedLenFeature([], "float32"),
            "end_time_seconds": FixedLenFeature([], "float32"),
            "labels": _LABELS,
        },
        sequence={"audio_embedding": _quantized(_AUDIO, dequantize)},
    )


def _quantized(size: int, dequantize: bool) -> SequenceFeature:
    return SequenceFeature(
        RawFeature("uint8", [size], dequantize=_QUANTIZED if dequantize else None)
    )
