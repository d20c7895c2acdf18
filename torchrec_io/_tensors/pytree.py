"""Batches, samples and columns as nodes of PyTorch's pytrees."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch.utils._pytree import GetAttrKey, MappingKey, register_pytree_node

from .batch import Batch
from .columns import Columns, Form, are_same
from .ragged import BytesArray, Ragged, Sparse, TensorParts
from .rows import Hints
from .sample import Sample


@dataclass(frozen=True)
class BatchStructure:
    """Structure of a batch without its columns.

    Structures are equal if their batches have the same columns, so that a function can be applied
    to the Tensors of two batches.

    Attributes:
        form: Names of the columns.
        batch: Batch that was taken apart, if it may still exist. Structures may live long, for
            example with a compiled function, so they do not keep it.
    """

    form: Form
    batch: weakref.ref[Batch] | None = field(default=None, compare=False, repr=False)

    def batch_of(self, columns: list[Any]) -> Batch:
        """Return the batch that was taken apart if these are its columns, else a new one."""
        batch = None if self.batch is None else self.batch()
        if batch is not None and are_same(columns, _columns_of(batch)):
            return batch
        named = dict(zip(self.form.all_names, columns, strict=True))
        return Batch(Columns.of_values(named, self.form))

    def __hash__(self) -> int:
        return hash(self.form.names)

    def __reduce__(self) -> tuple[Any, ...]:
        return BatchStructure, (self.form,)


def _columns_of(batch: Batch) -> list[Any]:
    """Return all columns of a batch in the order of its structure."""
    columns = batch.columns.views()
    return [columns[name] for name in batch.columns.form.all_names]


def _flatten_batch(batch: Batch) -> tuple[list[Any], BatchStructure]:
    return _columns_of(batch), BatchStructure(batch.columns.form, weakref.ref(batch))


def _flatten_batch_with_keys(batch: Batch) -> tuple[list[tuple[Any, Any]], BatchStructure]:
    columns, structure = _flatten_batch(batch)
    keys: list[Any] = [MappingKey(name) for name in structure.form.names]
    keys += [GetAttrKey(f"lengths[{name!r}]") for name in structure.form.padded]
    return list(zip(keys, columns, strict=True)), structure


def _unflatten_batch(columns: Iterable[Any], structure: BatchStructure) -> Batch:
    return structure.batch_of(list(columns))


class SampleStructure(NamedTuple):
    """Structure of a sample without its values.

    Attributes:
        names: Top-level keys.
        hints: Hints about values of different lengths.
    """

    names: tuple[str, ...]
    hints: Hints

    def __hash__(self) -> int:
        return hash(self.names)  # hints have dicts


def _flatten_sample(sample: Sample) -> tuple[list[Any], SampleStructure]:
    structure = SampleStructure(tuple(sample), sample.hints)
    return [sample[name] for name in structure.names], structure


def _flatten_sample_with_keys(
    sample: Sample,
) -> tuple[list[tuple[Any, Any]], SampleStructure]:
    values, structure = _flatten_sample(sample)
    return list(zip(map(MappingKey, structure.names), values, strict=True)), structure


def _unflatten_sample(values: Iterable[Any], structure: SampleStructure) -> Sample:
    return Sample(zip(structure.names, values, strict=True), *structure.hints)


def _register_parts(kind: type[TensorParts], names: tuple[str, ...], shape: str | None) -> None:
    """Register a class of columns.

    Args:
        kind: The class.
        names: Names of its parts.
        shape: Name of its attribute that holds a shape.
    """

    def flatten(value: TensorParts) -> tuple[list[Any], Any]:
        return value.parts, None if shape is None else getattr(value, shape)

    def flatten_with_keys(value: TensorParts) -> tuple[list[tuple[Any, Any]], Any]:
        parts, context = flatten(value)
        return list(zip(map(GetAttrKey, names), parts, strict=True)), context

    def unflatten(parts: Iterable[Any], context: Any) -> TensorParts:
        # The constructor would refuse parts that are not Tensors.
        value = kind.__new__(kind)
        for name, part in zip(names, parts, strict=True):
            setattr(value, name, part)
        if shape is not None:
            setattr(value, shape, context)
        return value

    register_pytree_node(kind, flatten, unflatten, flatten_with_keys_fn=flatten_with_keys)


def register() -> None:
    """Register the classes with PyTorch."""
    register_pytree_node(
        Batch,
        _flatten_batch,
        _unflatten_batch,
        flatten_with_keys_fn=_flatten_batch_with_keys,
    )
    register_pytree_node(
        Sample,
        _flatten_sample,
        _unflatten_sample,
        flatten_with_keys_fn=_flatten_sample_with_keys,
    )
    for kind, shape in ((Ragged, None), (BytesArray, "shape"), (Sparse, "dense_shape")):
        _register_parts(kind, kind.PARTS, shape)
