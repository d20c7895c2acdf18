"""Presets of image datasets."""

from __future__ import annotations

from typing import Any

from .._schema.image_spec import ImageFeature
from .._schema.schema import Schema
from .._schema.specs import FixedLenFeature, VarLenFeature
from .._schema.stored_specs import SequenceFeature

_TEXT = FixedLenFeature([], "string", default_value="")
_NUMBERS, _FLOATS, _TEXTS = (
    VarLenFeature("int64"),
    VarLenFeature("float32"),
    VarLenFeature("string"),
)


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
    size = FixedLenFeature([], "int64", default_value=0)
    boxes = {f"image/object/bbox/{end}": _FLOATS for end in ("xmin", "xmax", "ymin", "ymax")}
    return Schema(
        {
            "image/encoded": image or ImageFeature(),
            "image/class/label": FixedLenFeature([], "int64"),
            "image/class/synset": _TEXT,
            "image/class/text": _TEXT,
            "image/filename": _TEXT,
            "image/height": size,
            "image/width": size,
            **boxes,
            "image/object/bbox/label": _NUMBERS,
        }
    )


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
    size = FixedLenFeature([], "int64", default_value=1)
    boxes = {f"image/object/bbox/{end}": _FLOATS for end in ("ymin", "xmin", "ymax", "xmax")}
    features: dict[str, Any] = {
        "image/encoded": image or ImageFeature(),
        "image/height": size,
        "image/width": size,
        "image/filename": _TEXT,
        "image/source_id": _TEXT,
        "image/key/sha256": _TEXT,
        **boxes,
        "image/object/class/label": _NUMBERS,
        "image/object/class/text": _TEXTS,
        "image/object/area": _FLOATS,
        "image/object/is_crowd": _NUMBERS,
        "image/object/difficult": _NUMBERS,
        "image/object/group_of": _NUMBERS,
        "image/object/weight": _FLOATS,
    }
    if masks:
        features["image/object/mask"] = SequenceFeature(ImageFeature(channels=1))
    return Schema(features)


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
    features: dict[str, Any] = {image_key: image or ImageFeature()}
    if label_key is not None:
        features[label_key] = FixedLenFeature([], "int64")
    if id_key is not None:
        features[id_key] = FixedLenFeature([], "string")
    return Schema(features)
