"""Base classes of feature specs: the interface that every kind of feature has."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast

from ..checks import with_article
from ..display import brief
from ..errors import SchemaError
from .stored_keys import StoredCount, StoredKey
from .valid_range import Range

if TYPE_CHECKING:
    from .normalize import Normalize

# Where a spec is used: in a schema of Examples, in the context or the feature lists of
# SequenceExamples, in the examples of a ranking list, or as the element of a SequenceFeature.
Place: TypeAlias = Literal["example", "context", "sequence", "ranked", "element"]

_PLACE_NAMES: dict[Place, str] = {
    "example": "a feature of an Example",
    "context": "a context feature of a SequenceExample",
    "sequence": "a feature list",
    "ranked": "a feature of the examples in lists",
    "element": "the element of a SequenceFeature",
}

_spec_classes: dict[str, type[Spec]] = {}
_parameters: dict[type, Mapping[str, Parameter]] = {}


class Spec:
    """Base of the objects that a schema writes as text: class name and arguments.

    These are feature specs, partitions and augment functions. A subclass is registered by its name
    when it is defined, unless a class of that name is registered already. The names of its
    constructor's parameters are also attributes, which hold the values as text can write them:
    str, bytes, bool, int, float, None, specs, and tuples of these.
    """

    def __init_subclass__(cls, *, is_abstract: bool = False, **options: Any) -> None:
        """Register the class, so that JSON can name it.

        Args:
            is_abstract: Whether the class is only a base of others.
            options: Arguments of further base classes.
        """
        super().__init_subclass__(**options)
        known = _spec_classes.get(cls.__name__)
        cls.__repr__ = cls.__repr__  # type: ignore[method-assign]  # a dataclass makes no other
        # A class that is defined again, as in a notebook, replaces itself.
        if not is_abstract and (known is None or _full_name(known) == _full_name(cls)):
            _spec_classes[cls.__name__] = cls

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that make this spec, without those that have their default value.

        Raises:
            SchemaError: If the spec cannot be written as text.
        """
        kind = type(self)
        if spec_class(kind.__name__) is not kind:
            raise SchemaError(
                f"{with_article(kind.__name__)} cannot be written as text: another spec class has "
                "this name"
            )
        arguments = self._given()
        for name, value in arguments.items():
            if callable(value) and not isinstance(value, Spec):
                raise SchemaError(
                    f"{name} must be a RandomResizedCrop, RandomCrop or RandomFlip to be written "
                    "as text, got a function"
                )
        return arguments

    def _given(self) -> dict[str, Any]:
        """Return the arguments that do not have their default value."""
        return {
            name: getattr(self, name)
            for name, parameter in parameters_of(type(self)).items()
            if getattr(self, name) != parameter.default
        }

    def __repr__(self) -> str:
        parameters = parameters_of(type(self))
        words = [
            ("" if parameters[name].default is Parameter.empty else f"{name}=")
            + (repr(value) if isinstance(value, Spec) else brief(value))
            for name, value in self._given().items()
        ]
        return f"{type(self).__name__}({', '.join(words)})"


def parameters_of(kind: type) -> Mapping[str, Parameter]:
    """Return the parameters of the constructor of a spec class."""
    if kind not in _parameters:  # to find them is slow, and a schema may have many features
        _parameters[kind] = signature(kind).parameters
    return _parameters[kind]


def _full_name(kind: type) -> tuple[str, str]:
    return kind.__module__, kind.__qualname__


def spec_class(name: str) -> type[Spec] | None:
    """Return the registered spec class of a name, or None if there is none."""
    return _spec_classes.get(name)


def feature_kinds(place: Place | None = None) -> list[str]:
    """Return the names of the registered kinds of features, or of those allowed in a place."""
    return [
        name
        for name, kind in _spec_classes.items()
        if issubclass(kind, Feature) and (place is None or place in kind.places)
    ]


