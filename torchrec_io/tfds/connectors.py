"""Feature connectors of TFDS, which describe the features of a dataset.

The classes are those of ``tensorflow_datasets.core.features`` (TFDS 4.9), without the attributes
that only writing needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

TfdsShape: TypeAlias = "tuple[int | None, ...]"


@dataclass(frozen=True, kw_only=True)
class Connector:
    """Base class of connectors.

    Attributes:
        description: Description of the feature by the dataset's author.
        value_range: Description of the values.
    """

    description: str = ""
    value_range: str = ""

    def leaves(self, name: str = "", around: tuple[Sequence, ...] = ()) -> Iterator[Leaf]:
        """Yield the connectors that contain no other connectors.

        Args:
            name: Flat name of this connector.
            around: Sequences that contain this connector, from the outermost to the innermost.
        """
        yield Leaf(name, around, self)

    def nested_datasets(self, name: str = "") -> Iterator[str]:
        """Yield the flat names of nested datasets, without those inside sequences.

        Args:
            name: Flat name of this connector.
        """
        del name
        yield from ()


class Leaf(NamedTuple):
    """A connector that contains no other connectors.

    Attributes:
        name: Flat name: its name and those of the dicts that contain it, joined by "/".
        around: Sequences that contain it, from the outermost to the innermost.
        feature: The connector.
    """

    name: str
    around: tuple[Sequence, ...]
    feature: Connector


@dataclass(frozen=True, kw_only=True)
class FeaturesDict(Connector):
    """A dict of features.

    Attributes:
        features: Connectors by name.
    """

    features: Mapping[str, Connector]

    def leaves(self, name: str = "", around: tuple[Sequence, ...] = ()) -> Iterator[Leaf]:
        for key, feature in self.features.items():
            yield from feature.leaves(f"{name}/{key}" if name else key, around)

    def nested_datasets(self, name: str = "") -> Iterator[str]:
        for key, feature in self.features.items():
            yield from feature.nested_datasets(f"{name}/{key}" if name else key)


class Translation(FeaturesDict):
    """A text in several languages: a :class:`Text` for each language."""


@dataclass(frozen=True, kw_only=True)
class Tensor(Connector):
    """Values of one dtype. With shape ``()``, this is also TFDS's ``Scalar``.

    Attributes:
        shape: Shape; None for a dimension that is not known.
        dtype: Name of the dtype; "string" for bytes.
        encoding: "none", or "bytes" or "zlib" if values are stored as the bytes of their elements.
        optional: Whether records may lack the feature.
    """

    shape: TfdsShape
    dtype: Any
    encoding: str = "none"
    optional: bool = False


@dataclass(frozen=True, kw_only=True)
class Text(Tensor):
    """A text in UTF-8, or in old datasets the numbers of its tokens.

    Attributes:
        has_encoder: Whether the numbers of tokens are stored.
    """

    shape: TfdsShape = ()
    dtype: Any = "string"
    has_encoder: bool = False


@dataclass(frozen=True, kw_only=True)
class ClassLabel(Tensor):
    """The number of a class, or -1 for no class.

    Attributes:
        num_classes: Number of classes; None if it is not known.
        names: Names of the classes, if known. Unnamed classes are called "0", "1" and so on.
    """

    shape: TfdsShape = ()
    dtype: Any = "int64"
    num_classes: int | None = None
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class BBox(Tensor):
    """A bounding box: four coordinates.

    Attributes:
        bbox_format: "YXYX", "XYXY" or "XYWH" for pixels; "REL_YXYX" (the usual format) or
            "REL_XYXY" for numbers from 0 to 1; None if it is not known.
    """

    shape: TfdsShape = (4,)
    dtype: Any = "float32"
    bbox_format: str | None = None


@dataclass(frozen=True, kw_only=True)
class Audio(Tensor):
    """Audio samples of one channel ``[length]`` or several channels ``[length, channels]``.

    Attributes:
        file_format: Format of the audio file, such as "flac"; None if it is not known.
        sample_rate: Samples per second; None if it is not known.
        lazy_decode: Whether the encoded audio file is stored instead of its samples.
    """

    file_format: str | None = None
    sample_rate: int | None = None
    lazy_decode: bool = False


@dataclass(frozen=True, kw_only=True)
class Image(Connector):
    """An encoded image.

    Attributes:
        shape: ``(height, width, channels)``, or ``(frames, height, width, channels)`` for an
            animated GIF; None for a dimension that is not known. If channels is None or 0, images
            have their stored number of channels.
        dtype: "uint8" or "uint16"; or "float32" for a PNG whose four channels are the bytes of a
            float.
        encoding_format: "png" or "jpeg"; None if it is not known.
        names: Names of the classes that the pixels of a ``LabeledImage`` stand for.
    """

    shape: TfdsShape
    dtype: Any = "uint8"
    encoding_format: str | None = None
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Sequence(Connector):
    """A sequence of values of one feature.

    Attributes:
        feature: Connector of the elements.
        length: Number of elements; None if it varies.
    """

    feature: Connector
    length: int | None = None

    def leaves(self, name: str = "", around: tuple[Sequence, ...] = ()) -> Iterator[Leaf]:
        yield from self.feature.leaves(name, (*around, self))


class TranslationVariableLanguages(Sequence):
    """Texts in several languages, with the language of each text."""


class Video(Sequence):
    """A sequence of frames, each an :class:`Image`."""


class Dataset(Sequence):
    """A nested dataset, such as the steps of an episode. It is stored like a Sequence."""

    def nested_datasets(self, name: str = "") -> Iterator[str]:
        yield name


@dataclass(frozen=True, kw_only=True)
class Unknown(Connector):
    """A connector that is not part of TFDS. Only its own code knows what it stores.

    Attributes:
        class_name: Full name of the class of the connector.
    """

    class_name: str
