"""Options that are refused: the error names the option, its value and what it must be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torchrec_io as tio
from tests.support.datasets import SCHEMA

SIZES = [30, 40]
COUNT = sum(SIZES)
LANES = tio.Shuffle(block=3, window=4, lanes=12)
TOKENS: dict[str, Any] = {"batch_tokens": 40, "length_key": "tokens"}


def packed(**options: Any) -> dict[str, Any]:
    return {"pack": tio.Pack(**{"length": 16, "key": "tokens", **options})}


def beside(**features: Any) -> dict[str, Any]:
    """Return a schema with tokens and other features, which is packed."""
    return {"schema": {**SCHEMA, **features}, **packed(labels="same")}


def by_length(**options: Any) -> dict[str, Any]:
    return {**TOKENS, **options}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"batch_size": 0}, "batch_size must be a positive integer, got 0"),
    ({"batch_size": True}, "batch_size must be a positive integer, got True"),
    ({"batch_size": 2**70}, "batch_size must be a positive integer"),
    ({"drop_last": True}, "drop_last needs a batch_size"),
    ({"shuffle": 0}, "shuffle must be False, True, the size of a window"),
    ({"shuffle": "yes"}, "shuffle must be False, True, the size of a window"),
    ({"seed": None}, "seed must be an integer, got None"),
    ({"epochs": -1}, "epochs must be"),
    ({"rank": 0}, "rank and world_size must be given together"),
    ({"rank": 2, "world_size": 2}, "rank must be an integer from 0 to 1, got 2"),
    ({"rank": True, "world_size": 2}, "rank must be a non-negative integer, got True"),
    ({"rank": 0, "world_size": 0}, "world_size must be a positive integer"),
    ({"uneven": "spread"}, "uneven must be one of None, 'keep', 'drop', 'pad', got 'spread'"),
    ({"on_error": "ignore"}, "'raise', 'skip' or a function"),
    ({"num_threads": 0}, "num_threads must be"),
    ({"schema": 7}, "a Schema, a dict of features, a function or None"),
    ({"transform": 5}, "transform must be a function or None, got 5"),
    ({"index": None}, "got None"),
    ({"split": "train"}, "slices look like"),
    # ---- batches by length ----
    (by_length(length_key="id"), "of the schema ('tokens') or integers, one for each"),
    (by_length(length_key=b"tokens"), "integers of shape [70]"),
    (by_length(length_key=[1] * 69), "integers of shape [70], one for each record of the files"),
    (by_length(length_key=[[1] * COUNT]), "got int64 [1, 70]"),
    (by_length(length_key=[1.0] * COUNT), "got float64 [70]"),
    (by_length(length_key=[True] * COUNT), "got bool [70]"),
    (by_length(length_key=[-1] * COUNT), "lengths must not be negative, got -1 for record 0"),
    (by_length(length_key=np.full(COUNT, 2**63, np.uint64)), "lengths must be less than 2**62"),
    (by_length(batch_tokens=None), "length_key needs batch_tokens or batch_size"),
    (by_length(batch_tokens=0), "batch_tokens must be a positive integer, got 0"),
    (by_length(batch_tokens=True), "batch_tokens must be a positive integer, got True"),
    (by_length(drop_last=True), "drop_last must be False for batches by length"),
    (by_length(schema=None), "must be integers, one for each record, because"),
    (by_length(schema=len), "must be integers, one for each record, because"),
    (by_length(shuffle=LANES), "a shuffle with lanes has no batches by length"),
    # ---- packed rows ----
    ({"pack": 2048}, "pack must be a Pack, such as tio.Pack(2048), or None, got 2048"),
    ({**packed(), **TOKENS}, "pack makes rows of one length: batch_tokens and length_key"),
    ({**packed(), "with_key": True}, "with_key must be False with pack: a row has several"),
    ({**packed(), "drop_last": True}, "drop_last needs a batch_size"),
    ({**packed(), "shuffle": LANES}, "a shuffle with lanes has no packed rows"),
    ({**packed(), "schema": None}, "key of Pack cannot be found because the schema has"),
    (packed(key="id"), "key of Pack must be the name of a VarLenFeature"),
    (packed(also=["more"]), "pack needs the feature 'more', which the schema"),
    (packed(also=["id"]), "the feature 'id' cannot be packed: it must be a"),
    (packed(pad_id=2**63), "pad_id must fit the tokens, which are torch.int64"),
    (beside(tokens=tio.VarLenFeature("float32")), "labels need tokens of an integer dtype such as"),
    (beside(tokens=tio.VarLenFeature("string")), "the feature 'tokens' cannot be packed"),
    (
        beside(extra=tio.FixedLenSequenceFeature([], "int64", allow_missing=True)),
        "the feature 'extra' cannot be packed by document: read it as a VarLenFeature",
    ),
    (
        beside(extra=tio.SparseFeature("i", "v", "int64", 9)),
        "the feature 'extra' cannot be packed by document",
    ),
    (
        beside(labels=tio.FixedLenFeature([], "int64")),
        "packed rows have a column 'labels', and so has the schema: rename the feature",
    ),
]
OF_STREAMS: list[tuple[dict[str, Any], str]] = [
    ({"shuffle": True}, "must be False or a positive integer, got True"),
    ({"shuffle": np.True_}, "must be False or a positive integer"),
    ({"shuffle": 0}, "must be False or a positive integer, got 0"),
    ({"shuffle": LANES}, "must be False or a positive integer, got Shuffle(block=3, window=4"),
    ({"seed": 1.5}, "seed must be an integer, got 1.5"),
    ({"uneven": "pad"}, "uneven of a TFRecordStream must be None or 'keep', got 'pad'"),
]
OF_PACK: list[tuple[dict[str, Any], str]] = [
    ({"length": 0}, "length must be an integer from 1 to 16777216, got 0"),
    ({"window": 0}, "window must be a positive integer, got 0"),
    ({"mode": "best"}, "mode must be one of 'fit', 'chunk', got 'best'"),
    ({"long": "cut"}, "long must be one of 'split', 'drop', 'error', got 'cut'"),
    ({"labels": True}, "labels must be one of None, 'same', 'next', got True"),
    ({"separator": "</s>"}, "separator must be a token, an integer, got '</s>'"),
    ({"pad_id": None}, "pad_id must be a token, an integer, got None"),
    ({"also": "weights"}, "also must be a list of names of features, got 'weights'"),
    ({"also": ["tokens"]}, "also must name features other than key, each once"),
    ({"key": 3}, "key must be the name of a feature or None, got 3"),
]
CASES: list[Any] = [
    *((tio.TFRecordDataset, *case) for case in REFUSED),
    *((tio.TFRecordStream, *case) for case in OF_STREAMS),
    *((tio.Pack, *case) for case in OF_PACK),
]


@pytest.mark.parametrize(("made", "options", "message"), CASES)
def test_invalid_arguments_are_named(
    paths: list[str], made: Any, options: dict[str, Any], message: str
) -> None:
    first: Any = {"length": 16, "key": "tokens"} if made is tio.Pack else {"schema": SCHEMA}
    given = {**first, **options}
    with pytest.raises(ValueError, match=re.escape(message)):
        made(**given) if made is tio.Pack else made(paths, **given)


def test_invalid_epochs_are_named(paths: list[str]) -> None:
    dataset: Any = tio.TFRecordDataset(paths)
    for epoch in (None, 2**63, "1"):
        with pytest.raises(ValueError, match="epoch must be a non-negative integer"):
            dataset.set_epoch(epoch)


def test_bad_schemas_and_paths(paths: list[str], tmp_path: Path) -> None:
    bad: Any
    for bad in ({}, {"id": 64}):
        with pytest.raises(tio.SchemaError):
            tio.TFRecordDataset(paths, bad)
    with pytest.raises(FileNotFoundError, match="matches no file"):
        tio.TFRecordDataset(tmp_path / "*.nothing")
    for kind in (tio.TFRecordDataset, tio.TFRecordStream):
        with pytest.raises(FileNotFoundError):
            kind(tmp_path / "missing")


NOT_TAKEN: list[tuple[Any, list[str]]] = [
    (tio.TFRecordStream, ["split", "index", "batch_tokens", "length_key", "pack"]),
    (tio.TFRecordMapDataset, ["pack", "shuffle"]),
]


@pytest.mark.parametrize(("made", "names"), NOT_TAKEN)
def test_options_of_other_classes_are_not_taken(
    paths: list[str], made: Any, names: list[str]
) -> None:
    for name in names:
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            made(paths, **{name: None})


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (TOKENS, "batches by length cannot be mixed"),
        ({"shuffle": LANES}, "a dataset with lanes cannot be mixed"),
    ],
)
def test_datasets_that_cannot_be_mixed(paths: list[str], options: Any, reason: str) -> None:
    parts = [tio.TFRecordDataset(paths, SCHEMA, **some) for some in (options, {"shuffle": True})]
    with pytest.raises(ValueError, match=re.escape(reason)):
        tio.mix(parts, weights=[1, 1])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({**packed(), "on_error": "skip"}, "a dataset of steps has no packed rows"),
        ({"shuffle": LANES}, "a dataset of steps has no lanes"),
    ],
)
def test_steps_of_episodes_that_are_refused(paths: list[str], options: Any, reason: str) -> None:
    schema = {"tokens": SCHEMA["tokens"]}
    steps = tio.TFRecordDataset(paths, schema).steps(group="tokens")
    with pytest.raises(ValueError, match=reason):
        steps.replace(**options)
    with pytest.raises(ValueError, match=reason):
        tio.TFRecordDataset(paths, schema, **options).steps(group="tokens")
    if "pack" in options:
        with pytest.raises(ValueError, match=r"a mixture .* of steps .* has no packed rows"):
            tio.mix([steps], weights=[1], pack=options["pack"])
