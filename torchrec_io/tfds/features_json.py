"""From features.json to connectors, in each layout that TFDS has written.

Today that is the proto ``tensorflow_datasets.Feature`` as JSON: ``pythonClassName``, and one member
such as ``image`` for what the connector needs. Before, ``type`` and ``content``, and in between
``type``, ``content`` and ``proto_cls`` with the proto's JSON as the content: see
``FeatureConnector.from_json`` and the ``from_json_content`` of each connector (TFDS 4.9).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..errors import SchemaError
from ..schema.bounded_json import shown
from ..schema.dtypes import MOST_VALUES, RAW_DTYPES, dtype_name
from .connectors import (
    Audio,
    BBox,
    ClassLabel,
    Connector,
    Dataset,
    FeaturesDict,
    Image,
    Sequence,
    Tensor,
    Text,
    TfdsShape,
    Translation,
    TranslationVariableLanguages,
    Unknown,
    Video,
)
from .json_text import Node, read_json
from .labels import Labels

FEATURES_FILE = "features.json"

_MOST_BYTES = 32 << 20
_MOST_NESTED = 64
_MOST_DIMENSIONS = 64  # as NumPy has it
_MOST_SIZE = 2**31 - 1  # of one dimension
_MOST_RATE = 2**31 - 1
_ENCODINGS = ("none", "bytes", "zlib")
_BBOX_FORMATS = ("XYXY", "YXYX", "XYWH", "REL_XYXY", "REL_YXYX")
# The members that a Feature proto has one of.
_CONTENTS = (
    "json_feature",
    "features_dict",
    "tensor",
    "class_label",
    "image",
    "video",
    "audio",
    "bounding_box",
    "text",
    "translation",
    "sequence",
)


def read_features(directory: str) -> Connector | None:
    """The connectors of a dataset's directory, with the names of classes; None without the file.

    Raises:
        SchemaError: the file says what no connector of TFDS can be.
        OSError: a file cannot be read.
    """
    try:
        node = read_json(os.path.join(directory, FEATURES_FILE), _MOST_BYTES)
    except FileNotFoundError:
        return None
    return parse_features(node, Labels(directory))


def parse_features(node: Node, labels: Labels) -> Connector:
    """The connectors that JSON says.

    Raises:
        SchemaError: it says what no connector of TFDS can be.
    """
    return _Place(labels, None, 0).feature(node)


class _Content(NamedTuple):
    """What a connector says of itself.

    Attributes:
        node: That.
        is_proto: Whether it is a proto's JSON: what is not there has the proto's default.
    """

    node: Node
    is_proto: bool


@dataclass(frozen=True)
class _Place:
    """Where in the tree of features this is.

    Attributes:
        labels: Finds the names of classes.
        file_name: What files of this feature's metadata are called by; None at the top.
        depth: How many connectors are around it.
    """

    labels: Labels
    file_name: str | None
    depth: int

    def feature(self, node: Node) -> Connector:
        """A connector, and those in it."""
        if self.depth >= _MOST_NESTED:
            raise node.error(f"features are nested more than {_MOST_NESTED} deep")
        legacy = node.get("type")
        name = legacy or node.need("python_class_name")
        content = _content_of(node, is_legacy=legacy is not None)
        class_name = name.as_text()
        module, _, short = class_name.rpartition(".")
        make = _CONNECTORS.get(short) if module.split(".")[0] == "tensorflow_datasets" else None
        made = Unknown(class_name=class_name) if make is None else make(self, content)
        return replace(
            made, description=node.text("description"), value_range=node.text("value_range")
        )

    def child(self, name: str) -> _Place:
        """The place of a feature of this dict: as ``convert_feature_name_to_filename`` has it."""
        file_name = name.replace("/", ".")
        if self.file_name is not None:
            file_name = f"{self.file_name}-{file_name}"
        return _Place(self.labels, file_name, self.depth + 1)

    def element(self) -> _Place:
        """The place of what there are several of, which has no name of its own."""
        return replace(self, depth=self.depth + 1)

    def names(self, node: Node, num_classes: int | None) -> tuple[str, ...] | None:
        """The names of classes."""
        return self.labels.find(self.file_name, num_classes, node)


def _content_of(node: Node, *, is_legacy: bool) -> _Content:
    if is_legacy:
        content = node.get("content") or Node({}, node.path, node.where)
        if isinstance(content.value, str):
            content = content.inner()
        return _Content(content, bool(node.text("proto_cls")))
    found = [inner for name in _CONTENTS if (inner := node.get(name)) is not None]
    if len(found) > 1:
        raise found[1].error("a feature is of one kind only")
    if not found:
        return _Content(Node({}, node.path, node.where), is_proto=True)
    if found[0].where.rpartition(".")[2] in ("jsonFeature", "json_feature"):
        return _Content(found[0].need("json").inner(), is_proto=False)
    return _Content(found[0], is_proto=True)


# ---- connectors ----


def _features_dict(place: _Place, content: _Content) -> Connector:
    node = content.node
    if content.is_proto:
        node = node.get("features") or Node({}, node.path, node.where)
    features = {name: _named(place, name, feature) for name, feature in node.members()}
    return FeaturesDict(features=features)


def _named(place: _Place, name: str, node: Node) -> Connector:
    if not name:
        raise node.error("a feature has no name")
    return place.child(name).feature(node)


def _tensor(_: _Place, content: _Content) -> Connector:
    return _tensor_of(content.node, _shape(content.node))


def _scalar(_: _Place, content: _Content) -> Connector:
    return _tensor_of(content.node, ())


def _tensor_of(node: Node, shape: TfdsShape) -> Tensor:
    dtype = _dtype(node)
    encoding = _choice(node, "encoding", _ENCODINGS, str.lower) or "none"
    if dtype == "string" and encoding != "none":
        raise node.error(f"strings have no encoding such as {encoding!r}")
    return Tensor(shape=shape, dtype=dtype, encoding=encoding, optional=node.flag("optional"))


def _text(_: _Place, content: _Content) -> Connector:
    if not content.is_proto and content.node.get("use_encoder") is not None:
        return Text(shape=(None,), dtype="int64", has_encoder=True)
    return Text()


def _class_label(place: _Place, content: _Content) -> Connector:
    count = content.node.whole("num_classes", 0, _MOST_SIZE) or None
    return ClassLabel(num_classes=count, names=place.names(content.node, count))


def _image(_: _Place, content: _Content) -> Connector:
    return _image_of(content.node, _shape(content.node))


def _labeled_image(place: _Place, content: _Content) -> Connector:
    node = content.node
    shape = _shape(node) or (None, None, 1)
    label = node.get("label")
    if label is not None:
        count = label.whole("num_classes", 0, _MOST_SIZE)
    else:
        count = node.whole("labels", 0, _MOST_SIZE)
    return replace(_image_of(node, shape), names=place.names(node, count or None))


def _image_of(node: Node, shape: TfdsShape) -> Image:
    shape = shape or (None, None, 3)
    if len(shape) not in (3, 4) or shape[-1] not in (None, 0, 1, 2, 3, 4):
        raise node.error(
            "an image has the shape (height, width, channels), of 0 to 4 channels, or one more for "
            f"frames, not {list(shape)}"
        )
    dtype = _choice(node, "dtype", ("uint8", "uint16", "float32")) or "uint8"
    if dtype == "float32" and shape[-1] != 1:
        raise node.error(f"an image of float32 has one channel, not {shape[-1]}")
    form = _choice(node, "encoding_format", ("png", "jpeg"))
    return Image(shape=shape, dtype=dtype, encoding_format=form)


def _video(_: _Place, content: _Content) -> Connector:
    shape = _shape(content.node) or (None, None, None, 3)
    if len(shape) != 4:
        raise content.node.error(f"a video has four dimensions, not {list(shape)}")
    return Video(feature=_image_of(content.node, shape[1:]), length=shape[0])


def _audio(_: _Place, content: _Content) -> Connector:
    node = content.node
    shape = _shape(node)
    if not 1 <= len(shape) <= 2:
        raise node.error(f"audio has the shape (length) or (length, channels), not {list(shape)}")
    made = _tensor_of(node, shape)
    return Audio(
        shape=shape,
        dtype=made.dtype,
        encoding=made.encoding,
        file_format=node.text("file_format") or None,
        sample_rate=node.whole("sample_rate", 0, _MOST_RATE) or None,
        lazy_decode=node.flag("lazy_decode"),
    )


def _bbox(_: _Place, content: _Content) -> Connector:
    found = _choice(content.node, "bbox_format", _BBOX_FORMATS)
    return BBox(bbox_format=found or (None if content.is_proto else "REL_YXYX"))


def _translation(_: _Place, content: _Content) -> Connector:
    node = content.node
    if node.get("use_encoder") is not None:
        raise node.error("a translation with an encoder is read by no TFDS")
    languages = [language.as_text() for language in node.need("languages").items()]
    if not all(languages) or len(set(languages)) < len(languages):
        raise node.error(f"languages must each have a name of its own: {shown(languages)}")
    return Translation(features={language: Text() for language in languages})


def _translations(_: _Place, __: _Content) -> Connector:
    inner = FeaturesDict(features={"language": Text(), "translation": Text()})
    return TranslationVariableLanguages(feature=inner)


def _sequence(place: _Place, content: _Content) -> Connector:
    return Sequence(feature=_element(place, content), length=_length(content))


def _dataset(place: _Place, content: _Content) -> Connector:
    return Dataset(feature=_element(place, content), length=_length(content))


def _element(place: _Place, content: _Content) -> Connector:
    return place.element().feature(content.node.need("feature"))


def _length(content: _Content) -> int | None:
    # A proto leaves out what is 0; and -1 is no length.
    default = 0 if content.is_proto else None
    length = content.node.whole("length", -1, _MOST_SIZE, default)
    return None if length == -1 else length


_CONNECTORS: Mapping[str, Callable[[_Place, _Content], Connector]] = {
    "FeaturesDict": _features_dict,
    "Tensor": _tensor,
    "Scalar": _scalar,
    "Text": _text,
    "ClassLabel": _class_label,
    "Image": _image,
    "LabeledImage": _labeled_image,
    "BBoxFeature": _bbox,
    "BBox": _bbox,
    "Audio": _audio,
    "Video": _video,
    "Sequence": _sequence,
    "Dataset": _dataset,
    "Translation": _translation,
    "TranslationVariableLanguages": _translations,
}


# ---- values ----


def _shape(node: Node) -> TfdsShape:
    found = node.get("shape")
    if found is not None and isinstance(found.value, dict):
        found = found.get("dimensions")
    if found is None:
        return ()
    if isinstance(found.value, list) and len(found.value) > _MOST_DIMENSIONS:
        raise found.error(f"a shape of more than {_MOST_DIMENSIONS} dimensions")
    sizes = tuple(_size(item) for item in found.items())
    if math.prod(max(1, size or 1) for size in sizes) >= MOST_VALUES:
        raise found.error(f"no memory holds values of the shape {shown(list(sizes))}")
    return sizes


def _size(node: Node) -> int | None:
    if node.value is None:
        return None
    size = node.as_whole(-1, _MOST_SIZE)
    return None if size == -1 else size


def _dtype(node: Node) -> str:
    """As written if there is none of that name here: the feature cannot be read, others can."""
    found = node.need("dtype").as_text()
    try:
        return dtype_name(found, (*RAW_DTYPES, "string"))
    except SchemaError:
        return found


def _choice(
    node: Node, name: str, choices: tuple[str, ...], change: Callable[[str], str] = str
) -> str | None:
    """A member that is one of some words; None if it is not there, or empty."""
    found: Any = node.get(name)
    if found is None or not found.as_text():
        return None
    value = change(found.as_text())
    if value not in choices:
        raise found.error(f"it must be one of {', '.join(choices)}, not {shown(found.value)}")
    return value
