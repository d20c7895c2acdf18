"""What features.json says of each feature: TFDS's feature connectors, without their code.

The classes are those of ``tensorflow_datasets.core.features`` (version 4.9), less what only writing
needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

TfdsShape: TypeAlias = "tuple[int | None, ...]"


@dataclass(frozen=True, kw_only=True)
class Connector:
    """Base of all connectors.

    Attributes:
        description: What the dataset's author says of the feature.
        value_range: What values it takes, in words.
    """

    description: str = ""
    value_range: str = ""

    def leaves(self) -> Iterator[Leaf]:
        """The connectors that hold no others."""
        yield from _leaves(self, "", ())


class Leaf(NamedTuple):
    """A connector that holds no others.

    Attributes:
        name: Of it and of the dicts around it, joined by "/".
        around: The sequences around it, the outermost first.
        feature: The connector.
    """

    name: str
    around: tuple[Sequence, ...]
    feature: Connector


@dataclass(frozen=True, kw_only=True)
class FeaturesDict(Connector):
    """Features by name.

    Attributes:
        features: By name.
    """

    features: Mapping[str, Connector]


@dataclass(frozen=True, kw_only=True)
class Translation(FeaturesDict):
    """A text in each of some languages: a :class:`Text` each."""


@dataclass(frozen=True, kw_only=True)
class Tensor(Connector):
    """Values of one dtype; with shape ``()`` what TFDS calls a Scalar.

    Attributes:
        shape: None where a dimension is not known.
        dtype: Its name; "string" for bytes.
        encoding: "none"; "bytes" or "zlib": stored as the bytes of the elements.
        optional: Whether records may lack it.
    """

    shape: TfdsShape
    dtype: str
    encoding: str = "none"
    optional: bool = False


@dataclass(frozen=True, kw_only=True)
class Text(Tensor):
    """A text, in UTF-8; or, as old datasets have it, the numbers of its tokens.

    Attributes:
        has_encoder: Whether it is numbers.
    """

    shape: TfdsShape = ()
    dtype: str = "string"
    has_encoder: bool = False


@dataclass(frozen=True, kw_only=True)
class ClassLabel(Tensor):
    """The number of a class; -1 for none.

    Attributes:
        num_classes: None if not known.
        names: Of the classes, if known; without names of their own, "0", "1" and so on.
    """

    shape: TfdsShape = ()
    dtype: str = "int64"
    num_classes: int | None = None
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class BBox(Tensor):
    """A box: four coordinates.

    Attributes:
        bbox_format: "YXYX", "XYXY" or "XYWH", in pixels; "REL_YXYX" (the usual one) or "REL_XYXY",
            from 0 to 1; None if not known.
    """

    shape: TfdsShape = (4,)
    dtype: str = "float32"
    bbox_format: str | None = None


@dataclass(frozen=True, kw_only=True)
class Audio(Tensor):
    """Samples, of one channel ``[length]`` or several ``[length, channels]``.

    Attributes:
        file_format: Of the audio file, if known, such as "flac".
        sample_rate: Samples a second; None if not known.
        lazy_decode: Whether the audio file is stored as it is, not its samples.
    """

    file_format: str | None = None
    sample_rate: int | None = None
    lazy_decode: bool = False


@dataclass(frozen=True, kw_only=True)
class Image(Connector):
    """An encoded image.

    Attributes:
        shape: ``(height, width, channels)``, or with frames in front for an animated GIF; None
            where not known; without channels, or with 0, images have as many as are stored.
        dtype: "uint8", "uint16", or "float32": a PNG whose four channels are the bytes of a float.
        encoding_format: "png", "jpeg", or None.
        names: Of the classes that pixels number, in a LabeledImage.
    """

    shape: TfdsShape
    dtype: str = "uint8"
    encoding_format: str | None = None
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Sequence(Connector):
    """Several of one feature.

    Attributes:
        feature: What there are several of.
        length: How many; None if that differs.
    """

    feature: Connector
    length: int | None = None


@dataclass(frozen=True, kw_only=True)
class TranslationVariableLanguages(Sequence):
    """Texts in several languages, and the language of each."""


@dataclass(frozen=True, kw_only=True)
class Video(Sequence):
    """Frames, each an :class:`Image`."""


@dataclass(frozen=True, kw_only=True)
class Dataset(Sequence):
    """A dataset in each record, such as the steps of an episode. Stored as a Sequence is."""


@dataclass(frozen=True, kw_only=True)
class Unknown(Connector):
    """A connector of somebody else's: only its code knows what it stores.

    Attributes:
        class_name: Of the connector.
    """

    class_name: str


def nested_datasets(feature: Connector, name: str = "") -> Iterator[str]:
    """Names of the datasets that each record has, those within other sequences not."""
    if isinstance(feature, Dataset):
        yield name
    elif isinstance(feature, FeaturesDict):
        for inner, each in feature.features.items():
            yield from nested_datasets(each, f"{name}/{inner}" if name else inner)


def _leaves(feature: Connector, name: str, around: tuple[Sequence, ...]) -> Iterator[Leaf]:
    if isinstance(feature, FeaturesDict):
        for inner, held in feature.features.items():
            yield from _leaves(held, f"{name}/{inner}" if name else inner, around)
    elif isinstance(feature, Sequence):
        yield from _leaves(feature.feature, name, (*around, feature))
    else:
        yield Leaf(name, around, feature)
