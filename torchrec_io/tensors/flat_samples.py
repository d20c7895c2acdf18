"""Samples with dicts in them, by flat names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..schema.nesting import MOST_LEVELS, SEPARATOR, Path, dict_of, leaves_of


def flat_samples(
    samples: Sequence[Mapping[str, Any]],
) -> tuple[Sequence[Mapping[str, Any]], dict[str, Path]]:
    """Samples without dicts in them, and the paths of what was in some.

    Args:
        samples: At least one. Whether there are dicts the first one tells: if there are none in it,
            all are given as they are.

    Raises:
        ValueError: two values have one flat name, or a dict is empty or too deep.
        TypeError: a dict has a key that is no str.
    """
    if not any(isinstance(value, Mapping) for value in samples[0].values()):
        return samples, {}
    paths: dict[str, Path] = {}
    names: dict[Path, str] = {}  # most paths come again in each sample
    flat: list[dict[str, Any]] = []
    for sample in samples:
        flat.append({})
        for path, value in leaves_of(sample):
            name = names.get(path)
            if name is None or dict_of(value) is not None:
                name = names[path] = _flat_name(path, value)
                known = paths.setdefault(name, path)
                if known != path:
                    raise ValueError(
                        f"two values in the samples have the flat name {name!r}, by their paths "
                        f"{known} and {path}"
                    )
            flat[-1][name] = value
    return flat, {name: path for name, path in paths.items() if len(path) > 1}


def _flat_name(path: Path, value: Any) -> Any:
    if len(path) > 1 and not all(isinstance(key, str) for key in path):
        raise TypeError(f"the keys of dicts in samples must be str, not {path}")
    name = path[0] if len(path) == 1 else SEPARATOR.join(path)
    if dict_of(value) is not None:
        what = f"on level {MOST_LEVELS}: there are no deeper ones" if value else "empty"
        raise ValueError(f"a dict in the samples, {name!r}, is {what}")
    return name
