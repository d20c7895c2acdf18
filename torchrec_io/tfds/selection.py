"""Which features of a TFDS dataset are read, and how: what the user says, and what it has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from ..schema.nesting import Path, dict_of, leaves_of
from .to_schema import SpecTree, Unread

# Names to read; or by name a spec, a dict of specs, or None for a feature that is not read.
FeatureChoice: TypeAlias = "Iterable[str] | Mapping[str, Any]"

_Leaves: TypeAlias = "dict[Path, Any]"


class StoredKeys(NamedTuple):
    """Which stored features show that a record is one of the dataset's.

    Attributes:
        all_of: Those without which the dataset's own specs that are read cannot read a record.
        any_of: All that the dataset's specs read, of which a record has one at least; empty if
            there are some that nobody knows.
    """

    all_of: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()

    def missing_in(self, names: Collection[str]) -> list[str]:
        """What a record should have and does not, by the names of its features."""
        missing = [key for key in self.all_of if key not in names]
        if not missing and self.any_of and not any(key in names for key in self.any_of):
            return list(self.any_of)
        return missing


class Chosen(NamedTuple):
    """What is read.

    Attributes:
        specs: Nested, as :class:`Schema` takes it; what cannot be read is an :class:`Unread`.
        keys: What each record must have.
    """

    specs: dict[str, Any]
    keys: StoredKeys

    def unread(self) -> Iterator[tuple[str, Unread]]:
        """What cannot be read, by name."""
        for path, leaf in leaves_of(self.specs):
            if isinstance(leaf, Unread):
                yield "/".join(path), leaf


def choose(specs: SpecTree, features: FeatureChoice | None = None) -> Chosen:
    """The specs of a dataset, less what is not wanted, and with others in place of some.

    Args:
        specs: All of the dataset's.
        features: Names to read, where a name stands also for all that is nested in it; or a dict
            from name to a spec in place of the dataset's own, or None to leave it out.

    Raises:
        ValueError: the dataset has no such feature, or nothing is left.
    """
    # A dict of no features is no leaf either.
    own = {path: leaf for path, leaf in leaves_of(specs) if dict_of(leaf) is None}
    keys = tuple(_stored(own))
    given: _Leaves = {}
    if isinstance(features, Mapping):
        own, given = _replaced(own, features)
    elif features is not None:
        if isinstance(features, str) or not isinstance(features, Iterable):
            raise ValueError(  # noqa: TRY004  # a str, too, is an iterable of str
                f"features must be a list of names or a dict, not {features!r}"
            )
        wanted = {path for name in features for path in _named(own, name)}
        own = {path: leaf for path, leaf in own.items() if path in wanted}
    if not own and not given:
        raise ValueError("features leaves nothing to read")
    return Chosen(_nested({**own, **given}), StoredKeys(tuple(_required(own)), keys))


def _replaced(own: _Leaves, features: Mapping[str, Any]) -> tuple[_Leaves, _Leaves]:
    kept, given = dict(own), {}
    for name, spec in features.items():
        place, gone = _place(own, name)
        for path in gone:
            kept.pop(path, None)
        if spec is not None:
            given[place] = spec
    return kept, given


def _place(own: _Leaves, name: str) -> tuple[Path, list[Path]]:
    """Where in the dict a name is, and what gives way to it."""
    for path, leaf in own.items():
        # Of a connector nobody knows, only the user can know what it stores.
        flat = "/".join(path)
        if isinstance(leaf, Unread) and leaf.class_name and name.startswith(f"{flat}/"):
            return (*path, name[len(flat) + 1 :]), [path]
    gone = _named(own, name)
    depth = next(n for n in range(1, len(gone[0]) + 1) if "/".join(gone[0][:n]) == name)
    return gone[0][:depth], gone


def _named(own: _Leaves, name: str) -> list[Path]:
    """The features that a name stands for."""
    found = [
        path
        for path in own
        if any("/".join(path[:depth]) == name for depth in range(1, len(path) + 1))
    ]
    if not found:
        known = ", ".join(repr("/".join(path)) for path in own)
        raise ValueError(f"the dataset has no feature {name!r}; it has {known}")
    return found


def _nested(leaves: _Leaves) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for path, leaf in leaves.items():
        inner = nested
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = leaf
    return nested


def _stored(own: _Leaves) -> Iterator[str]:
    """All stored features that specs read; nothing if some of them are not known."""
    if any(isinstance(spec, Unread) for spec in own.values()):
        return
    for path, spec in own.items():
        keys = spec.stored_keys("/".join(path))
        yield from (stored.key for stored in keys if stored.kind != "shape")


def _required(own: _Leaves) -> Iterator[str]:
    for path, spec in own.items():
        if not isinstance(spec, Unread):
            keys = spec.stored_keys("/".join(path))
            yield from (stored.key for stored in keys if stored.is_required)
