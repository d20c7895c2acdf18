"""Nested names: features in dicts in dicts, and their flat names.

Everything stored and everything inside this package is flat. The flat name of a feature is its
path joined by "/", as in TensorFlow Datasets. Only the values that users see are nested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from ..errors import SchemaError

Path: TypeAlias = tuple[str, ...]

SEPARATOR = "/"
# Name of the dict of masks in a batch: of steps that exist, or of boxes that are left in view.
VALID = "valid"
# A bound for recursion: dicts of this depth can be pickled, shown and compared as usual.
MOST_LEVELS = 100


def dict_of(value: Any) -> Mapping[str, Any] | None:
    """Return a value that is a dict, or None for any other."""
    return value if isinstance(value, Mapping) else None


def leaves_of(
    tree: Mapping[str, Any],
    inside: Callable[[Any], Mapping[str, Any] | None] = dict_of,
    path: Path = (),
) -> Iterator[tuple[Path, Any]]:
    """Yield the path and the value of each leaf of nested dicts, in order.

    A dict that is empty, or nested deeper than :data:`MOST_LEVELS`, is yielded as a leaf.

    Args:
        tree: The outermost dict.
        inside: Function that returns the dict that a value is, or None if it is a leaf.
        path: Path of ``tree``.
    """
    for key, value in tree.items():
        inner = inside(value)
        if inner and len(path) < MOST_LEVELS - 1:
            yield from leaves_of(inner, inside, (*path, key))
        else:
            yield (*path, key), value


def nested(values: Mapping[str, Any], paths: Mapping[str, Path]) -> dict[str, Any]:
    """Return values by flat name as nested dicts.

    Args:
        values: Values by flat name.
        paths: Paths of the nested ones, by flat name; may have others.
    """
    made: dict[str, Any] = {}
    for name, value in values.items():
        path = paths.get(name)
        if path is None:
            made[name] = value
            continue
        inner = made
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        inner[path[-1]] = value
    return made


def check_paths(names: Iterable[str], paths: Mapping[str, Path]) -> None:
    """Check that features and dicts have different paths.

    Args:
        names: Flat names of all features of a schema.
        paths: Paths of the nested features, by flat name.

    Raises:
        SchemaError: If one part of the schema has a feature where another part has a dict.
    """
    features = {paths.get(name, (name,)) for name in names}
    for path in paths.values():
        for level in range(1, len(path)):
            if path[:level] in features:
                name = SEPARATOR.join(path[:level])
                raise SchemaError(
                    "the name must be that of a feature or of a dict in both parts", feature=name
                )
