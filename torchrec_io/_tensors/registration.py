"""Registration of our classes with PyTorch's ``default_collate`` and pytrees, and multiprocessing.

The functions that do the work are imported on first use.
"""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

from torch.utils.data._utils.collate import default_collate_fn_map

from . import pytree
from .batch import Batch, KeyedBatch
from .ragged import BytesArray, Ragged, Sparse
from .sample import Sample
from .trainers import makes_dicts


def _collate_values(values: list[Any], *, collate_fn_map: Any) -> Any:
    del collate_fn_map  # our classes contain no values of others
    from .collate import collate  # noqa: PLC0415

    return collate([{"": value} for value in values])[""]


def _collate_samples(samples: list[Any], *, collate_fn_map: Any) -> Any:
    del collate_fn_map  # as above
    from .collate import collate  # noqa: PLC0415

    batch = collate(samples)
    return dict(batch) if makes_dicts() else batch


def _refuse_batches(batches: list[Any], *, collate_fn_map: Any) -> None:
    del collate_fn_map
    raise TypeError(
        f"the dataset yields batches, and default_collate got {len(batches)} of them to join: use "
        "DataLoader(dataset, batch_size=None), or make_loader(dataset)"
    )


def _reduce(batch: Batch) -> Any:
    from .transport import reduce_batch  # noqa: PLC0415

    return reduce_batch(batch)


default_collate_fn_map.update(dict.fromkeys((BytesArray, Ragged, Sparse), _collate_values))
default_collate_fn_map[Sample] = _collate_samples
default_collate_fn_map.update(dict.fromkeys((Batch, KeyedBatch), _refuse_batches))
ForkingPickler.register(Batch, _reduce)
pytree.register()
