"""Conversion of features.json to connectors, for every layout that TFDS has written.

The current layout is the proto ``tensorflow_datasets.Feature`` as JSON: ``pythonClassName``, and
one member such as ``image`` with the arguments of the connector. The first layout had ``type`` and
``content``. A later one had ``type``, ``content`` and ``proto_cls``, with the JSON of the proto as
the content. See ``FeatureConnector.from_json`` and the ``from_json_content`` of each connector
(TFDS 4.9).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from .._schema.bounded_json import shown
from .._schema.dtypes import MOST_VALUES, RAW_DTYPES, dtype_name
from .._storage.location import Location
from ..errors import SchemaError
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
_MOST_DIMENSIONS = 64  # the limit of NumPy
_MOST_SIZE = 2**31 - 1  # of one dimension
_MOST_RATE = 2**31 - 1
_ENCODINGS = ("none", "bytes", "zlib")
_BBOX_FORMATS = ("XYXY", "YXYX", "XYWH", "REL_XYXY", "REL_YXYX")
# Members of a Feature proto. A proto has at most one of them.
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


def read_features(directory: Location) -> Connector | None:
    """Read the connectors of a dataset's directory, with the names of classes.

    Returns:
        The connectors, or None if the file does not exist.

    Raises:
        SchemaError: If the file is not valid for any connector of TFDS.
        OSError: If a file cannot be read.
    """
    try:
        node = read_json(directory.child(FEATURES_FILE), _MOST_BYTES)
    except FileNotFoundError:
        return None
    return parse_features(node, directory)


def parse_features(node: Node, directory: Location) -> Connector:
    """Convert JSON to connectors.

    Args:
        node: The JSON.
        directory: Directory of the dataset, which has the names of classes.

    Raises:
        SchemaError: If the JSON is not valid for any connector of TFDS.
    """
    return _Parser(Labels(directory), None, 0).feature(node)


@dataclass(frozen=True)
class _Parser:
    """Parser of one feature in the tree of features.

    Attributes:
        labels: Names of classes of the dataset.
        file_name: Prefix of the names of the feature's metadata files; None for the root.
        depth: Number of connectors that contain the feature.
    """

    labels: Labels
    file_name: str | None
    depth: int

    def feature(self, node: Node) -> Connector:
        """Return the connector, with the connectors in it."""
        if self.depth >= _MOST_NESTED:
            raise node.error(f"features must not be nested more than {_MOST_NESTED} levels deep")
        legacy = node.get("type")
        name = legacy or node.need("python_class_name")
        content, is_proto = _find_content(node, is_legacy=legacy is not None)
        class_name = name.as_text()
        module, _, short = class_name.rpartition(".")
        make = _CONNECTORS.get(short) if module.split(".")[0] == "tensorflow_datasets" else None
        made = Unknown(class_name=class_name) if make is None else make(self, content, is_proto)
        return replace(
            made, description=node.text("description"), value_range=node.text("value_range")
        )

    def child(self, name: str) -> _Parser:
        """Return the parser of a feature of this dict.

        Names of files are those of ``convert_feature_name_to_filename`` in TFDS.
        """
        file_name = name.replace("/", ".")
        if self.file_name is not None:
            file_name = f"{self.file_name}-{file_name}"
        return _Parser(self.labels, file_name, self.depth + 1)


def _find_content(node: Node, *, is_legacy: bool) -> tuple[Node, bool]:
    """Return the arguments of a connector.

    Returns:
        JSON of the arguments, and whether it is a proto, where missing members have the defaults of
        the proto.
    """
    if is_legacy:
        content = node.get("content") or Node({}, node.path, node.where)
        if isinstance(content.value, str):
            content = content.inner()
        return content, bool(node.text("proto_cls"))
    found = [inner for name in _CONTENTS if (inner := node.get(name)) is not None]
    if len(found) > 1:
        raise found[1].error("a feature must have only one kind of content")
    if not found:
        return Node({}, node.path, node.where), True
    if found[0].where.rpartition(".")[2] in ("jsonFeature", "json_feature"):
        return found[0].need("json").inner(), False
    return found[0], True


# ---- connectors ----


def _parse_features_dict(parser: _Parser, node: Node, is_proto: bool) -> Connector:
    if is_proto:
        node = node.get("features") or Node({}, node.path, node.where)
    features = {}
    for name, feature in node.members():
        if not name:
            raise feature.error("the name of a feature must not be empty")
        features[name] = parser.child(name).feature(feature)
    return FeaturesDict(features=features)


def _parse_tensor(_: _Parser, node: Node, __: bool) -> Connector:
    return _make_tensor(node, _parse_shape(node))


def _parse_scalar(_: _Parser, node: Node, __: bool) -> Connector:
    return _make_tensor(node, ())


def _make_tensor(node: Node, shape: TfdsShape) -> Tensor:
    dtype = _parse_dtype(node)
    encoding = _parse_choice(node, "encoding", _ENCODINGS, str.lower) or "none"
    if dtype == "string" and encoding != "none":
        raise node.error(f"the encoding of strings must be 'none', got {encoding!r}")
    return Tensor(shape=shape, dtype=dtype, encoding=encoding, optional=node.flag("optional"))


def _parse_text(_: _Parser, node: Node, is_proto: bool) -> Connector:
    if not is_proto and node.get("use_encoder") is not None:
        return Text(shape=(None,), dtype="int64", has_encoder=True)
    return Text()


def _parse_class_label(parser: _Parser, node: Node, _: bool) -> Connector:
    count = node.whole("num_classes", 0, _MOST_SIZE) or None
    return ClassLabel(num_classes=count, names=parser.labels.find(parser.file_name, count, node))


def _parse_image(_: _Parser, node: Node, __: bool) -> Connector:
    return _make_image(node, _parse_shape(node))


def _parse_labeled_image(parser: _Parser, node: Node, _: bool) -> Connector:
    shape = _parse_shape(node) or (None, None, 1)
    label = node.get("label")
    owner, name = (node, "labels") if label is None else (label, "num_classes")
    count = owner.whole(name, 0, _MOST_SIZE) or None
    names = parser.labels.find(parser.file_name, count, node)
    return replace(_make_image(node, shape), names=names)


def _make_image(node: Node, shape: TfdsShape) -> Image:
    shape = shape or (None, None, 3)
    if len(shape) not in (3, 4) or shape[-1] not in (None, 0, 1, 2, 3, 4):
        raise node.error(
            "the shape of an image must be (height, width, channels) or (frames, height, width, "
            f"channels) with 0 to 4 channels, got {list(shape)}"
        )
    dtype = _parse_choice(node, "dtype", ("uint8", "uint16", "float32")) or "uint8"
    if dtype == "float32" and shape[-1] != 1:
        raise node.error(f"an image of float32 must have one channel, got {shape[-1]}")
    form = _parse_choice(node, "encoding_format", ("png", "jpeg"))
    return Image(shape=shape, dtype=dtype, encoding_format=form)


def _parse_video(_: _Parser, node: Node, __: bool) -> Connector:
    shape = _parse_shape(node) or (None, None, None, 3)
    if len(shape) != 4:
        raise node.error(f"the shape of a video must have 4 dimensions, got {list(shape)}")
    return Video(feature=_make_image(node, shape[1:]), length=shape[0])


def _parse_audio(_: _Parser, node: Node, __: bool) -> Connector:
    shape = _parse_shape(node)
    if not 1 <= len(shape) <= 2:
        raise node.error(
            f"the shape of audio must be (length) or (length, channels), got {list(shape)}"
        )
    made = _make_tensor(node, shape)
    return Audio(
        shape=shape,
        dtype=made.dtype,
        encoding=made.encoding,
        file_format=node.text("file_format") or None,
        sample_rate=node.whole("sample_rate", 0, _MOST_RATE) or None,
        lazy_decode=node.flag("lazy_decode"),
    )


def _parse_bbox(_: _Parser, node: Node, is_proto: bool) -> Connector:
    found = _parse_choice(node, "bbox_format", _BBOX_FORMATS)
    return BBox(bbox_format=found or (None if is_proto else "REL_YXYX"))


def _parse_translation(_: _Parser, node: Node, __: bool) -> Connector:
    if node.get("use_encoder") is not None:
        raise node.error("TFDS cannot read a translation with an encoder")
    languages = [language.as_text() for language in node.need("languages").items()]
    if not all(languages) or len(set(languages)) < len(languages):
        raise node.error(f"languages must have different names, got {shown(languages)}")
    return Translation(features={language: Text() for language in languages})


def _parse_translations(_: _Parser, __: Node, ___: bool) -> Connector:
    inner = FeaturesDict(features={"language": Text(), "translation": Text()})
    return TranslationVariableLanguages(feature=inner)


def _parse_sequence(
    parser: _Parser, node: Node, is_proto: bool, make: type[Sequence] = Sequence
) -> Connector:
    inner = replace(parser, depth=parser.depth + 1)  # elements have no name of their own
    feature = inner.feature(node.need("feature"))
    # The JSON of a proto omits 0, and -1 stands for an unknown length.
    length = node.whole("length", -1, _MOST_SIZE, 0 if is_proto else None)
    return make(feature=feature, length=None if length == -1 else length)


_CONNECTORS: Mapping[str, Callable[[_Parser, Node, bool], Connector]] = {
    "FeaturesDict": _parse_features_dict,
    "Tensor": _parse_tensor,
    "Scalar": _parse_scalar,
    "Text": _parse_text,
    "ClassLabel": _parse_class_label,
    "Image": _parse_image,
    "LabeledImage": _parse_labeled_image,
    "BBoxFeature": _parse_bbox,
    "BBox": _parse_bbox,
    "Audio": _parse_audio,
    "Video": _parse_video,
    "Sequence": _parse_sequence,
    "Dataset": partial(_parse_sequence, make=Dataset),
    "Translation": _parse_translation,
    "TranslationVariableLanguages": _parse_translations,
}


# ---- values ----


def _parse_shape(node: Node) -> TfdsShape:
    found = node.get("shape")
    if found is not None and isinstance(found.value, dict):
        found = found.get("dimensions")
    if found is None:
        return ()
    if isinstance(found.value, list) and len(found.value) > _MOST_DIMENSIONS:
        raise found.error(
            f"a shape must have at most {_MOST_DIMENSIONS} dimensions, got {len(found.value)}"
        )
    sizes = tuple(_parse_size(item) for item in found.items())
    if math.prod(max(1, size or 1) for size in sizes) >= MOST_VALUES:
        raise found.error(f"values of the shape {shown(list(sizes))} do not fit in memory")
    return sizes


def _parse_size(node: Node) -> int | None:
    if node.value is None:
        return None
    size = node.as_whole(-1, _MOST_SIZE)
    return None if size == -1 else size


def _parse_dtype(node: Node) -> str:
    """Return the dtype. An unknown name is returned as it is: only this feature is unreadable."""
    found = node.need("dtype").as_text()
    try:
        return dtype_name(found, (*RAW_DTYPES, "string"))
    except SchemaError:
        return found


def _parse_choice(
    node: Node, name: str, choices: tuple[str, ...], change: Callable[[str], str] = str
) -> str | None:
    """Return a member that must be one of ``choices``; None if it is missing or empty."""
    found: Any = node.get(name)
    if found is None or not found.as_text():
        return None
    value = change(found.as_text())
    if value not in choices:
        raise found.error(f"must be one of {', '.join(choices)}, got {shown(found.value)}")
    return value
