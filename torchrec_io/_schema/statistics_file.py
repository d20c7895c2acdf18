"""Statistics of several features, and the JSON files that training code keeps them in.

* openpi: ``norm_stats.json``, as ``openpi.shared.normalize.save`` writes it.
* OpenVLA: ``dataset_statistics.json``, as ``save_dataset_statistics`` of Prismatic writes it.
* LeRobot: ``meta/stats.json``, as ``write_stats`` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np

from .._storage.local import StrPath
from .._storage.pending_file import write_atomically
from ..checks import UnknownNameError, check_choice, joined_names
from ..errors import SchemaError
from .bounded_json import parse_json
from .feature_statistics import ARRAYS, BOUNDS, MOMENTS, QUANTILES, FeatureStatistics

Form: TypeAlias = Literal["openpi", "openvla", "lerobot"]

# The statistics of each form, in its order.
_FORMS: dict[str, tuple[str, ...]] = {
    "openpi": (*MOMENTS, *QUANTILES),
    "openvla": (*MOMENTS, "max", "min", *QUANTILES),
    "lerobot": (*BOUNDS, *MOMENTS, "count", *QUANTILES),
}


class Statistics(dict[str, FeatureStatistics]):
    """Statistics by the name of the feature.

    It is a dict. To save features under other names, make one of them::

        tio.Statistics(state=stats["steps/observation/state"], actions=stats["steps/action"])
    """

    def __missing__(self, name: str) -> NoReturn:
        raise UnknownNameError(name, list(self), "the statistics have")

    def save(self, path: StrPath, form: Form, *, dataset: str | None = None) -> None:
        """Write a JSON file that other training code reads. An existing file is replaced.

        Args:
            path: Path of the file, which appears when it is complete.
            form: "openpi" for ``norm_stats.json``, "openvla" for ``dataset_statistics.json`` or
                "lerobot" for ``meta/stats.json``. A number becomes a list of one, as they need it.
            dataset: Name of the dataset (``unnorm_key``); for "openvla" alone, which needs it.

        Raises:
            ValueError: If an argument is not one of the above, or the form needs a statistic that
                a feature lacks.
            OSError: If the file cannot be written.
        """
        check_choice("form", form, _FORMS)
        if (dataset is None) is (form == "openvla"):
            raise ValueError(f"dataset must be a name for form='openvla' alone, got {dataset!r}")
        made: dict[str, Any] = {
            name: {each: _listed(feature.pick(each)) for each in _FORMS[form]}
            for name, feature in self.items()
        }
        if form == "openpi":
            made = {"norm_stats": made}
        elif form == "openvla":
            for name, feature in self.items():
                if feature.mask is not None:
                    made[name]["mask"] = _listed(feature.mask)
            counts = {feature.pick("count") for feature in self.values()}
            made = {str(dataset): {**made, "num_transitions": max(counts, default=0)}}
        write_atomically(path, json.dumps(made, indent=2).encode())

    def to_bytes(self) -> bytes:
        """Internal interface: return the statistics of a dataset as JSON, exactly."""
        fields = (*ARRAYS, "count")
        return json.dumps(
            {
                name: {each: np.asarray(feature.pick(each)).tolist() for each in fields}
                for name, feature in self.items()
            }
        ).encode()

    @classmethod
    def of_bytes(cls, data: bytes) -> Statistics:
        """Internal interface: return the statistics that :meth:`to_bytes` wrote."""
        return cls({name: _read(part, None) for name, part in json.loads(data).items()})


def load_statistics(path: StrPath, *, dataset: str | None = None) -> Statistics:
    """Read statistics from a JSON file of openpi, OpenVLA or LeRobot; the form is recognized.

    Statistics that the file lacks are None.

    Args:
        path: Path of the file.
        dataset: Name of the dataset, if the file has several, as files of OpenVLA can.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it has no statistics, or dataset must be given or is unknown.
    """
    with open(path, "rb") as file:
        content = file.read()
    try:
        found = parse_json(content)
    except SchemaError as error:
        raise ValueError(f"{path} is not a file of statistics: {error.reason}") from None
    if isinstance(found, dict):
        found = found.get("norm_stats", found)  # of openpi
    parts = _features_in(found)
    if not parts and isinstance(found, dict):  # of OpenVLA: features by dataset
        datasets = {name: each for name, each in found.items() if _features_in(each)}
        if dataset is None and len(datasets) == 1:
            [dataset] = datasets
        if datasets and dataset not in datasets:
            names = joined_names(datasets)
            raise ValueError(f"dataset must be one of those in {path}, {names}, got {dataset!r}")
        found = datasets.get(dataset, {})
        parts = _features_in(found)
    if not parts:
        raise ValueError(
            f"{path} is not a file of statistics: it must be JSON of openpi, OpenVLA or LeRobot"
        )
    try:
        count = found.get("num_transitions")
        return Statistics({name: _read(part, count) for name, part in parts.items()})
    except (TypeError, ValueError, IndexError) as error:
        raise ValueError(f"{path} has statistics that are not valid: {error}") from None


def _features_in(value: Any) -> dict[str, dict[str, Any]]:
    """Return the statistics of features in a JSON object, by the name of the feature."""
    if not isinstance(value, dict):
        return {}
    return {
        name: each
        for name, each in value.items()
        if isinstance(each, dict) and each.keys() >= set(MOMENTS)
    }


def _read(part: Mapping[str, Any], count: int | None) -> FeatureStatistics:
    fields = {name: part[name] for name in (*ARRAYS, "mask") if part.get(name) is not None}
    count = part.get("count", count)
    return FeatureStatistics(**fields, count=None if count is None else int(np.ravel(count)[0]))


def _listed(value: Any) -> Any:
    """Return an array or a number as a list."""
    return np.atleast_1d(value).tolist()
