"""Choice of the features of a TFDS dataset that are read, and of their specs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from .._schema.nesting import Path, dict_of, leaves_of
from .._schema.stored_keys import StoredKey
from .to_schema import SpecTree, Unreadable

# Names of features to read; or a dict from name to a spec, a dict of specs, or None to leave out.
FeatureChoice: TypeAlias = "Iterable[str] | Mapping[str, Any]"

_Leaves: TypeAlias = "dict[Path, Any]"


class StoredKeys(NamedTuple):
    """Stored features that identify the records of a dataset.

    Attributes:
        all_of: Stored features that every record must have, because specs of the dataset that are
            read require them.
        any_of: All stored features of the dataset, of which every record must have at least one;
            empty if some of them are not known.
    """

    all_of: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()

    def missing_in(self, names: Collection[str]) -> list[str]:
        """Return the stored features that a record lacks, given the names of its features."""
        missing = [key for key in self.all_of if key not in names]
        if not missing and self.any_of and not any(key in names for key in self.any_of):
            return list(self.any_of)
        return missing


class ChosenFeatures(NamedTuple):
    """The features that are read.

    Attributes:
        specs: Specs in nested dicts, as for :class:`Schema`, with an :class:`Unreadable` in place
            of the spec of each feature that cannot be read.
        keys: Stored features that each record must have.
    """

    specs: dict[str, Any]
    keys: StoredKeys

    def unreadable(self) -> Iterator[tuple[str, Unreadable]]:
        """Yield the flat name of each feature that cannot be read, and the reason."""
        for path, leaf in leaves_of(self.specs):
            if isinstance(leaf, Unreadable):
                yield "/".join(path), leaf


def choose(specs: SpecTree, features: FeatureChoice | None = None) -> ChosenFeatures:
    """Choose the features of a dataset, and replace some of their specs.

    Args:
        specs: Specs of all features of the dataset.
        features: Names of the features to read, where the name of a dict stands for all features in
            it; or a dict from name to a spec that replaces the dataset's own, or to None to leave
            the feature out. Default: all features.

    Raises:
        ValueError: If the dataset does not have a feature, or if no feature is left.
    """
    # Empty dicts are leaves for leaves_of(), but not features.
    own = {path: leaf for path, leaf in leaves_of(specs) if dict_of(leaf) is None}
    any_of: tuple[str, ...] = ()
    if not any(isinstance(leaf, Unreadable) for leaf in own.values()):
        any_of = tuple(stored.key for stored in _stored_keys(own) if stored.kind != "shape")
    given: _Leaves = {}
    if isinstance(features, Mapping):
        own, given = _replace(own, features)
    elif features is not None:
        if isinstance(features, str) or not isinstance(features, Iterable):
            raise ValueError(  # noqa: TRY004  # a str is an iterable of str, too
                f"features must be a list of names or a dict, got {features!r}"
            )
        wanted = {path for name in features for path in _find(own, name)}
        own = {path: leaf for path, leaf in own.items() if path in wanted}
    if not own and not given:
        raise ValueError("features must leave at least one feature to read")
    all_of = tuple(stored.key for stored in _stored_keys(own) if stored.is_required)
    return ChosenFeatures(_nest({**own, **given}), StoredKeys(all_of, any_of))


def _replace(own: _Leaves, features: Mapping[str, Any]) -> tuple[_Leaves, _Leaves]:
    kept, given = dict(own), {}
    for name, spec in features.items():
        place, replaced = _locate(own, name)
        for path in replaced:
            kept.pop(path, None)
        if spec is not None:
            given[place] = spec
    return kept, given


def _locate(own: _Leaves, name: str) -> tuple[Path, list[Path]]:
    """Return the path of a name, and the paths of the features that it replaces."""
    for path, leaf in own.items():
        # Only the user can know the names that an unknown connector stores.
        flat = "/".join(path)
        if isinstance(leaf, Unreadable) and leaf.class_name and name.startswith(f"{flat}/"):
            return (*path, name[len(flat) + 1 :]), [path]
    found = _find(own, name)
    return found[0][: _depth_of(name, found[0])], found


def _find(own: _Leaves, name: str) -> list[Path]:
    """Return the paths of the features that a name stands for."""
    found = [path for path in own if _depth_of(name, path)]
    if not found:
        known = ", ".join(repr("/".join(path)) for path in own)
        raise ValueError(f"the dataset has no feature {name!r}; its features are {known}")
    return found


def _depth_of(name: str, path: Path) -> int:
    """Return the depth at which a path has a flat name; 0 if it is not on the path."""
    depths = range(1, len(path) + 1)
    return next((depth for depth in depths if "/".join(path[:depth]) == name), 0)


def _nest(leaves: _Leaves) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for path, leaf in leaves.items():
        inner = nested
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = leaf
    return nested


def _stored_keys(own: _Leaves) -> Iterator[StoredKey]:
    """Yield the stored features that specs read."""
    for path, spec in own.items():
        if not isinstance(spec, Unreadable):
            yield from spec.stored_keys("/".join(path))
