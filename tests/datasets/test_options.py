"""Options: signature, documentation and validation in every class that takes them."""

from __future__ import annotations

import inspect
import pydoc
import re
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.support.datasets import SCHEMA, write_files
from torchrec_io._datasets import options as kinds

# Callables with options, and the names of their options.
TAKERS: dict[str, tuple[Any, Any]] = {
    "TFRecordDataset": (tio.TFRecordDataset, kinds.TFRecordOptions),
    "TFRecordDataset.from_tfds": (tio.TFRecordDataset.from_tfds, kinds.TfdsOptions),
    "TFRecordDataset.replace": (tio.TFRecordDataset.replace, kinds.TFRecordReplaceOptions),
    "TFRecordStream": (tio.TFRecordStream, kinds.StreamOptions),
    "TFRecordStream.replace": (tio.TFRecordStream.replace, kinds.StreamReplaceOptions),
    "TFRecordMapDataset": (tio.TFRecordMapDataset, kinds.MapOptions),
    "TextLineDataset": (tio.TextLineDataset, kinds.FileOptions),
    "TextLineDataset.replace": (tio.TextLineDataset.replace, kinds.ReplaceOptions),
    "FixedLengthRecordDataset": (tio.FixedLengthRecordDataset, kinds.FileOptions),
    "WholeFileDataset": (tio.WholeFileDataset, kinds.WholeFileOptions),
    "RecordFileDataset": (tio.RecordFileDataset, kinds.FileOptions),
    "mix": (tio.mix, kinds.MixOptions),
}


@pytest.fixture(params=TAKERS)
def taker(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    return TAKERS[request.param]


def test_the_signature_has_each_option_with_its_default(taker: tuple[Any, Any]) -> None:
    function, kind = taker
    parameters = inspect.signature(function).parameters
    is_unchanged = function is tio.mix or function.__name__ == "replace"
    for name, option in kinds.options_of(kind).items():
        parameter = parameters[name]
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert parameter.default == (kinds.UNCHANGED if is_unchanged else option.default)
        assert parameter.annotation is not inspect.Parameter.empty
    assert not any(parameter.kind.name == "VAR_KEYWORD" for parameter in parameters.values())


def test_help_has_the_text_of_each_option(taker: tuple[Any, Any]) -> None:
    function, kind = taker
    text = " ".join(pydoc.render_doc(function, renderer=pydoc.TextDoc()).replace("|", " ").split())
    for name, option in kinds.options_of(kind).items():
        assert option.text.startswith(f"    {name}: ")
        assert not inspect.isclass(function) or " ".join(option.text.split()) in text


def test_a_dataset_has_few_parameters_and_a_short_help() -> None:
    assert len(inspect.signature(tio.TFRecordDataset).parameters) <= 26
    text = pydoc.plain(pydoc.render_doc(tio.TFRecordDataset))
    # From Python 3.13 on, each parameter of a long signature has a line.
    text = re.sub(r"\(\n( \|\s+\S.*\n)+? \|\s+\)", "(...)", text)
    lines = text.splitlines()
    assert len(lines) <= 200
    assert not any("inherited from torch." in line for line in lines)


def test_documented_arguments_are_those_of_the_signature(taker: tuple[Any, Any]) -> None:
    function, _ = taker
    if not inspect.isclass(function):
        return  # their docs page has them
    sections = (inspect.getdoc(function) or "").split("\n\n")
    documented = [
        line.split(":")[0].strip()
        for section in sections
        if section.split(":")[0] in kinds.GROUPS
        for line in section.splitlines()[1:]
        if not line.startswith("     ")
    ]
    assert documented == list(inspect.signature(function).parameters)


def test_options_come_in_groups() -> None:
    order = [name for names in kinds.GROUPS.values() for name in names]
    known = {name for _, kind in TAKERS.values() for name in kind.__annotations__}
    assert sorted(order) == sorted(known)
    text = inspect.getdoc(tio.TFRecordDataset) or ""
    places = [text.index(f"\n{title}:\n") for title in kinds.GROUPS]
    assert places == sorted(places)


@pytest.mark.parametrize("name", [name for name in TAKERS if "." not in name])
def test_subclass_has_its_own_signature(name: str) -> None:
    base = TAKERS[name][0]
    if not inspect.isclass(base):
        return

    class Own(base):  # type: ignore[misc, valid-type]
        def __init__(self, folder: str) -> None:
            super().__init__(f"{folder}/*")

    assert list(inspect.signature(Own).parameters) == ["folder"]


def test_unknown_options_are_type_errors(tmp_path: Path) -> None:
    paths = write_files(tmp_path, [3])
    with pytest.raises(TypeError, match="'batchsize': the options are batch_size"):
        tio.TFRecordDataset(paths, SCHEMA, batchsize=3)  # type: ignore[call-overload]
    dataset = tio.TFRecordDataset(paths, SCHEMA)
    with pytest.raises(TypeError, match="'index': the options are schema, batch_size"):
        dataset.replace(index="auto")  # type: ignore[call-overload]


def test_derived_datasets_keep_the_subclass(tmp_path: Path) -> None:
    class Own(tio.TFRecordDataset):
        def __init__(self, folder: Path) -> None:
            super().__init__(folder, SCHEMA, batch_size=2)
            self.note = "kept"

    write_files(tmp_path, [10])
    own = Own(tmp_path)
    parts = own.split(0.5, 0.5)
    for dataset in (own.replace(shuffle=True), *parts):
        assert type(dataset) is Own
        assert dataset.note == "kept"
    assert sum(part.num_records for part in parts) == own.num_records == 10
