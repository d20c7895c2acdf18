"""The data loader of torchtitan, whose base class is a stand-in where it is not installed."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import itertools
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import pytest
import torch
from torch.distributed.checkpoint.stateful import Stateful

import torchrec_io as tio
from tests.support.examples import example_of
from tests.support.tfrecord import write_tfrecord

SCHEMA = {"tokens": tio.VarLenFeature("int64")}
SEQ_LEN = 12


class BaseDataLoader(Stateful, ABC):
    """The contract of torchtitan 0.3: a configuration that builds its loader."""

    @dataclass(kw_only=True, slots=True)
    class Config:
        dataset: str = ""
        dataset_path: str | None = None
        _owner: ClassVar[Any] = None

        def build(self, **arguments: Any) -> Any:
            return self._owner(config=dataclasses.replace(self), **arguments)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        assert "__slots__" in vars(cls.Config)
        assert all(field.kw_only for field in dataclasses.fields(cls.Config))
        cls.Config._owner = cls

    @abstractmethod
    def __iter__(self) -> Iterator[tuple[dict[str, torch.Tensor], torch.Tensor]]: ...


@pytest.fixture(scope="module")
def loader_class() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        if importlib.util.find_spec("torchtitan") is None:
            for name in ("torchtitan", "torchtitan.components", "torchtitan.components.dataloader"):
                patch.setitem(sys.modules, name, ModuleType(name))
            stand_in: Any = sys.modules["torchtitan.components.dataloader"]
            stand_in.BaseDataLoader = BaseDataLoader
        yield importlib.import_module("torchrec_io.integrations.torchtitan").TFRecordDataLoader
    sys.modules.pop("torchrec_io.integrations.torchtitan")


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    path = tmp_path_factory.mktemp("torchtitan") / "tokens.tfrecord"
    lengths = [1 + number % 5 for number in range(320)]
    write_tfrecord(path, [example_of(tokens=[*range(length)]) for length in lengths])
    return [str(path)]


@pytest.fixture
def config(loader_class: Any, paths: list[str]) -> Any:
    def make_dataset(seq_len: int, **options: Any) -> Any:
        pack = tio.Pack(seq_len, key="tokens", labels="next", window=40)
        return tio.TFRecordDataset(paths, SCHEMA, pack=pack, shuffle=True, **options)

    return loader_class.Config(make_dataset=make_dataset)


def build(config: Any, rank: int = 0, ranks: int = 1, **options: Any) -> Any:
    """Build a loader as the trainer of torchtitan does."""
    return config.build(
        dp_world_size=ranks,
        dp_rank=rank,
        tokenizer=None,
        seq_len=SEQ_LEN,
        local_batch_size=8 // ranks,
        snapshot_every_n_steps=1,
        **options,
    )


def rows_of(batches: Any) -> list[list[int]]:
    return [row for inputs, _ in batches for row in inputs["input"].tolist()]


def test_batches_are_inputs_and_labels(config: Any) -> None:
    loader = build(config)
    assert issubclass(type(loader), Stateful)
    inputs, labels = next(iter(loader))
    assert inputs.keys() == {"input", "positions"}
    for tensor in (*inputs.values(), labels):
        assert tensor.shape == (8, SEQ_LEN)
        assert tensor.dtype == torch.int64
    tokens, positions = inputs["input"], inputs["positions"]
    assert torch.equal(tokens, positions)  # tokens of a document count from 0, as positions do
    known = labels != -100
    assert torch.equal(labels[known], tokens[known] + 1)


def test_records_are_read_endlessly_or_for_some_epochs(config: Any) -> None:
    once = dataclasses.replace(config, infinite=False)  # as torchtitan's validation does
    rows = rows_of(build(dataclasses.replace(once, drop_last=False)))
    whole = len(rows) // 8
    assert len(rows) > whole * 8 > 0
    assert rows_of(build(once)) == rows[: whole * 8]
    assert len(list(build(dataclasses.replace(once, epochs=3)))) == 3 * whole
    endless = [inputs["input"] for inputs, _ in itertools.islice(build(config), 5 * whole)]
    assert [len(each) for each in endless] == [8] * (5 * whole)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_run_is_resumed_by_another_number_of_ranks(config: Any, ranks: int, workers: int) -> None:
    config = dataclasses.replace(config, num_workers=workers)
    loaders = [build(config, rank, 2) for rank in range(2)]
    before = [iter(loader) for loader in loaders]
    for each in before:
        rows_of(itertools.islice(each, 30))  # in the second epoch
    state = json.loads(json.dumps(loaders[1].state_dict()))
    expected = [sorted(rows_of(next(each) for each in before)) for _ in range(4)]
    after = [build(config, rank, ranks) for rank in range(ranks)]
    for loader in after:
        loader.load_state_dict({})  # which torchtitan allows
        loader.load_state_dict(state)
    iterators = [iter(loader) for loader in after]
    found = [sorted(rows_of(next(each) for each in iterators)) for _ in range(4)]
    assert found == expected


def test_other_batches(config: Any, paths: list[str]) -> None:
    def make_dataset(_: int, **options: Any) -> Any:
        return tio.TFRecordDataset(paths, SCHEMA, **options)

    other = dataclasses.replace(config, make_dataset=make_dataset)
    with pytest.raises(ValueError, match="split_batch must be given"):
        build(other)
    other.split_batch = lambda batch: ({"input": batch["tokens"].lengths}, torch.zeros(4))
    inputs, labels = next(iter(build(other, 1, 2)))
    assert (inputs["input"].tolist(), len(labels)) == ([5, 1, 2, 3], 4)


def test_options_that_do_not_reach_the_dataset(config: Any, paths: list[str]) -> None:
    config.make_dataset = lambda *_, **__: tio.TFRecordDataset(paths, batch_size=8)
    with pytest.raises(ValueError, match=r"make_dataset must pass its options .* rank must be 1"):
        build(config, 1, 2)