class Feature(Spec, is_abstract=True):
    """Base of feature specs, which say how the values of a record become a column.

    A new kind of feature is a subclass and a column. Nothing else has to be changed: schemas,
    parsers, datasets, encoders and converters use the attributes and methods below. By default a
    feature is one bytes value, stored under the feature's own name, that every record must have.

    Attributes:
        column: Builder of the column, as ``"module:name"``. It is imported when a parser is made,
            so that a schema does not load the code of columns. It is a callable with the
            parameters of :class:`torchrec_io._parsing.columns.base.ColumnBuilder`.
        element_decoder: Decoder of single values, as ``"module:name"``, for features whose values
            Python decodes. It is a subclass of
            :class:`torchrec_io._parsing.columns.elements.ElementDecoder`.
        places: Places where the spec can be used.
        has_tf_class: Whether ``tf.io`` has a class of the same name, whose arguments are the
            positional ones of this class.
        dtype: Dtype of the values.
        known_shape: Shape of every record's value; None if it depends on the record.
        known_rank: Number of dimensions of every record's value; None if it depends on the record,
            or if values are rows of any length.
        key: Name of the stored feature with the values; None for the feature's own name.
        valid_range: Range that the values must be in; None if they are not checked.
        normalize: Normalization of values that were checked; None if there is none.
        is_slow: Whether values are decoded one by one outside the native parser.
        has_steps: Whether the value of a record can be cut into steps of an episode.
        is_written_as_is: Whether a value is stored as it is, under ``key`` or the feature's name.
    """

    column: ClassVar[str]
    element_decoder: ClassVar[str]
    places: ClassVar[frozenset[Place]] = frozenset({"example", "context"})
    has_tf_class: ClassVar[bool] = False

    dtype: Any
    valid_range: Range = None
    normalize: Normalize | None = None
    key: str | None = None

    @property
    def column_dtype(self) -> str:
        """Dtype of the column."""
        return str(self.dtype)

    @property
    def known_shape(self) -> tuple[int, ...] | None:
        """Shape of every record's value; None if it depends on the record."""
        return None

    @property
    def known_rank(self) -> int | None:
        """Number of dimensions of every record's value, if it is known."""
        return None if self.known_shape is None else len(self.known_shape)

    @property
    def is_slow(self) -> bool:
        """True if values are decoded one by one outside the native parser."""
        return False

    @property
    def has_steps(self) -> bool:
        """True if the value of a record can be cut into steps of an episode."""
        return False

    @property
    def is_written_as_is(self) -> bool:
        """True if a value is stored as it is, under ``key`` or the feature's own name."""
        return False

    def _given(self) -> dict[str, Any]:
        """Return the arguments; a default of one value without its tuple."""
        arguments = super()._given()
        default = arguments.get("default_value")
        if isinstance(default, tuple) and len(default) == 1:
            [arguments["default_value"]] = default
        return arguments

    def check_place(self, place: Place) -> None:
        """Check that the spec can be used in a place.

        Raises:
            SchemaError: If it cannot.
        """
        if place not in self.places:
            raise SchemaError(
                f"{_PLACE_NAMES[place]} must be one of {', '.join(feature_kinds(place))}, got "
                f"{type(self).__name__}"
            )
        if place == "element" and self.key is not None:
            raise SchemaError("an element of a SequenceFeature excludes key: the sequence has one")

    def check_beside(self, name: str, features: Mapping[str, Feature]) -> None:
        """Check that the spec can be used beside others; by default it can.

        Args:
            name: Flat name of the feature.
            features: All specs of a part of a schema, by flat name.

        Raises:
            SchemaError: If it cannot.
        """

    def stored_keys(self, name: str) -> list[StoredKey]:
        """Return the stored features that the spec reads; the first one holds the values.

        Args:
            name: Flat name of the feature in the schema.
        """
        return [StoredKey(self.key or name, "dense", "string", is_required=True)]

    def length_count(self, name: str) -> StoredCount | None:
        """Return the stored values whose number is the number of values of a record.

        Args:
            name: Flat name of the feature in the schema.

        Returns:
            The stored values to count; None if the number of values is the same in all records or
            cannot be counted without decoding.
        """
        del name
        return None

    def step_count(self, name: str) -> StoredCount | None:
        """Return the stored values whose number gives the number of steps of a record.

        Args:
            name: Flat name of the feature in the schema.

        Returns:
            The stored values to count; None if the steps cannot be counted without decoding. By
            default steps are counted like values.
        """
        return self.length_count(name)

    def as_stored(self, name: str) -> Feature:
        """Return the FixedLenFeature or VarLenFeature that reads the stored values undecoded.

        Args:
            name: Flat name of the feature in the schema.

        Raises:
            SchemaError: If the values are not all in one stored feature.
        """
        fixed: Any = spec_class("FixedLenFeature")  # a subclass: this file cannot import it
        return cast(Feature, fixed([], "string", key=self._only_key(name)))

    def _only_key(self, name: str) -> str | None:
        """Return the ``key`` of the one stored feature that has all values."""
        values, *others = self.stored_keys(name)
        if any(key.kind != "shape" for key in others):
            raise SchemaError(
                f"{with_article(type(self).__name__)} reads several stored features; name each of "
                "them, with a VarLenFeature",
                feature=name,
            )
        return None if values.key == name else values.key
