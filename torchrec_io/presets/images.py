"""Images with labels, and with objects in them."""

from __future__ import annotations

from typing import Any

from ..schema.image_spec import ImageFeature
from ..schema.schema import Schema
from ..schema.specs import FixedLenFeature, VarLenFeature
from ..schema.stored_specs import SequenceFeature

_TEXT = FixedLenFeature([], "string", default_value="")
_NUMBERS, _FLOATS, _TEXTS = (
    VarLenFeature("int64"),
    VarLenFeature("float32"),
    VarLenFeature("string"),
)


def imagenet(image: ImageFeature | None = None) -> Schema:
    """ImageNet as Inception's scripts and TensorFlow's own write it (ILSVRC 2012).

    ``image/class/label`` is int64 ``[B]`` from 1 to 1000; 0 is for the background and not used.
    Boxes are Raggeds of float32 from 0 to 1. What some of the scripts leave out is empty:
    texts ``b""``, sizes 0, boxes of no rows. Not read are ``image/format``, ``image/colorspace``
    and ``image/channels``, which are the same everywhere.

    Source: tensorflow/models, ``research/inception/inception/data/build_imagenet_data.py``
    (``_convert_to_example``); the TPU scripts' ``imagenet_to_gcs.py`` (tensorflow/tpu,
    ``tools/datasets``) writes the same without texts and boxes.

    Args:
        image: How images are decoded; by default each of its own size, ``[3, H, W]`` of uint8.
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
    """Records of the TensorFlow Object Detection API: COCO, PASCAL VOC, Open Images, one's own.

    All that is of objects is Ragged, ``[B, (objects)]``; boxes are float32, from 0 to 1 of the
    image's height and width. What a dataset has none of is empty: rows of no values, texts ``b""``,
    sizes 1 (as the API's decoder has them).

    Source: tensorflow/models, ``research/object_detection/data_decoders/tf_example_decoder.py``
    (``TfExampleDecoder.keys_to_features``).

    Args:
        image: How images are decoded; by default each of its own size, ``[3, H, W]`` of uint8.
        masks: Read ``image/object/mask`` too, a PNG for each object: a list of B Tensors
            ``[objects, 1, H, W]`` of uint8. Masks may also be stored as numbers (the API's
            ``NUMERICAL_MASKS``): read these by a ``VarLenFeature("float32")`` of one's own.
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
    """Images in ``.tfrec`` files as Kaggle's competitions on TPUs have them.

    Source: the notebooks that Kaggle published with "Petals to the Metal"
    (https://www.kaggle.com/competitions/tpu-getting-started): ``id``, ``image`` and, but for tests,
    ``class``. Later competitions name theirs ``image_name``, ``image`` and ``target``.

    Args:
        image: How images are decoded; by default each of its own size, ``[3, H, W]`` of uint8.
        image_key: The feature with the image.
        label_key: The feature with the number of the class, int64 ``[B]``; None if there is none.
        id_key: The feature with the image's name, bytes ``[B]``; None if there is none.
    """
    features: dict[str, Any] = {image_key: image or ImageFeature()}
    if label_key is not None:
        features[label_key] = FixedLenFeature([], "int64")
    if id_key is not None:
        features[id_key] = FixedLenFeature([], "string")
    return Schema(features)
