"""Parsers of blocks of records: one for each kind of schema."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from .._parsing.failures import Failures, RecordFailure, complement
from .._parsing.parser import ExampleParser
from .._parsing.record_random import RecordRandom
from .._records.reader import Reader
from .._records.record_block import RecordBlock
from .._schema.feature_mapping import FeatureMapping
from .._schema.schema import Features, Schema
from ..timing.steps import decoding
from .arena import Allocate, allocate_arena
from .batch import Batch
from .gather import gather_rows, spans_of
from .joining import join_samples
from .loaded import Loaded
from .native_run import load_run
from .parse import parse_block, parse_rows
from .rows import Rows
from .sample import Sample

if TYPE_CHECKING:
    from .._parsing.lengths import LengthMeasure
    from .._parsing.wrapping import Wrapper

Decoder: TypeAlias = Callable[[bytes], Any]
_Rows: TypeAlias = npt.NDArray[np.int64]
Columns: TypeAlias = FeatureMapping | Features
SchemaLike: TypeAlias = Columns | Decoder | None


class BlockParser:
    """Base of parsers, which turn blocks of records into a batch or a list of items.

    Attributes:
        schema: Schema of the columns; None if items are not columns.
        stored_by: Schema that says how the values of a sample are stored in an Example or a
            SequenceExample. It is None if they do not make a record, and an empty dict if each
            value is stored as it is.
        is_native: Whether native code does all the work of a record, so that small batches are
            better loaded together.
        sample_kind: Kind of a sample. Only datasets of equal kinds can be mixed.
        has_stored_names: Whether records hold the names of the schema's stored features.
        allocate: Function that allocates the arenas of batches.
    """

    schema: Any = None
    stored_by: Any = None
    is_native = False
    sample_kind = "records"
    has_stored_names = False
    allocate: Allocate = staticmethod(allocate_arena)

    def allocating(self, allocate: Allocate) -> Self:
        """Return this parser with a function that allocates the arenas of batches."""
        other = copy.copy(self)
        other.allocate = allocate
        return other

    def parse(self, block: RecordBlock, random: RecordRandom) -> tuple[Any, list[RecordFailure]]:
        """Parse the records of a block. A subclass has this method or :meth:`parse_rows`.

        Args:
            block: The records.
            random: Random number generators of records.

        Returns:
            A :class:`Batch`, or a list of items, of the valid records in their order; and a failure
            for each invalid record.
        """
        raise NotImplementedError

    def parse_rows(self, block: RecordBlock, random: RecordRandom) -> Loaded:
        """Parse the records of a block, like :meth:`parse`, into items that may have more rows.

        Args:
            block: The records.
            random: Random number generators of records.
        """
        items, failed = self.parse(block, random)
        failures = Failures.of(failed)
        kept = complement(failures.positions, len(block))
        return Loaded.of(items, block.numbers, failures, kept=kept, block=block)

    def parse_run(
        self, reader: Any, plans: Sequence[Any], randoms: Sequence[RecordRandom]
    ) -> list[Loaded]:
        """Read and parse several batches at once, up to the first one with an error.

        Args:
            reader: Reader that made the plans.
            plans: Plan of each batch.
            randoms: Random number generators of each batch.

        Returns:
            Batches of the first plans; maybe none. The others must be read one by one.
        """
        del reader, plans, randoms
        return []

    def join(self, parts: Sequence[Loaded], order: _Rows | None) -> Any:
        """Join rows of parsed parts of a batch.

        Args:
            parts: The parts.
            order: Rows to take of all parts together, repeats allowed; by default all, in order.
        """
        if not isinstance(parts[0].items, Batch):
            return _join_items(parts, order)
        spans = np.concatenate([spans_of(part.item_rows, each) for each, part in enumerate(parts)])
        sources = [part.items.columns for part in parts]
        joined = gather_rows(
            sources, spans if order is None else spans[order], allocate=self.allocate
        )
        if joined is not None:
            return Batch(joined, has_views=False)
        samples: list[Sample] = []
        for part in parts:
            samples += Sample.of_rows(Rows(part.items.columns), part.item_rows.tolist())
        taken = samples if order is None else [samples[row] for row in order.tolist()]
        return Batch(join_samples(taken, self.allocate)[0], has_views=False)

    def length_features(self) -> Mapping[str, LengthMeasure]:
        """Return the features whose number of values may be the length of a record, by name."""
        return {}

    def of_whole_records(self) -> BlockParser:
        """Return the parser whose samples are whole records."""
        return self

    def of_own_steps(self) -> BlockParser:
        """Return the parser of the same samples without offsets: of their own steps alone."""
        return self

    def fit_reader(self, reader: Reader) -> Reader:
        """Return the reader that reads what this parser needs of records: by default all."""
        return reader

    def of_features(self, names: Sequence[str]) -> BlockParser:
        """Return a parser of some features of the schema, and of others only if it needs them.

        Args:
            names: Names of features, or of dicts, which stand for all features in them.
        """
        del names
        return self


class BytesParser(BlockParser):
    """Yields records as bytes."""

    def parse(
        self, block: RecordBlock, random: RecordRandom
    ) -> tuple[list[Any], list[RecordFailure]]:
        del random
        return [block[i] for i in range(len(block))], []


class FunctionParser(BytesParser):
    """Calls a function with the bytes of each record.

    Args:
        decode: The function.
    """

    def __init__(self, decode: Decoder) -> None:
        self._decode = decode

    def parse(
        self, block: RecordBlock, random: RecordRandom
    ) -> tuple[list[Any], list[RecordFailure]]:
        del random
        items: list[Any] = []
        failures: list[RecordFailure] = []
        with decoding():
            for position in range(len(block)):
                try:
                    items.append(self._decode(block[position]))
                except Exception as error:  # noqa: BLE001  # a user's function may raise anything
                    reason = f"the schema function raised {type(error).__name__}: {error}"
                    failures.append(RecordFailure(position, None, None, reason, error))
        return items, failures


class ExampleBlockParser(BlockParser):
    """Parses ``tf.train.Example`` or ``SequenceExample`` messages.

    Args:
        schema: Schema of the messages.

    Attributes:
        native: Parser of the messages.
    """

    has_stored_names = True

    def __init__(self, schema: Schema) -> None:
        self.schema: Schema = schema
        self.stored_by = schema
        self.native = ExampleParser.of(schema)
        self.is_native = not any(spec.is_slow for spec in schema.values())

    def parse_rows(self, block: RecordBlock, random: RecordRandom) -> Loaded:
        return parse_rows(self.native, block, random, self.allocate)

    def parse_run(
        self, reader: Any, plans: Sequence[Any], randoms: Sequence[RecordRandom]
    ) -> list[Loaded]:
        return load_run(self.native, reader, plans, randoms, self.allocate)

    def of_features(self, names: Sequence[str]) -> ExampleBlockParser:
        return ExampleBlockParser(self.schema.narrow(names))

    def length_features(self) -> Mapping[str, LengthMeasure]:
        from .._parsing.lengths import LengthMeasure  # noqa: PLC0415  # rarely needed

        return LengthMeasure.all_of(self.schema)


class WrappedParser(BlockParser):
    """Parses records of other formats by putting each of them into an Example.

    Args:
        wrapping: Puts records into Examples.
        schema: Features to parse. Default: all that the Examples have.
    """

    def __init__(self, wrapping: Wrapper, schema: Schema | None = None) -> None:
        self.schema: Schema = wrapping.schema if schema is None else schema
        self.stored_by = self.schema
        self._wrapping = wrapping

    def of_features(self, names: Sequence[str]) -> WrappedParser:
        return WrappedParser(self._wrapping, self.schema.narrow(names))

    def parse(self, block: RecordBlock, random: RecordRandom) -> tuple[Any, list[RecordFailure]]:
        parser = ExampleParser.of(self.schema)
        wrapped = self._wrapping.wrap(block)
        batch, failures = parse_block(parser, wrapped, random, self.allocate)
        # Offsets in the Example are not offsets in the record.
        return batch, [failure._replace(offset=None) for failure in failures]


def _join_items(parts: Sequence[Loaded], order: _Rows | None) -> list[Any]:
    """Join items that are no columns; see :meth:`BlockParser.join`."""
    items = [part.items[row] for part in parts for row in part.item_rows.tolist()]
    if order is None:
        return items
    # A change of an item must not change its repeats.
    _, firsts = np.unique(order, return_index=True)
    is_repeat = np.ones(len(order), bool)
    is_repeat[firsts] = False
    return [
        copy.deepcopy(items[row]) if again else items[row]
        for row, again in zip(order.tolist(), is_repeat.tolist(), strict=True)
    ]


def parser_of_messages(schema: Any) -> BlockParser:
    """Return the parser of records that are messages.

    Args:
        schema: A :class:`Schema` or a dict of features, another schema with a method
            ``message_parser()``, a function that takes bytes, or None for bytes.

    Raises:
        SchemaError: If the schema is inconsistent.
        ValueError: If it is something else.
    """
    if hasattr(schema, "message_parser"):
        parser: BlockParser = schema.message_parser()
        return parser
    if isinstance(schema, Mapping):
        return ExampleBlockParser(Schema.of(schema))
    return parser_of_bytes(schema)


def parser_of_bytes(schema: Any) -> BlockParser:
    """Return the parser that calls a function with each record, or yields bytes for None.

    Raises:
        ValueError: If the schema is neither.
    """
    if schema is None:
        return BytesParser()
    if callable(schema):
        return FunctionParser(schema)
    raise ValueError(
        f"schema must be a Schema, a dict of features, a function or None, got {schema!r}"
    )
