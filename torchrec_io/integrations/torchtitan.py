"""The data loader of torchtitan, version 0.3 or newer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torchtitan.components.dataloader import BaseDataLoader

from .._datasets.base import RecordDataset
from .._loading.loader import make_loader
from .._order.pack import Pack
from .._tensors.batch import Batch


class TFRecordDataLoader(BaseDataLoader):  # type: ignore[misc]  # torchtitan has no types
    """A loader of torchtitan's trainer that reads a dataset of this package.

    It yields ``(inputs, labels)``: a dict of Tensors with the model's input under ``"input"``, and
    the labels. Its state is that of :func:`make_loader`, so a run can be resumed by another number
    of data-parallel ranks. When a finite number of epochs ends, torchtitan ends the training.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):  # type: ignore[misc]
        """The configuration of the loader.

        Attributes:
            make_dataset: Called with the sequence length, and ``rank``, ``world_size``,
                ``batch_size``, ``drop_last`` and ``epochs``, which it must pass to the dataset that
                it returns.
            split_batch: Function that makes ``(inputs, labels)`` of a batch. By default the batch
                has packed rows with labels (``Pack(..., labels="next")``).
            infinite: Whether to read the records endlessly. torchtitan's validation sets it.
            epochs: Number of epochs if that is False.
            drop_last: Whether to leave out the last batch of an epoch if it has fewer rows.
            num_workers: Number of worker processes of :func:`make_loader`.
        """

        make_dataset: Callable[..., RecordDataset[Any]]
        split_batch: Callable[[Any], tuple[dict[str, Tensor], Tensor]] | None = None
        infinite: bool = True
        epochs: int = 1
        drop_last: bool = True
        num_workers: int = 0

    def __init__(
        self,
        config: Config,
        *,
        dp_world_size: int,
        dp_rank: int,
        local_batch_size: int,
        seq_len: int,
        **others: Any,
    ) -> None:
        """Make the dataset of a rank; torchtitan calls this with its own arguments.

        Raises:
            ValueError: If ``make_dataset`` does not pass its options to the dataset, or
                ``split_batch`` is missing.
        """
        del others  # a tokenizer, and after how many steps states are saved
        options = {
            "rank": dp_rank,
            "world_size": dp_world_size,
            "batch_size": local_batch_size,
            "drop_last": config.drop_last,
            "epochs": None if config.infinite else config.epochs,
        }
        dataset = config.make_dataset(seq_len, **options)
        known = _checked_options(dataset, options)
        split = config.split_batch or _row_splitter(known.get("pack"))
        self._loader = make_loader(dataset, num_workers=config.num_workers, collate_fn=split)

    def __iter__(self) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
        return iter(self._loader)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the loop, the same on all ranks."""
        return self._loader.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Start the next iteration at a saved position. An empty state is ignored.

        Raises:
            StateMismatchError: If the state belongs to other files, another order or other batches.
        """
        if state_dict:
            self._loader.load_state_dict(state_dict)


def _checked_options(dataset: RecordDataset[Any], given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of a dataset, which must be those that were given.

    Raises:
        ValueError: If an option differs.
    """
    options = dataset._session.pipeline.options  # noqa: SLF001  # of this package
    for name, value in given.items():
        if options[name] != value:
            raise ValueError(
                f"make_dataset must pass its options to the dataset: {name} must be {value!r}, got "
                f"{options[name]!r}"
            )
    return options


def _row_splitter(pack: Pack | None) -> Callable[[Batch], tuple[dict[str, Tensor], Tensor]]:
    """Return the function that makes ``(inputs, labels)`` of packed rows.

    Raises:
        ValueError: If there are no packed rows, or they have other labels.
    """
    if pack is None or pack.labels != "next":
        raise ValueError(
            "split_batch must be given for a dataset whose labels are not those of "
            "pack=tio.Pack(seq_len, labels='next')"
        )
    assert pack.key is not None  # found when the dataset was made
    return functools.partial(_split_rows, pack.key)


def _split_rows(key: str, batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
    """Return the tokens and positions of packed rows, and their labels; int64 ``[B, length]``."""
    return {"input": batch[key], "positions": batch["position_ids"].long()}, batch["labels"]
