"""The schema: the features to read from each record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from ..errors import SchemaError

# Imported so that their specs are registered.
from . import box_specs, image_spec, stored_specs  # noqa: F401
from .checks import errors_of, is_text
from .dtypes import DType
from .feature import Feature, Place
from .feature_mapping import FeatureMapping
from .nesting import MOST_LEVELS, SEPARATOR, check_paths, dict_of, leaves_of
from .specs import as_feature
from .stored_keys import StoredKey, check_stored_keys

if TYPE_CHECKING:
    from .._storage.local import StrPath
    from .._storage.remote.options import StorageOptions
    from ..inspection.record_sample import MaxRecords

# Specs by name. A value can also be the dtype of one value, or a dict of specs.
Features: TypeAlias = Mapping[str, Feature | DType | Mapping[str, Any]]


class Schema(FeatureMapping):
    """The features to read from each record, by name. Other features are not read.

    ``Schema(features)`` is for records that are ``tf.train.Example`` messages;
    ``Schema(context=..., sequence=...)`` for ``tf.train.SequenceExample``.

    A value can also be a dict of specs, which can have dicts in turn. A feature in a dict is stored
    under its path joined by "/", as in TensorFlow Datasets: ``{"objects": {"label": spec}}`` reads
    the stored feature ``"objects/label"``. Batches and samples are nested in the same way:
    ``batch["objects"]["label"]``. A name that contains a "/" makes no dict:
    ``{"objects/label": spec}`` gives ``batch["objects/label"]``.

    As a mapping, a schema holds all features by their flat names (``schema["objects/label"]``),
    those of the context first. ``batch.lengths``, ``length_key``, the keys in specs and errors use
    the flat names, too.

    The argument ``key`` of a spec reads a stored feature of another name: ``{"image":
    tio.ImageFeature(key="image/encoded")}``. Several features can read the same one.

    Args:
        features: Specs of the features of an Example: specs of this package or of ``tf.io``, or
            dicts of them. A dtype such as ``"int64"`` stands for ``FixedLenFeature([], "int64")``.
        context: Specs of the context of a SequenceExample.
        sequence: Specs of the feature lists of a SequenceExample: VarLenFeature,
            FixedLenSequenceFeature, RaggedFeature or SequenceFeature.

    Raises:
        SchemaError: If there is no feature; a value is not a spec, or not one for its place; two
            features, or a feature and a dict, have the same flat name; a dict is empty, or nested
            more than 100 levels deep; specs read one stored feature in ways that exclude each
            other; or several images have random crops that do not name their groups.
    """

    part_names: ClassVar[tuple[tuple[str, ...], ...]] = (("features",), ("context", "sequence"))

    def __init__(
        self,
        features: Mapping[str, Any] | None = None,
        *,
        context: Mapping[str, Any] | None = None,
        sequence: Mapping[str, Any] | None = None,
    ) -> None:
        has_parts = not (context is None and sequence is None)
        if features is not None and has_parts:
            raise SchemaError("a schema takes either features, or context and sequence")
        self._paths = {}
        self._sequence: dict[str, Feature] | None = None
        if has_parts:
            self._context = self._adopt(context, "context")
            self._sequence = self._adopt(sequence, "sequence")
        else:
            self._context = self._adopt(features, "example")
        self._all = {**self._context, **(self._sequence or {})}
        # ExampleParser.of keeps the schema's parser here: making one takes longer than parsing.
        self.parser: Any = None
        if not self._all:
            raise SchemaError("a schema needs a dict of at least one feature")
        for name in self._sequence or {}:
            if name in self._context:
                raise SchemaError(
                    "context and sequence must not have a feature of the same name: rename one, "
                    f"with key={name!r} in its spec",
                    feature=name,
                )
        check_paths(self._all, self._paths)
        check_stored_keys(_keys_of(self._context))
        check_stored_keys(_keys_of(self._sequence or {}))
        for name, spec in self._all.items():
            with errors_of(name):
                spec.check_beside(name, self._all)

    @classmethod
    def of(cls, features: Schema | Features) -> Schema:
        """Return a schema as it is, or one made from a dict."""
        return features if isinstance(features, Schema) else cls(features)

    @classmethod
    def from_tf(
        cls,
        spec: Mapping[str, Any] | None = None,
        *,
        context: Mapping[str, Any] | None = None,
        sequence: Mapping[str, Any] | None = None,
    ) -> Schema:
        """Make a schema from TensorFlow's feature specs, without importing TensorFlow.

        Args:
            spec: Argument ``features`` of ``tf.io.parse_example``.
            context: Argument ``context_features`` of ``tf.io.parse_sequence_example``.
            sequence: Argument ``sequence_features`` of ``tf.io.parse_sequence_example``.

        Raises:
            SchemaError: If :class:`Schema` refuses the specs.
        """
        return cls(spec, context=context, sequence=sequence)

    @classmethod
    def infer(
        cls,
        paths: StrPath | Iterable[StrPath],
        max_records: MaxRecords = "auto",
        *,
        on_error: Literal["raise", "skip"] = "raise",
        storage_options: StorageOptions = None,
    ) -> Schema:
        """Make a schema that fits the records of files, for a person to review.

        The schema can parse every record that was inspected. :attr:`inspected` has the number of
        these records and of all. :attr:`findings` has the facts about each feature, and the reason
        for its spec or for leaving it out. The rules:

        - The same number of values in every record: FixedLenFeature, with shape ``[]`` for one.
        - Any other number of values, or missing in some records: VarLenFeature. No default is
          invented.
        - One image in every record: ImageFeature with a ``size``, the median height and the median
          width, so that images of different sizes make a batch. Only their headers are read.
        - Stored dtypes are kept: a feature does not become "bool" or "int32" because it would fit.
        - Left out: features without values or with values of several kinds, and features whose
          names are not UTF-8.
        - If a record has feature lists, it is a schema of SequenceExamples. Lists with the same
          number of values in every step are FixedLenSequenceFeatures, others VarLenFeatures. If a
          list and a context feature have the same name, only the latter is read; ``key=`` of a
          spec can read the other one under another name.

        By default, all records are inspected if the files have at most 256 MiB, or if they have
        indexes, at most 100,000 records and 4 GiB. Of more data, at most 100,000 records and
        256 MiB are inspected: the same number from every file, in runs from its beginning to its
        end. If a file has fewer, longer files make up for it. If there are more files than records
        to inspect, files at equal distances are read. Of a file without an index,
        or of a compressed file, the beginning is read. A feature that all of these records have may
        still be missing in others. No index is written.

        Args:
            paths: Files, patterns or directories, as for :class:`TFRecordDataset`.
            max_records: Maximum number of records to inspect; None for all; "auto" for the above.
            on_error: "raise", or "skip" to ignore records that are damaged or are not Examples.
            storage_options: Options of remote objects, as for :class:`TFRecordDataset`.

        Raises:
            SchemaError: If there are no records, no feature can be read, or there are more than
                100,000 features.
            DecodeError: If a record is neither an Example nor a SequenceExample; not with "skip".
            CorruptRecordError, TruncatedFileError: If a file is damaged; not with "skip".
            FileNotFoundError: If a path matches no file.
            ValueError: If paths is empty, or max_records or on_error is not one of the above.
        """
        from ..inspection.inference import infer_surveyed  # noqa: PLC0415  # it reads files
        from ..inspection.survey_files import survey  # noqa: PLC0415

        surveyed = survey(paths, max_records, on_error=on_error, storage_options=storage_options)
        return cls.of_inferred(infer_surveyed(surveyed))

    @classmethod
    def from_tfds(
        cls,
        directory: StrPath,
        *,
        config: str | None = None,
        version: str | None = None,
        storage_options: StorageOptions = None,
    ) -> Schema:
        """Read the schema of a directory of TensorFlow Datasets (TFDS), without TensorFlow.

        Its values are those of TFDS and nested in the same way: see docs/tfds.md. Integers, floats
        and bytes of one shape are FixedLenFeatures, of varying shapes VarLenFeatures or
        RaggedFeatures, arrays stored as bytes RawFeatures; several arrays or images are
        SequenceFeatures. Images are ``[H, W, C]``. Encoded audio stays bytes. A missing optional
        feature has the default of TFDS: the smallest integer or float, ``b""`` or False.

        A directory without ``features.json``, written by TFDS before version 4, does not describe
        its records. Its schema is that of :meth:`infer`, with flat names.

        Args:
            directory: Directory of a version, such as ``~/tensorflow_datasets/mnist/3.0.1``, or of
                a config or a dataset that contains versions.
            config: Name of the config; needed if there are several.
            version: Name of the version; by default the latest.
            storage_options: Options of remote objects, as for :class:`TFRecordDataset`.

        Raises:
            FileNotFoundError: If the directory does not exist.
            NotADirectoryError: If it is a file.
            SchemaError: If the description of the dataset is not valid, or has a feature that
                cannot be read; :meth:`TFRecordDataset.from_tfds` can leave it out.
            ValueError: If the config or version does not exist, or config must be given.
        """
        from ..tfds.directory import Directory  # noqa: PLC0415  # it needs this module

        return Directory(directory, config, version, storage_options=storage_options).schema

    @property
    def parts(self) -> dict[str, Mapping[str, Feature]]:
        """Specs by flat name of each part: "features", or "context" and "sequence"."""
        if self.sequence is None:
            return {"features": self.context}
        return {"context": self.context, "sequence": self.sequence}

    @property
    def context(self) -> Mapping[str, Feature]:
        """Specs by flat name of an Example, or of the context of a SequenceExample."""
        return MappingProxyType(self._context)

    @property
    def sequence(self) -> Mapping[str, Feature] | None:
        """Specs of feature lists by flat name; None for an Example."""
        return None if self._sequence is None else MappingProxyType(self._sequence)

    @property
    def is_sequence(self) -> bool:
        """True if records are SequenceExamples."""
        return self._sequence is not None

    def _adopt(self, features: Mapping[str, Any] | None, place: Place) -> dict[str, Feature]:
        """Return the specs of a part by flat name, and keep the paths of nested ones."""
        if features is None:
            return {}
        if not isinstance(features, Mapping):
            raise SchemaError(f"a schema needs a dict of at least one feature, got {features!r}")
        adopted: dict[str, Feature] = {}
        for path, spec in leaves_of(_specs_in(features) or {}, _specs_in):
            for key in path:
                _check_name(key)
            name = SEPARATOR.join(path)
            with errors_of(name):
                if name in adopted:
                    raise SchemaError("two features have this flat name")
                adopted[name] = _spec_of(spec)
                adopted[name].check_place(place)
            if len(path) > 1:
                self._paths[name] = path
        return adopted


def _specs_in(value: Any) -> Mapping[str, Any] | None:
    """Return the dict of specs that a value is, or None if it is not one."""
    if not isinstance(value, FeatureMapping):
        return dict_of(value)
    parts = value.nested_parts()
    if list(parts) != ["features"]:
        raise SchemaError(
            f"features must be a dict or a schema of Examples, got {value.public_name} with "
            f"{' and '.join(parts)}"
        )
    return parts["features"]


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise SchemaError(f"the name of a feature must be a str, got {name!r}")
    if not is_text(name):
        raise SchemaError(f"the name of a feature must not have surrogates, got {name!r}")


def _spec_of(spec: Any) -> Feature:
    if dict_of(spec) is None:
        return as_feature(spec)
    if spec:
        raise SchemaError(f"dicts must be nested at most {MOST_LEVELS} levels deep")
    raise SchemaError("a feature must be a spec or a dict of specs, got an empty dict")


def _keys_of(features: Mapping[str, Feature]) -> dict[str, list[StoredKey]]:
    return {name: feature.stored_keys(name) for name, feature in features.items()}
