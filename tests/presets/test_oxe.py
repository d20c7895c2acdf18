"""Tests of the tables of robot datasets, and of states and actions that are made with them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

import torchrec_io as tio
from tests.conftest import ROOT

ENCODINGS = {"pos_euler", "pos_quat", "joint", "none"}


def steps(columns: dict[str, Any]) -> tio.Batch:
    """Return a batch of two steps; features are named as in the tables, without "steps/"."""
    nested: dict[str, Any] = {}
    for name, values in columns.items():
        *path, last = name.split("/")
        inner = nested
        for key in path:
            inner = inner.setdefault(key, {})
        inner[last] = torch.tensor(values)
    [first, second] = [{"steps": _row(nested, row)} for row in range(2)]
    return tio.collate([first, second])


def _row(value: Any, row: int) -> Any:
    if isinstance(value, dict):
        return {name: _row(inner, row) for name, inner in value.items()}
    return value[row]


def rounded(values: torch.Tensor) -> Any:
    return [[round(number, 4) for number in row] for row in values.tolist()]


def test_keys_of_a_dataset() -> None:
    droid = tio.presets.oxe("droid")
    assert droid.cameras == {
        "primary": "steps/observation/exterior_image_1_left",
        "secondary": "steps/observation/exterior_image_2_left",
        "wrist": "steps/observation/wrist_image_left",
    }
    assert droid.features == [
        *droid.cameras.values(),
        "steps/observation/cartesian_position",
        "steps/observation/gripper_position",
        "steps/action_dict/cartesian_velocity",
        "steps/action_dict/gripper_position",
        "steps/language_instruction",
    ]
    assert droid.mask == (True,) * 6 + (False,)
    assert (droid.action_encoding, droid.frequency, droid.depth) == ("eef_pos", 15, {})
    assert droid.action[1] == tio.presets.OxePart(
        "steps/action_dict/gripper_position", rules=("invert",)
    )
    assert tio.presets.oxe("roboset").mask == (True,) * 7 + (False,)


def test_every_dataset_and_mixture() -> None:
    names = tio.presets.oxe_names()
    assert len(names) == len(set(names)) > 65
    for name in names:
        found = tio.presets.oxe(name)
        assert found.state_encoding in ENCODINGS
        assert found.cameras
        assert set(found.cameras) | set(found.depth) <= {"primary", "secondary", "wrist"}
        assert all(part.feature or part.stop for part in (*found.state, *found.action))
    tables = json.loads((ROOT / "torchrec_io/presets/robot_datasets.json").read_text("utf-8"))
    for mixture in tables["mixtures"]:
        weights = tio.presets.oxe_mixture(mixture)
        assert set(weights) <= set(names)
        assert all(weight > 0 for weight in weights.values())
    assert tio.presets.oxe_mixture("oxe_magic_soup")["kuka"] == 0.8341046294


def test_two_versions_of_bridge() -> None:
    assert tio.presets.oxe("bridge") == tio.presets.oxe("bridge_oxe")
    assert tio.presets.oxe("bridge_orig").action == tio.presets.oxe("bridge_dataset").action
    assert "steps/action" in tio.presets.oxe("bridge_orig").features
    assert "steps/action/world_vector" in tio.presets.oxe("bridge").features


def test_parts_are_concatenated() -> None:
    batch = steps(
        {
            "observation/robot_obs": [[*range(15)], [*range(20, 35)]],
            "action/rel_actions_world": [[0.5] * 6 + [-1.0], [0.25] * 6 + [1.0]],
        }
    )
    taco = tio.presets.oxe("taco_play")
    state, action = taco.concat(batch, "state"), taco.concat(batch, "action")
    assert state.dtype == torch.float32
    assert state.tolist() == [[0, 1, 2, 3, 4, 5, 0, 7], [20, 21, 22, 23, 24, 25, 0, 27]]
    assert action.tolist() == [[0.5] * 6 + [0.0], [0.25] * 6 + [1.0]]
    assert taco.concat(next(iter(batch.samples())), "action").tolist() == action[0].tolist()


def test_one_number_for_each_step() -> None:
    batch = steps(
        {
            "action/world_vector": [[0.0, 1.0, 2.0]] * 2,
            "action/rotation_delta": [[3.0, 4.0, 5.0]] * 2,
            "action/gripper_closedness_action": [-1.0, 0.75],
            "action/open_gripper": [True, False],
        }
    )
    viola, toto = tio.presets.oxe("viola"), tio.presets.oxe("toto")
    assert viola.concat(batch, "action")[:, 5:].tolist() == [[5, 1], [5, 0.25]]
    assert toto.concat(batch, "action")[:, 5:].tolist() == [[5, 1], [5, 0]]


def test_windows_and_padding_of_actions() -> None:
    batch = steps({"action": [[[1.0, 2.0]] * 3, [[3.0, 4.0]] * 3]})
    action = tio.presets.oxe("language_table").concat(batch, "action")
    assert action.tolist() == [[[1, 2, 0, 0, 0, 0, 1]] * 3, [[3, 4, 0, 0, 0, 0, 1]] * 3]


def test_rules_that_need_a_function() -> None:
    batch = steps({"action": [[0.1] * 6 + [0.9], [0.2] * 6 + [0.2]]})
    bridge = tio.presets.oxe("bridge_orig")
    with pytest.raises(ValueError, match=r"rule 'binarize': pass rules=\{'binarize': function\}"):
        bridge.concat(batch, "action")
    action = bridge.concat(batch, "action", {"binarize": lambda x: (x > 0.5).float()})
    assert rounded(action) == [[0.1] * 6 + [1.0], [0.2] * 6 + [0.0]]


def test_unknown_names() -> None:
    with pytest.raises(KeyError, match=r"did you mean 'taco_play'\? The tables have: 'bridge'"):
        tio.presets.oxe("taco")
    with pytest.raises(KeyError, match=r"did you mean 'oxe_magic_soup'.*The mixtures are: "):
        tio.presets.oxe_mixture("magic_soup")
    with pytest.raises(ValueError, match="the tables use no state of 'roboturk'"):
        tio.presets.oxe("roboturk").concat(steps({"action": [[0.0], [0.0]]}), "state")
    with pytest.raises(KeyError, match="observation/state"):
        tio.presets.oxe("utaustin_mutex").concat(steps({"action": [[0.0], [0.0]]}), "state")
