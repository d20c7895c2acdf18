"""Records of a dataset's files, read and decoded: what every kind of dataset is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ..csv.schema import Schema as CsvSchema
from ..errors import DecodeError, TorchRecIOError
from ..parsing.parser import ExampleParser, RecordFailure
from ..parsing.record_random import NO_EPOCH, Draws
from ..ranking.list_parser import ExampleListParser
from ..ranking.schema import Schema as ListSchema
from ..records.reader import RecordBlock, RecordReader
from ..schema.image_spec import ImageFeature
from ..schema.schema import Features, Schema
from ..schema.specs import Feature
from ..schema.stored_specs import RawFeature, SequenceFeature
from ..tensors.batch import Batch
from ..tensors.native_run import load_run
from ..tensors.parse import parse_block

Decoder: TypeAlias = Callable[[bytes], Any]
SchemaLike: TypeAlias = Schema | ListSchema | Features | Decoder | None
# What a dataset's records are parsed by.
ParsedSchema: TypeAlias = Schema | ListSchema | CsvSchema


class Reader(Protocol):
    """Fetches records: by number, in whole blocks, or as a stream gives them."""

    def begin_epoch(self) -> None:
        """Has every file looked at anew when it is read next."""

    def plan(self, records: Any) -> Any:
        """How to fetch some records."""

    def will_need(self, plan: Any) -> None:
        """Tells the system what is fetched next."""

    def fetch(self, plan: Any) -> tuple[RecordBlock, list[TorchRecIOError]]:
        """The sound records of a plan, in its order, and an error for each other one."""

    def place(self, number: Any) -> tuple[str, int, int]:
        """File, number in that file, and byte offset of a record's frame."""

    def keys(self, numbers: Any) -> list[str]:
        """``path:offset`` of records."""


class BlockParser(Protocol):
    """Makes columns of records that are no Examples as they are stored."""

    @property
    def schema(self) -> ParsedSchema:
        """Says what the columns are."""

    def parse(self, block: RecordBlock, draws: Draws) -> tuple[Batch, list[RecordFailure]]:
        """The batch of the good records, and a failure for each bad one, by its position."""


class Loaded(NamedTuple):
    """Some records, and what was wrong with others."""

    items: Any  # a Batch, or a list with one item a record
    numbers: npt.NDArray[Any]  # of the records they are of
    block: RecordBlock | None  # these records, where they may be needed again
    errors: list[TorchRecIOError]

    def samples(self) -> Sequence[Any]:
        """An item for each record."""
        items: Sequence[Any] = self.items
        return self.items.samples() if isinstance(self.items, Batch) else items


