"""The schema: which features to read from each record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..errors import SchemaError
from .checks import is_text
from .dtypes import is_integer
from .feature_mapping import FeatureMapping
from .nesting import MOST_LEVELS, SEPARATOR, check_paths, dict_of, leaves_of, nested
from .specs import (
    Feature,
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
    as_feature,
)
from .stored_keys import check_uses, shape_key_of
from .stored_specs import SequenceFeature

if TYPE_CHECKING:
    from ..storage.local import StrPath
    from .infer import Finding


# What a schema is made of; a dict in it is such a mapping, too.
Features: TypeAlias = Mapping[str, Feature | Mapping[str, Any]]


class Schema(FeatureMapping):
    """The features to read from each record, by name. Others stay unread.

    ``Schema(features)`` is for records that are ``tf.train.Example`` messages;
    ``Schema(context=..., sequence=...)`` for ``tf.train.SequenceExample``.

    In place of a spec there may be a dict of specs, and so on. A feature in there is stored by its
    path, joined by "/" as TensorFlow Datasets does: ``{"objects": {"label": spec}}`` reads the
    stored feature ``"objects/label"``. Batches and samples are nested in the same way:
    ``batch["objects"]["label"]``. A name that has a "/" itself makes no dict:
    ``{"objects/label": spec}`` gives ``batch["objects/label"]``.

    As a mapping a schema holds all features by their flat names (``schema["objects/label"]``),
    those of the context first. Wherever else a feature is named, it is by this name, too:
    ``batch.lengths``, ``length_key``, the keys that specs take, errors.

    Args:
        features: Spec of each feature of an Example: one of this package's, or one of ``tf.io``'s;
            or dicts of them.
        context: Specs of the context of a SequenceExample.
        sequence: Specs of its feature lists: VarLenFeature, FixedLenSequenceFeature, RaggedFeature
            or SequenceFeature.

    Raises:
        SchemaError: there is no feature; a spec is none, or does not go where it is put; a flat
            name is given twice, or is that of a dict, too; dicts are nested more than 100 levels
            deep, or one is empty; one stored feature is asked for in two ways that exclude each
            other.
    """

    def __init__(
        self,
        features: Mapping[str, Any] | None = None,
        *,
        context: Mapping[str, Any] | None = None,
        sequence: Mapping[str, Any] | None = None,
    ) -> None:
        if features is not None and not (context is None and sequence is None):
            raise SchemaError("a schema takes either features, or context and sequence")
        is_sequence = features is None and not (context is None and sequence is None)
        self._paths = {}
        self._context = self._adopt(context if is_sequence else features)
        self._sequence = self._adopt(sequence) if is_sequence else None
        self._all = {**self._context, **(self._sequence or {})}
        self._parser: Any = None  # ExampleParser.of keeps it here
        self._findings = None
        if not self._all:
            raise SchemaError("a schema needs a dict of at least one feature")
        for name, feature in self._context.items():
            self._check_context(name, feature)
        for name, feature in (self._sequence or {}).items():
            if name in self._context:
                raise SchemaError("the context has a feature of the same name", feature=name)
            _check_sequence(name, feature)
            _check_shape_key(name, feature, self._sequence or {})
        check_paths(self._all, self._paths)
        check_uses(self._context)
        check_uses(self._sequence or {})

    @classmethod
    def of(cls, features: Schema | Features) -> Schema:
        """A schema as it is, or made from a dict."""
        return features if isinstance(features, Schema) else cls(features)

    @classmethod
    def from_tf(
        cls,
        spec: Mapping[str, Any] | None = None,
        *,
        context: Mapping[str, Any] | None = None,
        sequence: Mapping[str, Any] | None = None,
    ) -> Schema:
        """A schema from TensorFlow's own feature specs, without importing TensorFlow.

        Args:
            spec: What ``tf.io.parse_example`` takes as ``features``.
            context: What ``tf.io.parse_sequence_example`` takes as ``context_features``.
            sequence: What it takes as ``sequence_features``.

        Raises:
            SchemaError: as for :class:`Schema`.
        """
        return cls(spec, context=context, sequence=sequence)

    @classmethod
    def infer(
        cls,
        paths: StrPath | Iterable[StrPath],
        max_records: int = 1000,
        *,
        on_error: Literal["raise", "skip"] = "raise",
    ) -> Schema:
        """A schema that fits the records of files, for a person to look over.

        It reads every record that was looked at; :attr:`findings` has what was seen, and says of
        each feature why it is read as it is, or left out. The rules:

        - In every record, always with as many values: FixedLenFeature, with shape ``[]`` for one.
        - Any other number of values, or missing in some records: VarLenFeature. No default is made
          up.
        - In every record one image: ImageFeature. Its header is read, its pixels are not.
        - Stored dtypes are kept: nothing becomes "bool" or "int32" because it would fit.
        - Left out: features of several kinds, or of none, and those whose name is not UTF-8.
        - A record with feature lists makes it a schema of SequenceExamples. Lists with as many
          values in every step are FixedLenSequenceFeatures, others VarLenFeatures. Of a list and a
          context feature of one name only the latter is read.

        Records are taken from the start of every file, as many of each as of the others. What short
        files do not have is taken from longer ones; of more files than ``max_records``, some that
        lie evenly among all are looked at.

        Args:
            paths: As of :class:`TFRecordDataset`: files, patterns or directories.
            max_records: How many records are read, at most.
            on_error: ``"raise"``, or ``"skip"``: records that are damaged or no Examples are not
                looked at.

        Raises:
            SchemaError: there is no record, or no feature in them that can be read.
            DecodeError: a record is neither an Example nor a SequenceExample, unless that is
                skipped.
            CorruptRecordError, TruncatedFileError: a file is damaged where it was read, unless that
                is skipped.
            FileNotFoundError: a path stands for no file.
            ValueError: no path at all, max_records is no whole number from 1, or on_error is none
                of its choices.
        """
        from .infer import infer_parts  # noqa: PLC0415  # it reads files

        parts, findings = infer_parts(paths, max_records, on_error)
        return _rebuild(parts["context"], parts.get("sequence"), findings)

    @classmethod
    def from_tfds(
        cls, directory: StrPath, *, config: str | None = None, version: str | None = None
    ) -> Schema:
        """The schema of a directory that TensorFlow Datasets (TFDS) wrote, without TensorFlow.

        What it gives is what TFDS gives, nested as there: see docs/tfds.md. Integers, floats and
        bytes of one shape are FixedLenFeatures, of several VarLenFeatures or RaggedFeatures, arrays
        stored as bytes RawFeatures; several of these or of images are SequenceFeatures. Images are
        ``[H, W, C]``; what is stored as encoded audio stays bytes. A missing optional feature has
        TFDS's default: the least integer or float, ``b""`` or False.

        A directory without ``features.json``, as TFDS wrote before version 4, says little of its
        records: their schema is that of :meth:`infer`, whose names are flat.

        Args:
            directory: That of a version, such as ``~/tensorflow_datasets/mnist/3.0.1``, or that of
                a config or a dataset, with versions in it.
            config: If there are several.
            version: By default the greatest there is.

        Raises:
            FileNotFoundError: there is no such directory.
            NotADirectoryError: it is a file.
            SchemaError: what the directory says of itself cannot be, or has a feature that cannot
                be read; :meth:`TFRecordDataset.from_tfds` can leave it out.
            ValueError: there is no such config or version, or several configs and none is named.
        """
        from ..tfds.directory import Directory  # noqa: PLC0415  # it needs this module

        return Directory(directory, config, version).schema

    @classmethod
    def from_json(cls, text: str | bytes) -> Schema:
        """A schema from what :meth:`to_json` gives.

        Raises:
            SchemaError: it is no such JSON, holds a name that no spec has, or says what
                :class:`Schema` or a spec refuses.
        """
        from .json_form import from_json  # noqa: PLC0415  # it needs this module

        return from_json(text)

    def to_json(self, indent: int | None = None) -> str:
        """The schema as JSON, in ASCII; :meth:`from_json` gives an equal one.

        Args:
            indent: As of ``json.dumps``: spaces for each level, or all on one line.

        Raises:
            SchemaError: a spec is of a class that is not this package's.
        """
        from .json_form import to_json  # noqa: PLC0415  # it needs this module

        return to_json(self, indent)

    def to_python(self) -> str:
        """Python source that makes the schema: it imports ``tio`` and sets ``schema``.

        Raises:
            SchemaError: a spec is of a class that is not this package's.
        """
        from .python_form import to_python  # noqa: PLC0415  # it needs this module

        return to_python(self)

    @property
    def context(self) -> Mapping[str, Feature]:
        """Specs by name, those of an Example too."""
        return MappingProxyType(self._context)

    @property
    def sequence(self) -> Mapping[str, Feature] | None:
        """Specs of feature lists by name; None for an Example."""
        return None if self._sequence is None else MappingProxyType(self._sequence)

    @property
    def is_sequence(self) -> bool:
        """Whether records are SequenceExamples."""
        return self._sequence is not None

    def _adopt(self, features: Mapping[str, Any] | None) -> dict[str, Feature]:
        """Specs by flat name; notes the paths of those in dicts."""
        if features is None:
            return {}
        if not isinstance(features, Mapping):
            raise SchemaError(f"a schema needs a dict of at least one feature, not {features!r}")
        adopted: dict[str, Feature] = {}
        for path, spec in leaves_of(_specs_in(features) or {}, _specs_in):
            for key in path:
                _check_name(key)
            name = SEPARATOR.join(path)
            if name in adopted:
                raise SchemaError(
                    "two features have this name, by the dicts they are in", feature=name
                )
            try:
                adopted[name] = _spec_of(spec)
            except SchemaError as error:
                raise SchemaError(error.reason, feature=name) from None
            if len(path) > 1:
                self._paths[name] = path
        return adopted

    def _nested(self, part: Mapping[str, Feature]) -> dict[str, Any]:
        """A part of the schema as it was given."""
        return nested(part, self._paths)

    def _check_context(self, name: str, feature: Feature) -> None:
        if isinstance(feature, FixedLenSequenceFeature):
            if self.is_sequence:
                raise SchemaError("a FixedLenSequenceFeature is no context feature", feature=name)
            if not feature.allow_missing:
                raise SchemaError("it needs allow_missing=True outside of sequences", feature=name)
        if isinstance(feature, SparseFeature) and self.is_sequence:
            raise SchemaError("a SequenceExample has no SparseFeature", feature=name)
        _check_shape_key(name, feature, self._context)

    # ---- a mapping ----

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        return (self._context, self._sequence, self._paths) == (
            other._context,
            other._sequence,
            other._paths,
        )

    __hash__ = None  # type: ignore[assignment]  # as of any mapping

    def __repr__(self) -> str:
        context = self._nested(self._context)
        if self._sequence is None:
            return f"Schema({context!r})"
        return f"Schema(context={context!r}, sequence={self._nested(self._sequence)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        sequence = None if self._sequence is None else self._nested(self._sequence)
        return _rebuild, (self._nested(self._context), sequence, self._findings)


def _rebuild(
    context: dict[str, Any],
    sequence: dict[str, Any] | None,
    findings: dict[str, Finding] | None,
) -> Schema:
    schema = Schema(context) if sequence is None else Schema(context=context, sequence=sequence)
    schema._findings = findings  # noqa: SLF001  # no argument of the constructor's
    return schema


def _specs_in(value: Any) -> Mapping[str, Any] | None:
    """The dict of specs that a value is; None of what is none."""
    if not isinstance(value, Schema):
        _refuse_lists(value)
        return dict_of(value)
    if value.is_sequence:
        raise SchemaError("a schema of SequenceExamples is no part of another schema")
    return nested(value.context, value.paths)


def _refuse_lists(value: Any) -> None:
    """Refuses a mapping of features that are in no Example of their own."""
    if isinstance(value, dict) or not isinstance(value, Mapping):
        return
    if isinstance(value, FeatureMapping):
        raise SchemaError(f"a {value.public_name} is not a schema of Examples, nor part of one")


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise SchemaError(f"a feature's name must be a str, not {name!r}")
    if not is_text(name):
        raise SchemaError(f"a feature's name must be text, not {name!r}: it has surrogates")


def _spec_of(spec: Any) -> Feature:
    if dict_of(spec) is None:
        return as_feature(spec)
    if spec:
        raise SchemaError(f"it is a dict, on level {MOST_LEVELS}: there are no deeper ones")
    raise SchemaError("no feature spec: an empty dict")


def _check_sequence(name: str, feature: Feature) -> None:
    if not isinstance(
        feature, (VarLenFeature, FixedLenSequenceFeature, RaggedFeature, SequenceFeature)
    ):
        raise SchemaError(
            "a feature list is a VarLenFeature, FixedLenSequenceFeature, RaggedFeature or "
            f"SequenceFeature, not a {type(feature).__name__}",
            feature=name,
        )
    if isinstance(feature, SequenceFeature) and feature.partitions:
        raise SchemaError("a SequenceFeature of a feature list has no partitions", feature=name)
    if isinstance(feature, FixedLenSequenceFeature) and feature.default_value is not None:
        raise SchemaError("a feature list is padded with zeros: no default_value", feature=name)


def _check_shape_key(name: str, feature: Feature, features: Mapping[str, Feature]) -> None:
    """Refuses a shape that is to be read from a feature of no integers, ``features`` being all."""
    key = shape_key_of(feature)
    if key is None:
        return
    shape = features.get(key, VarLenFeature("int64"))
    known = FixedLenFeature, FixedLenSequenceFeature, VarLenFeature
    if not isinstance(shape, known) or not is_integer(shape.dtype):
        raise SchemaError(f"its shape_key {key!r} is not an integer feature", feature=name)
