"""SequenceExamples: contexts and feature lists of every spec."""

from __future__ import annotations

import tensorflow as tf
from tf_json import Json

from .build import (
    Case,
    fixed,
    float_bits,
    floats,
    ints,
    ragged,
    sequence_example,
    steps_of,
    strings,
    varlen,
)

NO_KIND = tf.train.Feature()


def sequence_records() -> list[bytes]:
    """Three steps, one step, none; missing lists; steps without a kind or without values."""
    whole = sequence_example(
        {
            "id": ints(7),
            "size": floats(0.5, 1.5),
            "tags": strings(b"a", b"", b"c"),
            "row": ints(1, 2, 3),
            "lengths": ints(1, 2),
        },
        {
            "frames": [strings(b"f0"), strings(b""), strings(b"\xff")],
            "boxes": [floats(0, 1, 2, 3), floats(4, 5, 6, 7), floats(8, 9, 10, 11)],
            "labels": [ints(1, 2), ints(), ints(3)],
            "words": [strings(b"x"), NO_KIND, strings(b"y", b"z")],
            "splits": [ints(0, 1, 2), ints(0), ints(0, 1)],
            "parts": [ints(2), ints(), ints(0, 1)],
        },
    )
    one = sequence_example(
        {"id": ints(-1), "size": floats(2, 3), "tags": strings(), "lengths": ints()},
        {
            "frames": [strings(b"only")],
            "boxes": [floats(-1, -2, -3, -4)],
            "labels": [ints(9, 8, 7, 6)],
            "words": [strings()],
            "splits": [ints(0, 0, 4)],
            "parts": [ints(1, 3)],
        },
    )
    none = sequence_example(
        {"id": ints(0), "row": ints(5), "lengths": ints(1)},
        {name: [] for name in ("frames", "boxes", "labels", "words", "splits", "parts")},
    )
    return [whole, one, none, sequence_example({"id": ints(3)}, {})]


CONTEXT = {
    "id": fixed("int64", []),
    "size": fixed("float32", [2], [float_bits(0.25), float_bits(-0.0)]),
    "tags": varlen("string"),
    "row": ragged("int64", row_splits_dtype="int64"),
}
STEPS = {
    "frames": steps_of("string", []),
    "boxes": steps_of("float32", [2, 2]),
    "labels": varlen("int64"),
    "words": varlen("string"),
}
RAGGED = {
    "labels": ragged("int64"),
    "words": ragged("string", row_splits_dtype="int64"),
    "boxes": ragged("float32", validate=True),
}
PARTS = {
    "a": ragged("int64", ("RowSplits", "splits"), key="labels"),
    "b": ragged("int64", ("RowLengths", "parts"), key="labels", validate=True),
    "c": ragged("float32", ("UniformRowLength", 2), key="boxes"),
}


def sequence_cases() -> list[Case]:
    """Batches, then each record by itself."""
    file = "sequence.tfrecord"
    required = {name: {**spec, "allow_missing": False} for name, spec in STEPS.items()}
    context_rows = {"x": ragged("int64", ("RowLengths", "lengths"), key="row")}
    specs: dict[str, tuple[Json, Json]] = {
        "context": (CONTEXT, {}),
        "context_rows": (context_rows, {}),
        "steps": ({}, STEPS),
        "both": (CONTEXT, STEPS),
        "ragged": ({}, RAGGED),
        "parts": ({"id": fixed("int64", [])}, PARTS),
        "never": ({"never": varlen("int64")}, {"nor": steps_of("int64", [3])}),
    }
    all_there = {name: spec for name, spec in required.items() if name in ("frames", "boxes")}
    refused: dict[str, tuple[Json, Json, list[int]]] = {
        "context_missing": ({"size": fixed("float32", [2])}, {}, [0, 2]),
        "context_count": ({"tags": fixed("string", [2])}, {}, [0]),
        "context_kind": ({"tags": varlen("int64")}, {}, [0]),
        "steps_missing": ({}, all_there, [0, 3]),
        "step_count": ({}, {"boxes": steps_of("float32", [3])}, [0]),
        "step_empty": ({}, {"labels": steps_of("int64", [2])}, [0]),
        "step_no_kind": ({}, {"words": steps_of("string", [1])}, [0]),
        "step_kind": ({}, {"labels": varlen("float32")}, [0]),
        "step_default": ({}, {"frames": steps_of("string", [], "00")}, [0]),
        "fixed_in_lists": ({}, {"frames": fixed("string", [])}, [0]),
        "sequence_in_context": ({"id": steps_of("int64", [])}, {}, [0]),
    }
    return [
        *(Case(f"sequence/{n}", file, c, None, s) for n, (c, s) in specs.items()),
        *(
            Case(f"sequence/{name}/{n}", file, context, [n], lists, single=True)
            for name, (context, lists) in specs.items()
            for n in range(4)
        ),
        Case("sequence/required", file, {}, [0, 2, 1], all_there),
        Case(
            "sequence/no_examples",
            file,
            {"tags": varlen("string")},
            [],
            {**RAGGED, "frames": STEPS["frames"]},
        ),
        *(Case(f"refused/{n}", file, c, rows, s) for n, (c, s, rows) in refused.items()),
    ]
