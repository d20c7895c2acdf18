"""Nested names: dicts in dicts, and the flat names of what is in them.

What is stored, and all that is inside of this package, is flat: the name of a leaf is its path,
joined by "/", as TensorFlow Datasets stores nested features. Only what users see is nested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from ..errors import SchemaError

Path: TypeAlias = tuple[str, ...]

SEPARATOR = "/"
# More than anybody needs, and so few that dicts may be pickled, shown and compared as usual.
MOST_LEVELS = 100


def dict_of(value: Any) -> Mapping[str, Any] | None:
    """A value that is a dict; None of any other."""
    return value if isinstance(value, Mapping) else None


def leaves_of(
    tree: Mapping[str, Any],
    inside: Callable[[Any], Mapping[str, Any] | None] = dict_of,
    path: Path = (),
) -> Iterator[tuple[Path, Any]]:
    """Paths and values of all that is in dicts, in their order.

    A dict that is empty, or on more levels than :data:`MOST_LEVELS`, comes as a value.

    Args:
        tree: The outermost dict.
        inside: Gives the dict that a value is; None of what is none.
        path: Of ``tree``.
    """
    for key, value in tree.items():
        inner = inside(value)
        if inner and len(path) < MOST_LEVELS - 1:
            yield from leaves_of(inner, inside, (*path, key))
        else:
            yield (*path, key), value


def nested(values: Mapping[str, Any], paths: Mapping[str, Path]) -> dict[str, Any]:
    """Values by their flat names, put into dicts.

    Args:
        values: By flat name.
        paths: Of those that are in dicts; others may be among them.
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
    """Refuses features of which one would lie where there is a dict of others.

    Args:
        names: Flat names of all features of a schema.
        paths: Of those that are in dicts.

    Raises:
        SchemaError: a feature of one part of the schema is where another part has a dict.
    """
    features = {paths.get(name, (name,)) for name in names}
    for path in paths.values():
        for level in range(1, len(path)):
            if path[:level] in features:
                name = SEPARATOR.join(path[:level])
                raise SchemaError("it is a feature in one part, a dict in the other", feature=name)
