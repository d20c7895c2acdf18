"""TensorFlow reads what this package encodes.

``tests/writing`` compares the bytes with those of protobuf.
"""

from __future__ import annotations

import torchrec_io as tio
from tests.conftest import TfOracle
from tests.interop.generate import Spec


def test_features_of_every_kind(tf_oracle: TfOracle) -> None:
    records = tio.encode_examples(
        [{"i": [-1, 2**62], "f": [0.5], "s": [b"a", ""], "x": None}, {"x": 3}, {}]
    )
    kinds = {"i": "int64", "f": "float32", "s": "string"}
    spec: Spec = {name: {"type": "VarLen", "dtype": dtype} for name, dtype in kinds.items()}
    spec["x"] = {"type": "FixedLen", "dtype": "int64", "shape": [], "default": 7}
    found = tf_oracle.parse_example(records, spec)["features"]
    assert found["i"] == {"dtype": "int64", "row_lengths": [2, 0, 0], "values": [-1, 2**62]}
    assert found["f"] == {"dtype": "float32", "row_lengths": [1, 0, 0], "values": ["3f000000"]}
    assert found["s"] == {"dtype": "string", "row_lengths": [2, 0, 0], "values": ["61", ""]}
    assert found["x"]["values"] == [7, 3, 7]  # a feature without a kind is missing


def test_feature_lists(tf_oracle: TfOracle) -> None:
    record = tio.encode_sequence_example({"id": 7}, {"steps": [[1, 2], [], [3]], "none": []})
    lists = {name: {"type": "Ragged", "dtype": "int64"} for name in ("steps", "none")}
    context: Spec = {"id": {"type": "FixedLen", "dtype": "int64", "shape": [], "default": None}}
    answer = tf_oracle.ask(
        op="parse_sequence_example", examples=[record.hex()], context=context, sequence=lists
    )
    assert answer["features"]["id"]["values"] == [7]
    assert answer["features"]["steps"]["row_splits"] == [[0, 3], [0, 2, 2, 3]]
    assert answer["features"]["none"]["row_splits"] == [[0, 0], [0]]
