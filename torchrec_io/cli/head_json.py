"""Records as JSON, for programs."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..inspection.features import Parts, RecordKind, ShownField
from ..inspection.record_kind import PLAIN_TEXT


def record_json(
    place: Mapping[str, Any],
    kind: RecordKind | None = None,
    data: bytes = b"",
    parts: Parts | None = None,
) -> str:
    """Return a record as one line of JSON.

    Args:
        place: Members about the place of the record.
        kind: Kind of the record; None if it has no content.
        data: Content of the record.
        parts: Fields of the record, if it has any.
    """
    content: dict[str, Any] = {}
    if kind is not None:
        content["kind"] = kind.name
        if parts is not None:
            for title, fields in parts.items():
                content[title] = {_name(name): _field(field) for name, field in fields.items()}
        elif kind == PLAIN_TEXT:
            content["text"] = data.decode()
        else:
            content["base64"] = base64.b64encode(data).decode()
    return json.dumps({**place, **content}, allow_nan=False)


def _field(field: ShownField) -> dict[str, Any]:
    return {"type": field.kind, field.noun: [_plain(value) for value in field.values]}


def _plain(value: Any) -> Any:
    """Return a value that JSON has, in the way of protobuf's JSON for numbers."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value


def _name(name: str) -> str:
    """Return a name without the surrogates that stand for bytes that are not UTF-8."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
