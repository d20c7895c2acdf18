"""TFRecord files as an output of Ray Data. It imports Ray."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ray.data.block import BlockAccessor
from ray.data.datasource import Datasink
from ray.data.extensions import get_arrow_extension_tensor_types

from ..convert.arrow_rows import ColumnTypes, encode_columns, values_of
from ..convert.rows import Row
from .extra import import_arrow
from .parts import Part, PartFolder


class TFRecordDatasink(Datasink[Part]):
    """TFRecord files, one for each task, in a hidden folder.

    Args:
        folder: Folder of the files.
        name: Common start of the paths of the shards, for error messages.

    Attributes:
        parts: The files, in the order of the tasks, once all tasks have ended.
    """

    def __init__(self, folder: PartFolder, name: str) -> None:
        self._folder = folder
        self._name = name
        self.parts: list[Part] = []

    def get_name(self) -> str:
        """Return the name of the write operator in progress bars and statistics."""
        return "TFRecords"

    def write(self, blocks: Iterable[Any], ctx: Any) -> Part:
        """Write the rows of a task to its file."""
        return self._folder.write(ctx.task_idx, self._records(blocks))

    def on_write_complete(self, write_result: Any) -> None:
        """Take note of the files of all tasks."""
        self.parts = sorted(part for part in write_result.write_returns if part is not None)

    def _records(self, blocks: Iterable[Any]) -> Iterator[bytes]:
        first = 0
        for block in blocks:
            table = BlockAccessor.for_block(block).to_arrow()
            rows = [Row(self._name, f"row {first + i} of its task", {}) for i in range(len(table))]
            first += len(rows)
            if rows:
                yield from _encode(table, rows, self._name)


def _encode(table: Any, rows: list[Row], name: str) -> list[bytes]:
    """Serialize the rows of a table.

    Raises:
        ConversionError: If a column or value cannot be stored in an Example.
    """
    pa = import_arrow()
    # A column of nulls has no type.
    fields = [field for field in table.schema if not pa.types.is_null(field.type)]
    types = ColumnTypes.of([(field.name, _plain_type(field.type)) for field in fields], name)
    columns = {field.name: _values(table.column(field.name)) for field in fields}
    done = encode_columns(rows, columns, types, table.nbytes)
    if done.errors:
        raise done.errors[0]
    return done.records


def _is_tensor(kind: Any) -> bool:
    return isinstance(kind, get_arrow_extension_tensor_types())  # type: ignore[no-untyped-call]


def _plain_type(kind: Any) -> Any:
    """Return the type of a column whose tensors are lists."""
    if _is_tensor(kind):
        return import_arrow().list_(kind.value_type)
    return kind


def _values(column: Any) -> Iterable[Any]:
    array = column.combine_chunks()
    if _is_tensor(column.type):
        return list(BlockAccessor.for_block(import_arrow().table({"x": array})).to_numpy("x"))
    return values_of(array)
