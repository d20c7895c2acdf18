"""A plain model of packed rows: what comes out of documents, token by token."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torchrec_io as tio


class Token(NamedTuple):
    """A token of a row.

    Attributes:
        document: Index of its document.
        place: Its place in the document, where the separator follows the last token.
    """

    document: int
    place: int


Row = list[list[Token]]


def model_rows(lengths: Sequence[int], pack: tio.Pack) -> list[list[Row]]:
    """Return the rows of each window of documents, each a list of pieces.

    Args:
        lengths: Number of tokens of each document, in the order of the epoch.
        pack: The options.
    """
    assert isinstance(pack.length, int)
    extra = 0 if pack.separator is None else 1
    documents = [
        [Token(index, place) for place in range(length + extra)]
        for index, length in enumerate(lengths)
        if length > 0
    ]
    if pack.mode == "chunk":
        return [_chunked([token for document in documents for token in document], pack)]
    documents = [[] for _ in lengths]
    for index, length in enumerate(lengths):
        if length > 0 and (length + extra <= pack.length or pack.long == "split"):
            documents[index] = [Token(index, place) for place in range(length + extra)]
    count = -(-len(lengths) // pack.window)
    cuts = [number * len(lengths) // count for number in range(count + 1)] if count else []
    return [fitted(documents[begin:end], pack.length) for begin, end in itertools.pairwise(cuts)]


def _chunked(tokens: list[Token], pack: tio.Pack) -> list[Row]:
    assert isinstance(pack.length, int)
    rows: list[Row] = []
    for begin in range(0, len(tokens), pack.length):
        part = tokens[begin : begin + pack.length]
        if len(part) < pack.length and pack.last == "drop":
            continue
        row: Row = []
        for token in part:
            if not row or row[-1][0].document != token.document:
                row.append([])
            row[-1].append(token)
        rows.append(row)
    return rows


def fitted(documents: list[list[Token]], length: int) -> list[Row]:
    """Return rows of documents, packed by best fit. Documents have ascending numbers."""
    pieces = [
        document[begin : begin + length]
        for document in documents
        for begin in range(0, len(document), length)
    ]
    rows: list[Row] = []
    # Rows by the time of their last change; equal room goes to the latest.
    by_change: list[Row] = []
    for piece in sorted(pieces, key=len, reverse=True):
        rooms = [length - sum(map(len, row)) for row in by_change]
        enough = [room for room in rooms if room >= len(piece)]
        if enough:
            at = len(rooms) - 1 - rooms[::-1].index(min(enough))
            row = by_change.pop(at)
        else:
            row = []
            rows.append(row)
        row.append(piece)
        by_change.append(row)
    cut = {document[0].document for document in documents if len(document) > length}
    leaders = [next((piece for piece in row if piece[0].document in cut), row[0]) for row in rows]
    return [sorted(row) for _, row in sorted(zip(leaders, rows, strict=True))]


class ModelRow(NamedTuple):
    """What comes out for a row, by its columns."""

    tokens: list[Any]
    also: list[Any]
    segment_ids: list[int]
    position_ids: list[int]
    segment_lengths: list[int]
    documents: list[int]
    same: list[Any]
    next: list[Any]


def model_row(
    row: Row, pack: tio.Pack, tokens: Callable[[int], list[Any]], also: Callable[[int], list[Any]]
) -> ModelRow:
    """Return the columns of a row.

    Args:
        row: Its pieces.
        pack: The options.
        tokens: Returns the tokens of a document.
        also: Returns other values of a document.
    """

    def token_at(document: int, place: int) -> Any:
        values = tokens(document)
        if place < len(values):
            return values[place]
        return pack.separator if place == len(values) else None

    made = ModelRow([], [], [], [], [], [], [], [])
    for number, piece in enumerate(row, 1):
        document, first = piece[0]
        whole = len(tokens(document)) + (pack.separator is not None)
        for index, (_, place) in enumerate(piece):
            values = also(document)
            made.tokens.append(token_at(document, place))
            made.also.append(values[min(place, len(values) - 1)])
            made.segment_ids.append(number)
            made.position_ids.append(index + (first if pack.positions == "continue" else 0))
            made.same.append(token_at(document, place) if index else -100)
            made.next.append(token_at(document, place + 1) if place + 1 < whole else -100)
        made.segment_lengths.append(len(piece))
        made.documents.append(document)
    assert isinstance(pack.length, int)
    room = pack.length - len(made.tokens)
    if room:
        made.segment_lengths.append(room)
    for column, fill in zip(made, (pack.pad_id, 0, 0, 0, None, None, -100, -100), strict=True):
        if fill is not None:
            column.extend([fill] * room)
    return made