class RecordSource:
    """Reads records and makes of them what a schema says.

    Args:
        reader: Fetches records.
        schema: A schema, a function of a record's bytes, or None for the bytes.
        parser: What parses records by the schema, if that is neither of Examples nor a function.

    Raises:
        SchemaError: the schema contradicts itself.
        ValueError: it is none of these.
    """

    def __init__(
        self, reader: Reader, schema: SchemaLike | CsvSchema, parser: BlockParser | None = None
    ) -> None:
        self.reader = reader
        self.given_schema = schema
        self._parser: ExampleParser | None = None
        self._decoder: Decoder | None = None
        self._block_parser = parser
        if parser is not None:
            return
        if isinstance(schema, ListSchema):
            self._block_parser = ExampleListParser(schema)
        elif isinstance(schema, (Schema, Mapping)):
            self._parser = ExampleParser.of(Schema.of(schema))
        elif callable(schema):
            self._decoder = schema
        elif schema is not None:
            raise ValueError(f"schema must be a Schema, a dict, a function or None, not {schema!r}")

    @property
    def schema(self) -> ParsedSchema | None:
        """The schema records are parsed by, if there is one."""
        if self._block_parser is not None:
            return self._block_parser.schema
        return None if self._parser is None else self._parser.schema

    @property
    def is_quick(self) -> bool:
        """Whether native code does all there is to do for a record.

        Decompression is not quick, and goes from front to back: threads should take turns at it.
        """
        if self._parser is None or not isinstance(self.reader, RecordReader):
            return False
        if any(index.compression for index in self.reader.indexes):
            return False
        return not any(map(_is_slow, self._parser.schema.values()))

    def read(self, plan: Any, draws: Draws = NO_EPOCH) -> Loaded:
        """Reads and decodes the records of a reader's plan.

        Args:
            plan: See there.
            draws: What random numbers depend on.

        Raises:
            TruncatedFileError, StaleIndexError, OSError: the files are not what was indexed.
        """
        block, errors = self.reader.fetch(plan)
        items, block, decode_errors = self._decode(block, draws)
        return Loaded(items, block.numbers, block, [*errors, *decode_errors])

    def read_sound(self, plans: Sequence[Any], draws: Sequence[Draws]) -> list[Loaded]:
        """As :meth:`read` for the first of some plans, as far as nothing is wrong with them.

        Quicker, and not for every kind of reader: what is not given has to be read by itself.
        """
        if self._parser is None or not isinstance(self.reader, RecordReader):
            return []
        batches = load_run(self._parser, self.reader, plans, draws)
        return [
            Loaded(batch, plan.numbers, None, [])
            for batch, plan in zip(batches, plans, strict=False)
        ]

    def joined(self, parts: Sequence[Loaded], draws: Draws = NO_EPOCH) -> Loaded:
        """Several results as one; all of them were read with these ``draws``."""
        numbers = np.concatenate([part.numbers for part in parts])
        block = RecordBlock.joined([part.block for part in parts if part.block is not None])
        if self.schema is not None:
            items: Any = self._decode(block, draws)[0]
        else:
            items = [item for part in parts for item in part.items]
        return Loaded(items, numbers, block, [])

    def _decode(
        self, block: RecordBlock, draws: Draws
    ) -> tuple[Any, RecordBlock, Sequence[TorchRecIOError]]:
        """The items of a block, the records they are of, and an error for each of the others."""
        if self._parser is not None:
            return self._told(block, *parse_block(self._parser, block, draws))
        if self._block_parser is not None:
            return self._told(block, *self._block_parser.parse(block, draws))
        if self._decoder is None:
            return [block[i] for i in range(len(block))], block, []
        return self._decode_each(block, self._decoder)

    def _told(
        self, block: RecordBlock, batch: Batch, failures: Sequence[RecordFailure]
    ) -> tuple[Batch, RecordBlock, list[TorchRecIOError]]:
        errors: list[TorchRecIOError] = [
            self._error(block, failure.position, _reason(failure), failure.feature)
            for failure in failures
        ]
        return batch, block.without([failure.position for failure in failures]), errors

    def _decode_each(
        self, block: RecordBlock, decoder: Decoder
    ) -> tuple[list[Any], RecordBlock, list[TorchRecIOError]]:
        items: list[Any] = []
        bad: list[int] = []
        errors: list[TorchRecIOError] = []
        for position in range(len(block)):
            try:
                items.append(decoder(block[position]))
            except Exception as error:  # noqa: BLE001  # a user's function may raise anything
                reason = f"the schema function raised {type(error).__name__}: {error}"
                placed = self._error(block, position, reason)
                placed.__cause__ = error
                errors.append(placed)
                bad.append(position)
        return items, block.without(bad), errors

    def _error(
        self, block: RecordBlock, position: int, reason: str, feature: str | None = None
    ) -> DecodeError:
        path, record, offset = self.reader.place(block.numbers[position])
        return DecodeError(reason, path=path, record=record, offset=offset, feature=feature)


def _is_slow(spec: Feature) -> bool:
    """Whether values are decoded by other code than the native parser's, one by one."""
    element = spec.element if isinstance(spec, SequenceFeature) else spec
    if isinstance(element, RawFeature):
        return element.compression is not None
    return isinstance(element, ImageFeature)


def _reason(failure: RecordFailure) -> str:
    if failure.offset is None:
        return failure.reason
    return f"{failure.reason}, at byte {failure.offset} of the record"
