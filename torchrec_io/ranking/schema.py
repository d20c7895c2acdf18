"""Lists of Examples that share a context: TF-Ranking's ``ExampleListWithContext`` (ELWC)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import SchemaError
from ..parsing.parser import RecordFailure
from ..parsing.wrapping import field_prefix
from ..records.record_block import RecordBlock
from ..schema.checks import errors_of
from ..schema.feature import Feature
from ..schema.feature_mapping import FeatureMapping
from ..schema.nesting import check_paths
from ..schema.schema import Schema
from ..writing.encode import Kinds, encode_example, encode_examples

if TYPE_CHECKING:
    from ..storage.local import StrPath

# Fields of the message, both length-delimited: `repeated Example examples` and `Example context`.
_EXAMPLES, _CONTEXT = b"\x0a", b"\x12"


class ExampleListSchema(FeatureMapping):
    """The features to read from records that are ``ExampleListWithContext``: lists to be ranked.

    Such a record has any number of Examples, the documents, and one Example more that they share,
    the query. As a mapping the schema holds the features of both, those of the context first.

    | spec | value, in a batch of B records with N examples in all |
    | --- | --- |
    | of the context | as in a :class:`Schema` |
    | of examples: FixedLenFeature, RawFeature | Ragged of values ``[N, *shape]`` over records |
    | of examples: VarLenFeature, RaggedFeature | Ragged of what the spec gives for N Examples |

    The outermost offsets are int64 ``[B + 1]`` and the same for all features of examples.
    ``batch[name].to_padded()`` gives ``[B, list_size, ...]``, and ``list_size`` is cut or enlarged
    by its arguments ``max_len`` and ``buckets``. TF-Ranking's mask, which tells examples from
    padding, is ``torch.arange(list_size) < batch[name].lengths[:, None]``.

    What is meant by the parts is said by ``parse_from_example_list`` in TF-Ranking
    (``tensorflow_ranking/python/data.py``). Records are read as protobuf reads them: a missing
    context is an empty Example, for which features with a default have that; of a context that is
    stored in several parts, all are merged (TF-Ranking takes the last); unknown fields are skipped.
    A ``default_value`` is not needed for lists of different lengths, as TF-Ranking needs it.

    Args:
        context: Spec of each feature of the context, or dicts of them; may be empty.
        examples: Spec of each feature of the examples: FixedLenFeature, VarLenFeature,
            RaggedFeature or RawFeature of a shape.

    Raises:
        SchemaError: examples have no feature; a spec is none, or does not go where it is put; a
            name is given twice, or is that of a dict, too.
    """

    public_name = "ExampleListSchema"
    part_names = (("context", "examples"),)

    def __init__(
        self,
        context: Mapping[str, Any] | None = None,
        examples: Mapping[str, Any] | None = None,
    ) -> None:
        if not examples:
            raise SchemaError("a schema of lists needs a dict of at least one feature of examples")
        self.example_schema = _example_schema(examples, "examples")
        self.context_schema = _example_schema(context, "context") if context else None
        for name, feature in self.example_schema.items():
            if name in self.context:
                raise SchemaError("the context has a feature of the same name", feature=name)
            with errors_of(name):
                feature.check_place("ranked")
        self._all = {**self.context, **self.examples}
        self._paths = dict(self.example_schema.paths)
        if self.context_schema is not None:
            self._paths |= self.context_schema.paths
        check_paths(self._all, self._paths)

    def message_parser(self) -> Any:
        """Return the parser of messages, as datasets use it."""
        from .list_parser import ExampleListParser  # noqa: PLC0415  # needs torch

        return ExampleListParser(self)

    @classmethod
    def infer(
        cls, paths: StrPath | Iterable[StrPath], max_records: int = 1000
    ) -> ExampleListSchema:
        """A schema that fits the lists of files, for a person to look over.

        By the rules of :meth:`Schema.infer`, with examples in place of records for features of
        examples; images stay bytes there. :attr:`findings` has what was seen.

        Args:
            paths: As of :class:`TFRecordDataset`: files, patterns or directories.
            max_records: How many records are read, at most.

        Raises:
            SchemaError: there is no record, the records are no lists of examples as far as can be
                told from their bytes, or no feature of the examples can be read.
            CorruptRecordError, TruncatedFileError: a file is damaged where it was read.
            FileNotFoundError: a path stands for no file.
            ValueError: no path at all, or max_records is no whole number from 1.
        """
        from .infer import infer_lists  # noqa: PLC0415  # it reads files

        found = infer_lists(paths, max_records)
        if found is None:
            raise SchemaError("the records are no lists of examples, as far as can be told")
        return found

    @property
    def parts(self) -> dict[str, Mapping[str, Feature]]:
        """Specs by flat name of each part: "context" and "examples"."""
        return {"context": self.context, "examples": self.examples}

    @property
    def context(self) -> Mapping[str, Feature]:
        """Specs of the context by name."""
        return MappingProxyType({}) if self.context_schema is None else self.context_schema.context

    @property
    def examples(self) -> Mapping[str, Feature]:
        """Specs of the examples by name."""
        return self.example_schema.context


def _example_schema(features: Mapping[str, Any], part: str) -> Schema:
    schema = Schema.of(features)
    if schema.is_sequence:
        raise SchemaError(f"the {part} of a list are Examples, which have no feature lists")
    return schema


# ---- the parts of records ----


class ListBlock(NamedTuple):
    """The parts of some records, each part a serialized Example.

    Attributes:
        contexts: One for each record.
        examples: Of all records, one behind the other.
        offsets: int64 ``[records + 1]``; which examples are whose.
        context_at: int64 ``[records]``; the byte of its record where a context starts, -1 if it was
            put together of several.
        example_at: int64 ``[examples]``; the byte of its record where an example starts.
    """

    contexts: RecordBlock
    examples: RecordBlock
    offsets: npt.NDArray[np.int64]
    context_at: npt.NDArray[np.int64]
    example_at: npt.NDArray[np.int64]

    def of_context(self, failure: RecordFailure) -> RecordFailure:
        """A failure of a context as one of its record."""
        at = int(self.context_at[failure.position])
        offset = None if failure.offset is None or at < 0 else at + failure.offset
        return failure._replace(offset=offset)

    def of_example(self, failure: RecordFailure) -> RecordFailure:
        """A failure of an example as one of its record."""
        record = int(np.searchsorted(self.offsets, failure.position, "right")) - 1
        at = int(self.example_at[failure.position])
        number = failure.position - int(self.offsets[record])
        offset = None if failure.offset is None else at + failure.offset
        return RecordFailure(record, failure.feature, offset, f"example {number}: {failure.reason}")


def split_lists(block: RecordBlock) -> tuple[ListBlock, list[RecordFailure]]:
    """The parts of records, and a failure for each record that is no ExampleListWithContext."""
    parts = _core.split_lists(block.native())
    offsets, example_at = parts.example_splits, parts.example_offsets
    owners = np.repeat(np.arange(len(block)), np.diff(offsets))
    examples = RecordBlock(
        block.buffer, block.starts[owners] + example_at, parts.example_sizes, block.numbers[owners]
    )
    contexts, places = _contexts(
        block, parts.context_records, parts.context_offsets, parts.context_sizes
    )
    found = [RecordFailure(each.record, None, each.offset, each.reason) for each in parts.failures]
    return ListBlock(contexts, examples, offsets, places, example_at), found


def _contexts(
    block: RecordBlock,
    owners: npt.NDArray[np.int64],
    at: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
) -> tuple[RecordBlock, npt.NDArray[np.int64]]:
    """One context a record, and where in the record it starts."""
    places = np.zeros(len(block), np.int64)
    lengths = np.zeros(len(block), np.int64)
    places[owners], lengths[owners] = at, sizes  # of several the last, for now
    starts = block.starts + places
    parts, end = [block.buffer], len(block.buffer)
    firsts = np.searchsorted(owners, np.arange(len(block) + 1))
    for record in np.flatnonzero(np.diff(firsts) > 1).tolist():
        # Messages that follow each other are one, merged as protobuf merges them.
        several = slice(int(firsts[record]), int(firsts[record + 1]))
        begins = (block.starts[record] + at[several]).tolist()
        ends = [begin + size for begin, size in zip(begins, sizes[several].tolist(), strict=True)]
        parts += [block.buffer[i:j] for i, j in zip(begins, ends, strict=True)]
        starts[record], lengths[record] = end, sizes[several].sum()
        end += int(lengths[record])
        places[record] = -1
    buffer = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return RecordBlock(buffer, starts, lengths, block.numbers), places


# ---- encoding ----


def encode_example_list(
    context: Mapping[str, Any] | None,
    examples: Iterable[Mapping[str, Any]],
    kinds: Kinds | ExampleListSchema | None = None,
) -> bytes:
    """Serializes one ``ExampleListWithContext``.

    Args:
        context: Value of each feature, as in :func:`encode_example`. None leaves this part out.
        examples: The same for each example.
        kinds: As in :func:`encode_example`, for the features of both parts.

    Raises:
        TypeError, ValueError, SchemaError: as :func:`encode_example`.
    """
    context_kinds: Kinds | None
    example_kinds: Kinds | None
    if isinstance(kinds, ExampleListSchema):
        context_kinds, example_kinds = kinds.context_schema, kinds.example_schema
    else:
        context_kinds = example_kinds = kinds
    parts = [(_EXAMPLES, example) for example in encode_examples(examples, example_kinds)]
    if context is not None:
        parts.append((_CONTEXT, encode_example(context, context_kinds)))
    return b"".join(field_prefix(tag, len(part)) + part for tag, part in parts)
