"""Messages other than Examples that TFRecord files often contain, recognized from their bytes.

TensorBoard's events, the genomics records of nucleus and the statistics of TensorFlow Data
Validation. Protobuf reads them. Fields whose content is of no interest here are declared as bytes.
"""

from __future__ import annotations

import functools
import itertools
import struct
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf import descriptor_pb2, json_format

from .byte_formats import TEXT, sniff
from .dynamic_messages import GROUP, parse_fields, parse_message
from .features import Parts, RecordKind, ShownField

_Field = descriptor_pb2.FieldDescriptorProto


def _is_range(message: Any) -> bool:
    return bool(message.reference_name) and 0 <= message.start < message.end


# The name of each message to recognize, its type, and whether a parsed one has the fields without
# which it would be something else.
_KNOWN: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "TensorBoard event (tensorflow.Event)": ("Event", lambda m: m.wall_time > 0),
    "nucleus.genomics.v1.Variant": (
        "Variant",
        lambda m: bool(m.reference_name and m.reference_bases),
    ),
    "nucleus.genomics.v1.Read": ("Read", lambda m: bool(m.aligned_sequence)),
    "nucleus.genomics.v1.FastqRecord": (
        "FastqRecord",
        lambda m: 0 < len(m.sequence) == len(m.quality),
    ),
    "nucleus.genomics.v1.BedRecord": ("BedRecord", _is_range),
    "nucleus.genomics.v1.GffRecord": ("GffRecord", lambda m: _is_range(m.range)),
    "tensorflow.metadata.v0.DatasetFeatureStatisticsList": (
        "FeatureStatistics",
        lambda m: any(dataset.features for dataset in m.datasets),
    ),
}


def _read_known(record: bytes, message_name: str, accepts: Callable[[Any], bool]) -> Parts | None:
    """Return the fields of a message; None if the record is not such a message."""
    message = parse_message(message_name, record)
    if message is None:
        return None
    whole = message.SerializeToString()
    message.DiscardUnknownFields()
    if message.SerializeToString() != whole or not accepts(message):
        return None
    as_json = json_format.MessageToDict(message, preserving_proto_field_name=True)
    fields = [_fields(kind, value, as_json) for kind, value in message.ListFields()]
    shown: dict[str, ShownField] = {}
    for name, field in itertools.chain(*fields):
        # The tags of a TensorBoard summary may be repeated.
        before = shown[name].values if name in shown else ()
        shown[name] = field._replace(values=[*before, *field.values])
    return {"message": shown}


KNOWN_KINDS = tuple(
    RecordKind(name, functools.partial(_read_known, message_name=message, accepts=accepts))
    for name, (message, accepts) in _KNOWN.items()
)


def _fields(
    descriptor: Any, value: Any, as_json: Mapping[str, Any]
) -> list[tuple[str, ShownField]]:
    """Return the names and values of a field: of a TensorBoard summary, those of its tags.

    Args:
        descriptor: Descriptor of the field.
        value: Its value.
        as_json: All fields of the message in the form of JSON.
    """
    name, kind = descriptor.name, descriptor.message_type
    if kind is None:
        type_name = _Field.Type.Name(descriptor.type).removeprefix("TYPE_").lower()
        single = isinstance(value, (str, bytes, int, float))
        return [(name, ShownField(type_name, [value] if single else list(value)))]
    if kind.name == "Summary":
        items = zip(value.value, as_json[name].get("value", ()), strict=True)
        return [_summary_value(item, content) for item, content in items]
    if kind.GetOptions().map_entry:
        return [(name, ShownField("map", [as_json[name]]))]
    values = as_json[name]
    return [(name, ShownField("message", values if isinstance(values, list) else [values]))]


def _summary_value(item: Any, content: dict[str, Any]) -> tuple[str, ShownField]:
    if item.WhichOneof("kind") == "simple_value":
        return item.tag, ShownField("float", [item.simple_value])
    content.pop("tag", None)
    return item.tag, ShownField("message", [content])


# ---- messages without a known type ----

# Wire types, and the deepest message in a message that is shown as one.
_VARINT, _FIXED64, _FIXED32 = 0, 1, 5
_MAX_DEPTH = 8


def read_unknown(record: bytes) -> Parts | None:
    """Return the fields of a message without a known type; their names are their numbers.

    Returns:
        The fields, or None if the bytes are not a message.
    """
    fields = _read_fields(record, 1)
    if fields is None:
        return None
    return {"message": {f"field {number}": field for number, field in fields.items()}}


def _read_fields(data: bytes, depth: int) -> dict[int, ShownField] | None:
    """Return the fields of a message by number."""
    found = parse_fields(data)
    if found is None or any(field.wire_type == GROUP for field in found):
        return None
    values: defaultdict[int, list[Any]] = defaultdict(list)
    kinds: dict[int, str] = {}
    for field in found:
        kind, value = _guess(field.wire_type, field.data, depth)
        kinds.setdefault(field.field_number, kind)
        values[field.field_number].append(value)
    return {number: ShownField(kinds[number], values[number]) for number in kinds}


def _guess(wire_type: int, data: Any, depth: int) -> tuple[str, Any]:
    """Return the kind that a field's value seems to have, and the value."""
    if wire_type == _VARINT:
        return "varint", data
    if wire_type == _FIXED64:
        return "double", struct.unpack("<d", data.to_bytes(8, "little"))[0]
    if wire_type == _FIXED32:
        return "float", struct.unpack("<f", data.to_bytes(4, "little"))[0]
    nested = None if sniff(data) == TEXT or depth == _MAX_DEPTH else _nested(data, depth)
    return ("bytes", data) if nested is None else ("message", nested)


def _nested(data: bytes, depth: int) -> dict[str, Any] | None:
    fields = _read_fields(data, depth + 1)
    if fields is None:
        return None
    found: dict[str, Any] = {}
    for number, (_, values, _) in fields.items():
        plain = [v.decode("utf-8", "backslashreplace") if type(v) is bytes else v for v in values]
        found[str(number)] = plain if len(plain) > 1 else plain[0]
    return found
