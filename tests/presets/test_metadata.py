"""Tests of rejecting metadata files that are damaged, hostile or of another dataset."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.presets.published import MESH_META, PARTICLES_META
from torchrec_io.errors import SchemaError


def mesh_schema(folder: Path, text: str) -> tio.Schema:
    path = folder / "meta.json"
    path.write_text(text)
    return tio.presets.mesh_graph_nets(path)


def changed(field: str, **members: Any) -> str:
    """The metadata with one field that is described differently; None takes a member away."""
    meta = copy.deepcopy(MESH_META)
    members = {**meta["features"].get(field, {}), **members}
    meta["features"][field] = {k: v for k, v in members.items() if v is not None}
    return json.dumps(meta)


def test_fields_of_the_metadata(tmp_path: Path) -> None:
    schema = mesh_schema(tmp_path, json.dumps(MESH_META))
    assert dict(schema) == {
        "cells": tio.RawFeature("int32", [1, None, 3]),
        "mesh_pos": tio.RawFeature("float32", [1, None, 2]),
        "node_type": tio.RawFeature("int32", [1, None, 1]),
        "velocity": tio.RawFeature("float32", [4, None, 2]),
        "sizing_field": tio.RawFeature("float32", [None, 3]),
        "length_sizing_field": tio.RawFeature("int32", [None]),
    }
    known = mesh_schema(tmp_path, changed("velocity", shape=[4, 10, 2]))
    assert known["velocity"] == tio.RawFeature("float32", [4, 10, 2])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "an object is needed"),
        ("{}", "'features' is missing"),
        ('{"features": []}', "features: an object is needed"),
        ('{"features": {}}', "there must be 1 to 1000 features, got 0"),
        (
            json.dumps({"features": {f"f{i}": {} for i in range(1001)}}),
            "1 to 1000 features, got 1001",
        ),
        (changed("cells", dtype=None), "features.cells: 'dtype' is missing"),
        (changed("cells", shape=None), "features.cells: 'shape' is missing"),
        (changed("cells", type=None), "features.cells: 'type' is missing"),
        (
            changed("cells", type="sometimes"),
            "type must be one of static, dynamic, dynamic_varlen, got 'sometimes'",
        ),
        (changed("cells", dtype="string"), "'string' is not a dtype"),
        (changed("cells", dtype="os.system"), "'os.system' is not a dtype"),
        (changed("cells", dtype=3), "a string is needed"),
        (changed("cells", shape="3"), "a list is needed"),
        (changed("cells", shape=[1, "x"]), r"shape\[1\]: a whole number"),
        (changed("cells", shape=[1, -2]), r"shape\[1\]: a whole number"),
        (changed("cells", shape=[2**40]), r"shape\[0\]: a whole number"),
        (changed("cells", shape=[1.5]), r"shape\[0\]: a whole number"),
        (changed("cells", shape=[-1, -1, 3]), "at most one None"),
        (changed("cells", shape=[-1, 0]), "no 0 beside a None"),
        (changed("cells", shape=[2**31 - 1] * 4), "must fit in memory"),
        (changed("cells", shape=[1] * 17), "at most 16 dimensions, got 17"),
        (
            changed("new", type="static", shape=[1], dtype="int32"),
            "'new' is described, but missing in",
        ),
        (
            changed("length_sizing_field", type="static", shape=[1], dtype="int32"),
            "'length_sizing_field' must not be both a field and the lengths",
        ),
        (json.dumps({**MESH_META, "field_names": "cells"}), "field_names: a list is needed"),
        ('{"features": {"a": 1, "a": 2}}', "'a' is used twice"),
        ('{"features": {"a": {"shape": [%s]}}}' % ("9" * 50), "a number has 50 characters"),
    ],
)
def test_invalid_metadata_of_meshes(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason) as caught:
        mesh_schema(tmp_path, text)
    assert caught.value.path == str(tmp_path / "meta.json")


def test_without_names_of_fields_all_described_ones_are_stored(tmp_path: Path) -> None:
    meta = {name: value for name, value in MESH_META.items() if name != "field_names"}
    assert len(mesh_schema(tmp_path, json.dumps(meta))) == 6


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"dim": None}, "'dim' is missing"),
        ({"dim": 0}, "dim: a whole number from 1 to 16"),
        ({"dim": 17}, "dim: a whole number from 1 to 16"),
        ({"sequence_length": None}, "'sequence_length' is missing"),
        ({"sequence_length": "many"}, "a whole number"),
        ({"context_mean": 0.5}, "a list is needed"),
        ({"context_mean": []}, "there must be 1 to 1000 numbers, got 0"),
    ],
)
def test_invalid_metadata_of_particles(
    tmp_path: Path, members: dict[str, Any], reason: str
) -> None:
    path = tmp_path / "metadata.json"
    path.write_text(json.dumps({**PARTICLES_META, **members}))
    with pytest.raises(SchemaError, match=reason) as caught:
        tio.presets.learning_to_simulate(path)
    assert caught.value.path == str(path)


@pytest.mark.parametrize("preset", [tio.presets.mesh_graph_nets, tio.presets.learning_to_simulate])
def test_files_that_are_no_such_file(tmp_path: Path, preset: Any) -> None:
    with pytest.raises(FileNotFoundError):
        preset(tmp_path / "meta.json")
    with pytest.raises((SchemaError, IsADirectoryError)):
        preset(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SchemaError, match="no file"):
        preset(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate((16 << 20) + 1)
    with pytest.raises(SchemaError, match="more than 16777216 bytes"):
        preset(tmp_path / "large")
