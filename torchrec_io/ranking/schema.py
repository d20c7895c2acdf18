"""Schema of records that are lists of Examples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from .._schema.checks import errors_of
from .._schema.feature import Feature
from .._schema.feature_mapping import FeatureMapping
from .._schema.nesting import check_paths
from .._schema.schema import Schema as ExampleSchema
from .._storage.paths import expand_paths
from .._storage.remote.options import StorageOptions
from ..errors import SchemaError

if TYPE_CHECKING:
    from .._storage.local import StrPath
    from ..inspection.record_sample import MaxRecords


class Schema(FeatureMapping):
    """The features of records that are an ``ExampleListWithContext``: lists of items to rank.

    Such a record has any number of Examples, for example documents, and a context, which is another
    Example that they share, for example a query. As a mapping, the schema contains the features of
    both, those of the context first.

    | spec | column, in a batch of B records with N examples in total |
    | --- | --- |
    | any spec of the context | as in a :class:`Schema` |
    | FixedLenFeature, RawFeature of examples | Ragged of values ``[N, *shape]`` |
    | VarLenFeature, RaggedFeature of examples | Ragged of the N rows that the spec yields |

    Each row of these Raggeds is a list, the examples of one record. The outermost offsets are int64
    ``[B + 1]`` and the same for all features of examples. ``batch[name].to_padded()`` returns
    ``[B, list_size, ...]``; its arguments ``max_len`` and ``buckets`` limit and round up
    ``list_size``. TF-Ranking's mask, which is False for padding, is
    ``torch.arange(list_size) < batch[name].lengths[:, None]``.

    The meaning of the parts is that of ``parse_from_example_list`` in TF-Ranking
    (``tensorflow_ranking/python/data.py``). Records are read as protobuf reads them: a missing
    context is an empty Example, so its features get their defaults; a context that is stored in
    several parts is merged (TF-Ranking uses the last part); unknown fields are skipped. Unlike in
    TF-Ranking, lists of different lengths need no ``default_value``.

    Args:
        context: Spec of each feature of the context, or nested dicts of specs. May be empty.
        examples: Spec of each feature of the examples, or nested dicts of specs. Each spec is a
            FixedLenFeature, a VarLenFeature, a RaggedFeature, or a RawFeature with a shape.

    Raises:
        SchemaError: If there are no features of examples, if a spec is not valid or not allowed in
            its part, or if two features, or a feature and a dict, have the same name.
    """

    public_name = "ranking.Schema"
    part_names: ClassVar[tuple[tuple[str, ...], ...]] = (("context", "examples"),)

    def __init__(
        self,
        context: Mapping[str, Any] | None = None,
        examples: Mapping[str, Any] | None = None,
    ) -> None:
        if not examples:
            raise SchemaError(f"examples must be a dict of at least one feature, got {examples!r}")
        self.example_schema: ExampleSchema = _example_schema(examples, "examples")
        self.context_schema: ExampleSchema | None = (
            _example_schema(context, "context") if context else None
        )
        for name, feature in self.example_schema.items():
            if name in self.context:
                raise SchemaError(
                    "the context and the examples both have a feature of this name: rename one, "
                    f"with key={name!r} in its spec",
                    feature=name,
                )
            with errors_of(name):
                feature.check_place("ranked")
        self._all = {**self.context, **self.examples}
        self._paths = dict(self.example_schema.paths)
        if self.context_schema is not None:
            self._paths |= self.context_schema.paths
        check_paths(self._all, self._paths)

    def message_parser(self) -> Any:
        """Return the parser of messages, as datasets use it."""
        from .list_parser import ExampleListParser  # noqa: PLC0415  # needs torch

        return ExampleListParser(self)

    @classmethod
    def infer(
        cls,
        paths: StrPath | Iterable[StrPath],
        max_records: MaxRecords = "auto",
        *,
        storage_options: StorageOptions = None,
    ) -> Schema:
        """Infer a schema from files of lists, as a starting point for a schema of your own.

        The rules are those of :meth:`Schema.infer`. For the features of examples, they apply to
        examples instead of records, and images stay bytes. :attr:`findings` explains the choices.

        Args:
            paths: Files, patterns or directories, as for :class:`TFRecordDataset`.
            max_records: Maximum number of records to inspect; None for all. The default, "auto", is
                that of :meth:`torchrec_io.Schema.infer`.
            storage_options: Options of remote objects, as for :class:`TFRecordDataset`.

        Raises:
            SchemaError: If there are no records, if the records do not look like lists of Examples,
                or if no feature of the examples can be read.
            CorruptRecordError: If a file is damaged where it was read.
            TruncatedFileError: If a file is truncated where it was read.
            FileNotFoundError: If a path matches no file.
            ValueError: If there are no paths, or if ``max_records`` is not one of the above.
        """
        from .infer import infer_lists  # noqa: PLC0415  # it reads files

        # Some records are enough.
        files = expand_paths(paths, allow_missing=True, storage_options=storage_options)
        found = infer_lists(files, max_records)
        if found is None:
            raise SchemaError("the records do not look like lists of Examples")
        return cls.of_inferred(found)

    @property
    def parts(self) -> dict[str, Mapping[str, Feature]]:
        """Specs by flat name of each part: "context" and "examples"."""
        return {"context": self.context, "examples": self.examples}

    @property
    def context(self) -> Mapping[str, Feature]:
        """Specs of the features of the context, by name."""
        return MappingProxyType({}) if self.context_schema is None else self.context_schema.context

    @property
    def examples(self) -> Mapping[str, Feature]:
        """Specs of the features of the examples, by name."""
        return self.example_schema.context


def _example_schema(features: Mapping[str, Any], part: str) -> ExampleSchema:
    schema = ExampleSchema.of(features)
    if schema.is_sequence:
        raise SchemaError(f"{part} must be features of Examples, got a schema with a sequence")
    return schema
