"""Presets, the schemas of well-known datasets. Their features are in ``layouts.json``."""

from __future__ import annotations

from .._schema.image_spec import ImageFeature
from .._schema.schema import Schema
from .layouts import schema_of


def imagenet(image: ImageFeature | None = None) -> Schema:
    """Return the schema of ImageNet (ILSVRC 2012), as scripts of Inception and TensorFlow write it.

    ``image/class/label`` is int64 ``[B]``, from 1 to 1000; 0 stands for the background and is not
    used. Boxes are Raggeds of float32 from 0 to 1. Features that some of the scripts do not write
    are empty: texts are ``b""``, sizes are 0, and boxes have no rows. The schema leaves out
    ``image/format``, ``image/colorspace`` and ``image/channels``, which never vary.

    Source: tensorflow/models, ``research/inception/inception/data/build_imagenet_data.py``
    (``_convert_to_example``). The TPU scripts' ``imagenet_to_gcs.py`` (tensorflow/tpu,
    ``tools/datasets``) writes the same features without texts and boxes.

    Args:
        image: Spec of the images. Default: ``ImageFeature()``, which decodes each image in its own
            size, uint8 ``[3, H, W]``.
    """
    return schema_of("imagenet", image=image)


def object_detection(image: ImageFeature | None = None, *, masks: bool = False) -> Schema:
    """Return the schema of the TensorFlow Object Detection API, for COCO and similar datasets.

    PASCAL VOC, Open Images and custom datasets have the same features. Features of objects are
    Ragged, with a row of objects for each image. Boxes are float32, from 0 to 1, relative to the
    height and width of the image. Features that a dataset does not have are empty: Raggeds have no
    values, texts are ``b""``, and sizes are 1, as in the decoder of the API.

    Source: tensorflow/models, ``research/object_detection/data_decoders/tf_example_decoder.py``
    (``TfExampleDecoder.keys_to_features``).

    Args:
        image: Spec of the images. Default: ``ImageFeature()``, which decodes each image in its own
            size, uint8 ``[3, H, W]``.
        masks: Whether to read ``image/object/mask``, a PNG for each object, as a list of B Tensors
            ``[objects, 1, H, W]`` of uint8. Masks that are stored as numbers (the API's
            ``NUMERICAL_MASKS``) need a ``VarLenFeature("float32")`` instead. Default: False.
    """
    return schema_of("object_detection", image=image, masks=masks)


def kaggle_images(
    image: ImageFeature | None = None,
    *,
    image_key: str = "image",
    label_key: str | None = "class",
    id_key: str | None = "id",
) -> Schema:
    """Return the schema of images in ``.tfrec`` files of Kaggle's competitions on TPUs.

    Source: the notebooks that Kaggle published with "Petals to the Metal"
    (https://www.kaggle.com/competitions/tpu-getting-started). They have the features ``id``,
    ``image`` and, except in test data, ``class``. Later competitions use the names ``image_name``,
    ``image`` and ``target``.

    Args:
        image: Spec of the images. Default: ``ImageFeature()``, which decodes each image in its own
            size, uint8 ``[3, H, W]``.
        image_key: Name of the feature with the image. Default: "image".
        label_key: Name of the feature with the class number, int64 ``[B]``, or None for data
            without it. Default: "class".
        id_key: Name of the feature with the name of the image, bytes ``[B]``, or None for data
            without it. Default: "id".
    """
    return schema_of(
        "kaggle_images", image=image, image_key=image_key, label_key=label_key, id_key=id_key
    )


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
    return schema_of("youtube8m_video", id_key=id_key)


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
    return schema_of("youtube8m_frames", dequantize=dequantize, id_key=id_key, segments=segments)


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
    return schema_of("audioset", dequantize=dequantize)


def nsynth() -> Schema:
    """Return the schema of NSynth, a dataset of musical notes.

    ``audio`` is float32 ``[B, 64000]`` from -1 to 1, ``qualities`` is int64 ``[B, 10]`` of 0 and 1,
    and ``qualities_str`` is a Ragged of bytes. All other features have one value: bytes if the name
    ends in "_str", otherwise int64.

    Source: https://magenta.tensorflow.org/datasets/nsynth ("Example features") and magenta,
    ``magenta/models/nsynth/reader.py``.
    """
    return schema_of("nsynth")


def waymo_motion(*, roadgraph_points: int = 30_000, future: bool = True) -> Schema:
    """Return the schema of the Waymo Open Motion Dataset as ``tf.Example``.

    | features | column |
    | --- | --- |
    | ``state/{past,current,future}/...`` | ``[B, 128, steps]`` of 10, 1 and 80 steps |
    | other ``state/...`` | ``[B, 128]``, one value for each object |
    | ``traffic_light_state/{past,current}/...`` | ``[B, steps, 16]`` of 10 and 1 steps |
    | ``roadgraph_samples/...`` | ``[B, points, 3]`` or ``[B, points, 1]`` |
    | ``scenario/id`` | bytes ``[B]`` |

    Coordinates and sizes (meters), yaws (radians), velocities (meters per second), directions,
    ``state/id`` and ``state/type`` are float32; other numbers are int64. Invalid values are -1.
    Like the tutorial, the schema leaves out ``state/difficulty_level``, ``state/.../speed``,
    ``traffic_light_state/.../timestamp_micros`` and the traffic lights of the future.

    Source: https://waymo.com/open/data/motion/tfexample and waymo-research/waymo-open-dataset,
    ``tutorial/tutorial_motion.ipynb``.

    Args:
        roadgraph_points: Number of map samples in each record: 30,000 since version 1.2, 20,000
            before. Default: 30,000.
        future: Whether to read the objects after the current step. Test data does not have them.
            Default: True.
    """
    return schema_of("waymo_motion", roadgraph_points=roadgraph_points, future=future)


def bert_pretraining(max_seq_length: int = 128, max_predictions_per_seq: int = 20) -> Schema:
    """Return the schema of the records of BERT's ``create_pretraining_data.py``.

    The records are for masked words and next sentences. Features of tokens are
    ``[B, max_seq_length]``, features of masked tokens are ``[B, max_predictions_per_seq]``, and
    ``next_sentence_labels`` is ``[B, 1]``. ``masked_lm_weights`` is float32; all others are int64.

    Source: google-research/bert, ``run_pretraining.py`` (``input_fn_builder``). The defaults are
    those of its flags.

    Args:
        max_seq_length: Number of tokens of each record, including padding. Default: 128.
        max_predictions_per_seq: Number of masked tokens of each record, including padding.
            Default: 20.
    """
    return schema_of(
        "bert_pretraining",
        max_seq_length=max_seq_length,
        max_predictions_per_seq=max_predictions_per_seq,
    )
