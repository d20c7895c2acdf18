"""Presets of datasets of video and audio features, which a network has computed."""

from __future__ import annotations

from typing import Any

from .._schema.schema import Schema
from .._schema.specs import FixedLenFeature, VarLenFeature
from .._schema.stored_specs import RawFeature, SequenceFeature

# Values of 0 and 255: min_quantized_value and max_quantized_value in readers.py of youtube-8m.
_QUANTIZED = (-2.0, 2.0)
_RGB, _AUDIO = 1024, 128
_LABELS = VarLenFeature("int64")
_NAME = FixedLenFeature([], "string")


def youtube8m_video(*, id_key: str = "id") -> Schema:
    """Return the schema of YouTube-8M on the level of videos: means of the features of all frames.

    ``mean_rgb`` is float32 ``[B, 1024]``, ``mean_audio`` is float32 ``[B, 128]``, and ``labels`` is
    a Ragged of int64.

    Source: https://research.google.com/youtube8m/download.html and google/youtube-8m,
    ``readers.py`` (``YT8MAggregatedFeatureReader``).

    Args:
        id_key: Name of the feature with the name of the video: "id", or "video_id" before the
            version of 2018. Default: "id".
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
    """Return the schema of YouTube-8M on the level of frames (SequenceExamples).

    ``rgb`` is a Ragged of values ``[N, 1024]`` and ``audio`` a Ragged of values ``[N, 128]``. Each
    row is a video, with one value for each second, at most 300. ``labels`` is a Ragged of int64.

    Source: https://research.google.com/youtube8m/download.html and google/youtube-8m,
    ``readers.py`` (``YT8MFrameFeatureReader``) and ``utils.py`` (``Dequantize``).

    Args:
        dequantize: Whether to convert values to float32 from -2 to 2, as ``utils.Dequantize`` does.
            Otherwise they are uint8 as stored. Default: True.
        id_key: Name of the feature with the name of the video: "id", or "video_id" before the
            version of 2018. Default: "id".
        segments: Whether to read the labels of segments, which the validation and test data of 2019
            has: ``segment_start_times``, ``segment_end_times`` and ``segment_labels``, Raggeds of
            int64, and ``segment_scores``, a Ragged of float32. Default: False.
    """
    context: dict[str, Any] = {id_key: _NAME, "labels": _LABELS}
    if segments:
        names = ("segment_start_times", "segment_end_times", "segment_labels")
        context |= dict.fromkeys(names, VarLenFeature("int64"))
        context["segment_scores"] = VarLenFeature("float32")
    sequence = {"rgb": _quantized(_RGB, dequantize), "audio": _quantized(_AUDIO, dequantize)}
    return Schema(context=context, sequence=sequence)


def audioset(*, dequantize: bool = True) -> Schema:
    """Return the schema of AudioSet: an embedding of each second of a clip (SequenceExamples).

    ``audio_embedding`` is a Ragged of values ``[N, 128]``, where each row is a clip. ``labels`` is
    a Ragged of int64. ``start_time_seconds`` and ``end_time_seconds`` are float32 ``[B]``.

    Source: https://research.google.com/audioset/download.html, "Features dataset". Values are
    quantized like the audio of YouTube-8M (tensorflow/models,
    ``research/audioset/vggish/vggish_postprocess.py``).

    Args:
        dequantize: Whether to convert values to float32 from -2 to 2. Otherwise they are uint8 as
            stored. Default: True.
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
