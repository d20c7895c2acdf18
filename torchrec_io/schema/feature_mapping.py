"""What schemas of all kinds of records share: they are mappings from name to spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from .nesting import Path
from .specs import Feature

if TYPE_CHECKING:
    from .infer import Finding


class FeatureMapping(Mapping[str, Feature]):
    """Base of schemas: specs by flat name.

    ``public_name`` is the name of the class in ``torchrec_io``. A schema sets ``_all``, the specs;
    ``_paths``, where those are that stand in dicts; and ``_findings``, if it was inferred.
    """

    public_name: ClassVar[str] = "Schema"
    _all: dict[str, Feature]
    _paths: dict[str, Path]
    _findings: dict[str, Finding] | None

    @property
    def paths(self) -> Mapping[str, tuple[str, ...]]:
        """Keys of the dicts that lead to each nested feature, by its flat name; of no others."""
        return MappingProxyType(self._paths)

    @property
    def findings(self) -> Mapping[str, Finding] | None:
        """What ``infer`` has seen of each feature, by name, of those left out too.

        None for other schemas. Two schemas may be equal whatever their findings.
        """
        return None if self._findings is None else MappingProxyType(self._findings)

    def __getitem__(self, name: str) -> Feature:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)
