"""TFRecord files as an output of Ray Data. It imports Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ray.data.block import BlockAccessor
from ray.data.datasource import Datasink
from ray.data.extensions import get_arrow_extension_tensor_types

from ..convert import arrow as pa
from ..convert.arrow_rows import ColumnTypes, encode_table
from ..convert.rows import Table
from ..errors import ConversionError
from .shard_folder import ShardFolder, WrittenShard


class TFRecordDatasink(Datasink[WrittenShard]):
    """TFRecord files, one for each task, in a hidden folder.

    Args:
        folder: Folder of the files.
        encode: Function that yields the records of Arrow tables, and takes note of facts about them
            in its second argument.

    Attributes:
        shards: The files, in the order of the tasks, once all tasks have ended.
    """

    def __init__(
        self,
        folder: ShardFolder,
        encode: Callable[[Iterable[Any], dict[str, Any]], Iterator[bytes]],
    ) -> None:
        self._folder = folder
        self._encode = encode
        self.shards: list[WrittenShard] = []

    def get_name(self) -> str:
        """Return the name of the write operator in progress bars and statistics."""
        return "TFRecords"

    def write(self, blocks: Iterable[Any], ctx: Any) -> WrittenShard:
        """Write the rows of a task to its file."""
        facts: dict[str, Any] = {}
        tables = (BlockAccessor.for_block(block).to_arrow() for block in blocks)
        records = self._encode((table for table in tables if table.num_rows), facts)
        return self._folder.write(ctx.task_idx, records)._replace(facts=facts)

    def on_write_complete(self, write_result: Any) -> None:
        """Take note of the files of all tasks."""
        found = [shard for shard in write_result.write_returns if shard is not None]
        self.shards = sorted(found, key=lambda shard: shard.number)


class RowEncoder:
    """An encoder of rows as Examples or SequenceExamples.

    Args:
        name: Common start of the paths of the shards, for error messages.
        types: Stored types of the columns that are known. Those of the others are found by each
            task.
    """

    def __init__(self, name: str, types: ColumnTypes) -> None:
        self._name = name
        self._types = types

    def __call__(self, tables: Iterable[Any], facts: dict[str, Any]) -> Iterator[bytes]:
        """Yield the records of tables, and take note of the types of their columns."""
        first = 0
        types = self._types
        for table in tables:
            places = [f"row {first + i} of its task" for i in range(len(table))]
            first += len(table)
            columns = [_plain(column) for column in table.columns]
            plain = pa.RecordBatch.from_arrays(columns, table.schema.names)
            types = _joined(types, plain.schema, self._name)
            done = encode_table(Table(self._name, plain, places, table.nbytes), types)
            if done.errors:
                raise done.errors[0]
            yield from done.records
        facts.update(dtypes=types.dtypes, lists=sorted(types.lists))

    def check_same(self, shards: Sequence[WrittenShard]) -> None:
        """Raise ConversionError if tasks have stored a column with different types."""
        found = [shard.facts for shard in shards if shard.records]
        dtypes: dict[str, str] = {}
        for facts in found:
            for column, dtype in facts["dtypes"].items():
                if dtypes.setdefault(column, dtype) != dtype:
                    reason = (
                        f"the column is {dtypes[column]} in some blocks of the dataset, and "
                        f"{dtype} in others: cast it to one type"
                    )
                    raise ConversionError(reason, path=self._name, feature=column)
        lists = [facts["lists"] for facts in found]
        if any(lists) and not all(lists):
            reason = "some blocks of the dataset have a list of lists, and others do not"
            raise ConversionError(reason, path=self._name, feature=next(filter(None, lists))[0])


def types_of(dataset: Any, name: str) -> ColumnTypes:
    """Return the stored types of the columns of a dataset, as far as they are known.

    Ray Data reads the first row for them, if the dataset does not have them.

    Args:
        dataset: The dataset.
        name: Common start of the paths of the shards, for error messages.

    Raises:
        ConversionError: If an Example cannot store a column.
    """
    none = ColumnTypes({}, frozenset())
    try:
        schema = dataset.schema()
    except TypeError as error:  # of Arrow
        raise ConversionError(f"the blocks of the dataset differ: {error}", path=name) from None
    if schema is None:
        return none
    types = zip(schema.names, schema.types, strict=True)
    fields = [pa.field(each, kind) for each, kind in types if isinstance(kind, pa.DataType)]
    return _joined(none, fields, name)


def _joined(known: ColumnTypes, fields: Iterable[Any], name: str) -> ColumnTypes:
    """Return the known types of columns, with the types of further columns of a table.

    Raises:
        ConversionError: If an Example cannot store a column.
    """
    is_null = pa.types.is_null  # a column of nulls has no type
    new = [
        (field.name, _plain_type(field.type))
        for field in fields
        if field.name not in known.dtypes and not is_null(field.type)
    ]
    if not new:
        return known
    found = ColumnTypes.of(new, name)
    return ColumnTypes({**known.dtypes, **found.dtypes}, known.lists | found.lists)


def _is_tensor(kind: Any) -> bool:
    return isinstance(kind, get_arrow_extension_tensor_types())  # type: ignore[no-untyped-call]


def _plain_type(kind: Any) -> Any:
    """Return the type of a column whose tensors are lists."""
    if _is_tensor(kind):
        return pa.list_(kind.value_type)
    return kind


def _plain(column: Any) -> Any:
    """Return a column as an Arrow array, whose tensors are lists of their values in order."""
    array = column.combine_chunks()
    if not _is_tensor(array.type):
        return array
    is_struct = pa.types.is_struct(array.storage.type)  # of values and shapes
    return pa.compute.struct_field(array.storage, "data") if is_struct else array.storage
