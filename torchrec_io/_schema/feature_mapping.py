"""The base of schemas: mappings from name to spec that are written as text."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ..checks import counted, suggest_names, with_article
from ..display import braced, html_table
from ..errors import SchemaError
from .checks import errors_of
from .feature import Feature, parameters_of
from .nesting import SEPARATOR, Path, nested

if TYPE_CHECKING:
    from ..inspection.inference import Finding, InferredParts, Inspected
    from .normalize import Normalize


class FeatureMapping(Mapping[str, Feature]):
    """Base of schemas: specs by flat name, in one or more parts.

    A schema sets ``_all``, its specs by flat name, and ``_paths``, the paths of nested ones. The
    names of its parts are parameters of its constructor.

    Attributes:
        public_name: Name of the class in ``torchrec_io``.
        part_names: Names of the parts, for each set of parts that a schema can have.
    """

    public_name: ClassVar[str] = "Schema"
    part_names: ClassVar[tuple[tuple[str, ...], ...]]

    _all: dict[str, Feature]
    _paths: dict[str, Path]
    _findings: Mapping[str, Finding] | None = None
    _inspected: Inspected | None = None

    @property
    @abstractmethod
    def parts(self) -> dict[str, Mapping[str, Feature]]:
        """Specs by flat name of each part, by the part's name."""

    @property
    def paths(self) -> Mapping[str, tuple[str, ...]]:
        """Keys of the dicts around each nested feature, then its own, by its flat name."""
        return MappingProxyType(self._paths)

    @property
    def findings(self) -> Mapping[str, Finding] | None:
        """Results of ``infer`` for each feature of the data, by name, also for those left out.

        None for other schemas. Findings do not count for equality.
        """
        return None if self._findings is None else MappingProxyType(self._findings)

    @property
    def inspected(self) -> Inspected | None:
        """Number of records that ``infer`` has inspected, and of all; None for other schemas."""
        return self._inspected

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the schema that :meth:`to_json` wrote.

        Raises:
            SchemaError: If this is not such JSON, names an unknown spec or argument, or describes a
                schema or spec that is refused.
        """
        from .json_form import read_parts  # noqa: PLC0415  # it needs all specs

        return cls(**read_parts(text, cls.part_names))

    def to_json(self, indent: int | None = None) -> str:
        """Return the schema as JSON, in ASCII; :meth:`from_json` returns an equal one.

        Args:
            indent: Number of spaces for each level, as for ``json.dumps``; None for one line.

        Raises:
            SchemaError: If a spec has a function that cannot be written as text.
        """
        from .json_form import write_parts  # noqa: PLC0415  # only for text

        return write_parts(self.nested_parts(), indent)

    def to_python(self) -> str:
        """Return Python source that makes the schema: it imports ``tio`` and sets ``schema``.

        For an inferred schema, comments give the number of records if these were not all, the
        features that are left out, and the sizes of images.

        Raises:
            SchemaError: If a spec has a function that cannot be written as text, or is of a class
                that cannot be imported.
        """
        from .python_form import schema_to_python, to_python  # noqa: PLC0415  # only for text

        found = self.inspected
        findings = (self._findings or {}).items()
        notes = [] if found is None or found.is_all else [f"{found}: {found.caution}."]
        notes += [
            f"{to_python(name)} is left out: {each.why}"
            for name, each in findings
            if each.spec is None
        ]
        comments = {name: each.comment for name, each in findings}
        return schema_to_python(self.public_name, self.nested_parts(), notes, comments)

    @classmethod
    def of_inferred(cls, found: InferredParts) -> Self:
        """Return the schema that was inferred from records, with its findings."""
        return cls(**found.parts).with_findings(found.findings, found.inspected)

    def with_findings(
        self, findings: Mapping[str, Finding] | None, inspected: Inspected | None
    ) -> Self:
        """Set the findings of an inferred schema and return it."""
        self._findings = findings
        self._inspected = inspected
        return self

    def narrow(self, names: Iterable[str]) -> Self:
        """Return a schema of some of the features.

        Args:
            names: Flat names of features, or names of dicts, which stand for all features in them.
        """
        kept = {each for name in names for each in self.names_of(name)}
        return self._of_specs({name: self._all[name] for name in self._all if name in kept})

    def normalized(self, normalizations: Mapping[str, Normalize | None]) -> Self:
        """Return the schema with other values of ``normalize`` in some specs.

        Args:
            normalizations: A :class:`Normalize`, or None to read the stored values, by the flat
                name of the feature.

        Raises:
            SchemaError: If a feature does not exist, its kind cannot be normalized, or a Normalize
                does not fit it.
        """
        specs: dict[str, Any] = dict(self._all)
        for name, normalize in normalizations.items():
            with errors_of(name):
                if name not in specs:
                    raise SchemaError(suggest_names(name, specs, "the schema has"))
                kind = type(specs[name])
                if "normalize" not in parameters_of(kind):
                    raise SchemaError(f"{with_article(kind.__name__)} cannot be normalized")
                specs[name] = replace(specs[name], normalize=normalize)
        return self._of_specs(specs).with_findings(self._findings, self._inspected)

    def _of_specs(self, specs: Mapping[str, Feature]) -> Self:
        """Return a schema with the same parts, of other specs by flat name."""
        parts = {
            part: nested({name: specs[name] for name in names if name in specs}, self._paths)
            for part, names in self.parts.items()
        }
        return type(self)(**parts)

    def names_of(self, name: str) -> list[str]:
        """Return the flat names of a feature, or of the features in a dict; none if unknown."""
        inside = name + SEPARATOR
        return [each for each in self._all if each == name or each.startswith(inside)]

    def nested_parts(self) -> dict[str, dict[str, Any]]:
        """Return the specs of each part in nested dicts."""
        return {part: nested(features, self._paths) for part, features in self.parts.items()}

    def __getitem__(self, name: str) -> Feature:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return (self.parts, self._paths) == (other.parts, other._paths)

    __hash__ = None  # type: ignore[assignment]  # as of any mapping

    def __repr__(self) -> str:
        parts = [
            (f"{part}=" if len(self.parts) > 1 else "") + braced(specs, repr)
            for part, specs in self.nested_parts().items()
        ]
        return f"{self.public_name}({', '.join(parts)})"

    def to_table(self, title: str) -> str:
        """Internal interface: return a table of HTML of the specs."""
        rows = ((name, repr(spec)) for name, spec in self.items())
        return html_table(title, ("feature", "spec"), rows, len(self))

    def _repr_html_(self) -> str:
        return self.to_table(f"{self.public_name} of {counted(len(self), 'feature')}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.nested_parts(), self._findings, self._inspected)


def _rebuild(
    kind: type[FeatureMapping], parts: dict[str, dict[str, Any]], findings: Any, inspected: Any
) -> FeatureMapping:
    return kind(**parts).with_findings(findings, inspected)
