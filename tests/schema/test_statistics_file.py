"""Files of statistics, in the forms of openpi, OpenVLA and LeRobot."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torchrec_io as tio

FEATURE: Any = tio.FeatureStatistics  # takes lists, too
ACTION = FEATURE(
    mean=[0.5, 2.0], std=[0.25, 0.0], min=[0.0, 2.0], max=[1.0, 2.0], q01=[0.125, 2.0],
    q99=[0.75, 2.0], count=8, mask=[True, False],
)  # fmt: skip
STATE = FEATURE(mean=3.0, std=1.0, min=1.0, max=5.0, q01=1.5, q99=4.5, count=8)
STATS = tio.Statistics(action=ACTION, state=STATE)

FILES = {
    "openpi": """
        {"norm_stats": {
          "action": {"mean": [0.5, 2.0], "std": [0.25, 0.0], "q01": [0.125, 2.0],
                     "q99": [0.75, 2.0]},
          "state": {"mean": [3.0], "std": [1.0], "q01": [1.5], "q99": [4.5]}}}""",
    "openvla": """
        {"bridge": {
          "action": {"mean": [0.5, 2.0], "std": [0.25, 0.0], "max": [1.0, 2.0], "min": [0.0, 2.0],
                     "q01": [0.125, 2.0], "q99": [0.75, 2.0], "mask": [true, false]},
          "state": {"mean": [3.0], "std": [1.0], "max": [5.0], "min": [1.0], "q01": [1.5],
                    "q99": [4.5]},
          "num_transitions": 8}}""",
    "lerobot": """
        {"action": {"min": [0.0, 2.0], "max": [1.0, 2.0], "mean": [0.5, 2.0], "std": [0.25, 0.0],
                    "count": [8], "q01": [0.125, 2.0], "q99": [0.75, 2.0]},
         "state": {"min": [1.0], "max": [5.0], "mean": [3.0], "std": [1.0], "count": [8],
                   "q01": [1.5], "q99": [4.5]}}""",
}


def save(path: Path, form: Any, stats: tio.Statistics = STATS) -> Any:
    stats.save(path, form, dataset="bridge" if form == "openvla" else None)
    return json.loads(path.read_bytes())


@pytest.mark.parametrize("form", FILES)
def test_saved(tmp_path: Path, form: str) -> None:
    saved = save(tmp_path / "x.json", form)
    assert json.dumps(saved) == json.dumps(json.loads(FILES[form]))  # in this order
    assert [*tmp_path.iterdir()] == [tmp_path / "x.json"]


def fields_of(stats: tio.FeatureStatistics) -> dict[str, Any]:
    """The fields that are known, as lists."""
    known = {name: value for name, value in dataclasses.asdict(stats).items() if value is not None}
    return {name: getattr(value, "tolist", lambda v=value: v)() for name, value in known.items()}


@pytest.mark.parametrize("form", FILES)
def test_loaded(tmp_path: Path, form: str) -> None:
    (tmp_path / "x.json").write_text(FILES[form])
    found = tio.load_statistics(tmp_path / "x.json")
    missing = {"openpi": ["min", "max", "count", "mask"], "lerobot": ["mask"]}.get(form, [])
    expected = {name: value for name, value in fields_of(ACTION).items() if name not in missing}
    assert fields_of(found["action"]) == expected
    assert found["state"].mean.tolist() == [3.0]
    assert save(tmp_path / "again.json", form, found) == json.loads(FILES[form])


def test_several_datasets(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    [(_, stats)] = json.loads(FILES["openvla"]).items()
    # The configuration of a model of OpenVLA has them, too.
    path.write_text(json.dumps({"norm_stats": {"a": stats, "b": {"action": stats["state"]}}}))
    assert tio.load_statistics(path, dataset="b")["action"].mean.tolist() == [3.0]
    for dataset in (None, "c"):
        with pytest.raises(ValueError, match=f"dataset must be one of .*'a', 'b', got {dataset!r}"):
            tio.load_statistics(path, dataset=dataset)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not a file of statistics: the text is not valid JSON"),
        ("[1]", "is not a file of statistics: it must be JSON of openpi"),
        ('{"a": {"mean": [1]}}', "is not a file of statistics: it must be"),
        ('{"a": {"mean": ["x"], "std": [1]}}', "has statistics that are not valid"),
        (
            '{"a": {"mean": [1, 2], "std": [1]}}',
            r"not valid: std must have the shape of mean, \[2\]",
        ),
        ('{"a": {"mean": [1], "std": [1], "count": []}}', "has statistics that are not valid"),
    ],
)
def test_other_files(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        tio.load_statistics(tmp_path / "x.json")


def test_invalid_arguments(tmp_path: Path) -> None:
    arguments: Any
    for arguments, message in [
        ({"form": "octo"}, "form must be one of 'openpi', 'openvla', 'lerobot', got 'octo'"),
        ({"form": "openvla"}, "dataset must be a name for form='openvla' alone, got None"),
        ({"form": "lerobot", "dataset": "x"}, "dataset must be a name .* alone, got 'x'"),
    ]:
        with pytest.raises(ValueError, match=message):
            STATS.save(tmp_path / "x.json", **arguments)
    (tmp_path / "openpi.json").write_text(FILES["openpi"])
    stats = tio.load_statistics(tmp_path / "openpi.json")
    with pytest.raises(ValueError, match="the statistics have no min: they were loaded without it"):
        stats.save(tmp_path / "x.json", "lerobot")
    with pytest.raises(KeyError, match="did you mean 'action'"):
        stats["actions"]
    with pytest.raises(ValueError, match="std must have finite numbers"):
        FEATURE(mean=[1.0], std=[float("nan")])
    assert not (tmp_path / "x.json").exists()


def test_by() -> None:
    values = [0.5, 2.5]
    bounds: Any = ACTION.by("min", "max")
    assert bounds == tio.Normalize([0.5, 2.0], [0.5, 0.0], [True, False])
    assert ACTION.by("q01", "q99")([0.125, 7.0]).tolist() == [-1.0, 7.0]
    assert ACTION.by("q01", "q99", clip=1)([9.0, 7.0]).tolist() == [1.0, 7.0]
    normalized = ACTION.by("mean", "std", mask=[True, True])
    assert normalized(values).tolist() == [0.0, 0.0]
    assert normalized.denormalize(normalized(values)).tolist() == [0.5, 2.0]
    assert STATE.by("mean", "std")(5.0) == 2.0
    rounded = FEATURE(mean=[0.1, 3e-8], std=[1e-17, 1e-8])  # of 0.1 alone, and of other values
    assert rounded.by("mean", "std").scale == (0.0, 1e-8)
    with pytest.raises(ValueError, match=r"by\(\) takes .* got 'min' and 'std'"):
        ACTION.by("min", "std")


def test_the_rules_of_others() -> None:
    """The formulas of Octo and OpenVLA, with their addition to the divisor."""
    values = np.random.default_rng(0).normal(size=(100, 2))
    low, high = np.quantile(values, [0.01, 0.99], axis=0)
    mean, std = values.mean(axis=0), values.std(axis=0)
    stats = tio.FeatureStatistics(mean=mean, std=std, q01=low, q99=high)
    expected = np.clip(2 * (values - low) / (high - low + 1e-8) - 1, -1, 1)
    np.testing.assert_allclose(stats.by("q01", "q99", clip=1)(values), expected, atol=1e-7)
    standard = (values - mean) / (std + 1e-8)
    np.testing.assert_allclose(stats.by("mean", "std")(values), standard, atol=1e-7)
