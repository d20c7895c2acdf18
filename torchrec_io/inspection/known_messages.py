"""Messages other than Examples that TFRecord files often contain, recognized from their bytes.

TensorBoard's events, the genomics records of nucleus and the statistics of TensorFlow Data
Validation. Protobuf reads them. Fields whose content is of no interest here are declared as bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, json_format

from .byte_formats import TEXT, sniff
from .dynamic_messages import GROUP, message_classes, parse_fields, parse_message

_Field = descriptor_pb2.FieldDescriptorProto

# The fields of each message, as :func:`message_classes` takes them.
_MESSAGES = {
    "Event": (
        "double wall_time 1, int64 step 2, string file_version 3, bytes graph_def 4, "
        "Summary summary 5, bytes log_message 6, bytes session_log 7, "
        "bytes tagged_run_metadata 8, bytes meta_graph_def 9, SourceMetadata source_metadata 10"
    ),
    "SourceMetadata": "string writer 1",
    "Summary": "SummaryValue* value 1",
    "SummaryValue": (
        "string tag 1, float| simple_value 2, bytes| obsolete_old_style_histogram 3, "
        "SummaryImage| image 4, Histogram| histo 5, SummaryAudio| audio 6, string node_name 7, "
        "bytes| tensor 8, SummaryMetadata metadata 9"
    ),
    "SummaryImage": "int32 height 1, int32 width 2, int32 colorspace 3, bytes encoded_image 4",
    "SummaryAudio": (
        "float sample_rate 1, int64 num_channels 2, int64 length_frames 3, "
        "bytes encoded_audio_string 4, string content_type 5"
    ),
    "SummaryMetadata": (
        "PluginData plugin_data 1, string display_name 2, string summary_description 3, "
        "int32 data_class 4"
    ),
    "PluginData": "string plugin_name 1, bytes content 2",
    "Histogram": (
        "double min 1, double max 2, double num 3, double sum 4, double sum_squares 5, "
        "double* bucket_limit 6, double* bucket 7"
    ),
    "Read": (
        "string id 1, string read_group_id 2, string read_group_set_id 3, string fragment_name 4, "
        "bool proper_placement 5, bool duplicate_fragment 6, int32 fragment_length 7, "
        "int32 read_number 8, int32 number_reads 9, bool failed_vendor_quality_checks 10, "
        "LinearAlignment alignment 11, bool secondary_alignment 12, "
        "bool supplementary_alignment 13, string aligned_sequence 14, int32* aligned_quality 15, "
        "Position next_mate_position 16, ListValue{} info 17"
    ),
    "LinearAlignment": "Position position 1, int32 mapping_quality 2, CigarUnit* cigar 3",
    "Position": "string reference_name 1, int64 position 2, bool reverse_strand 3",
    "CigarUnit": "int32 operation 1, int64 operation_length 2, string reference_sequence 3",
    "ListValue": "Value* values 1",
    "Value": (
        "int32| null_value 1, double| number_value 2, string| string_value 3, bool| bool_value 4, "
        "Struct| struct_value 5, ListValue| list_value 6, int32| int_value 7"
    ),
    "Struct": "Value{} fields 1",
    "Variant": (
        "string id 2, string* names 3, string reference_bases 6, string* alternate_bases 7, "
        "double quality 8, string* filter 9, ListValue{} info 10, VariantCall* calls 11, "
        "int64 created 12, int64 end 13, string reference_name 14, string variant_set_id 15, "
        "int64 start 16"
    ),
    "VariantCall": (
        "ListValue{} info 2, string phaseset 5, double* genotype_likelihood 6, int32* genotype 7, "
        "string call_set_id 8, string call_set_name 9, bool is_phased 10"
    ),
    "FastqRecord": "string id 1, string description 2, string sequence 3, string quality 4",
    "BedRecord": (
        "string reference_name 1, int64 start 2, int64 end 3, string name 4, double score 5, "
        "int32 strand 6, int64 thick_start 7, int64 thick_end 8, string item_rgb 9, "
        "int32 block_count 10, string block_sizes 11, string block_starts 12"
    ),
    "Range": "string reference_name 1, int64 start 2, int64 end 3",
    "GffRecord": (
        "Range range 1, string source 2, string type 3, double score 4, int32 strand 5, "
        "int32 phase 6, string{} attributes 7"
    ),
    "FeatureStatistics": "DatasetStatistics* datasets 1",
    "DatasetStatistics": (
        "string name 1, int64 num_examples 2, NameStatistics* features 3, "
        "double weighted_num_examples 4, bytes* cross_features 5"
    ),
    "NameStatistics": (
        "string name 1, int32 type 2, bytes num_stats 3, bytes string_stats 4, bytes bytes_stats 5,"
        " bytes* custom_stats 6, bytes struct_stats 7, bytes path 8, bytes validation_derived 9, "
        "bytes derived_source 10"
    ),
}

_CLASSES = message_classes("torchrec_io.known", _MESSAGES)


class _Known(NamedTuple):
    """A message to recognize.

    Attributes:
        message: Key in ``_MESSAGES``.
        name: Full name of the message.
        accepts: Whether a parsed message has the fields without which it would be something else.
    """

    message: str
    name: str
    accepts: Callable[[Any], bool]


_KNOWN = (
    _Known("Event", "TensorBoard event (tensorflow.Event)", lambda m: m.wall_time > 0),
    _Known(
        "Variant",
        "nucleus.genomics.v1.Variant",
        lambda m: bool(m.reference_name and m.reference_bases),
    ),
    _Known("Read", "nucleus.genomics.v1.Read", lambda m: bool(m.aligned_sequence)),
    _Known(
        "FastqRecord",
        "nucleus.genomics.v1.FastqRecord",
        lambda m: 0 < len(m.sequence) == len(m.quality),
    ),
    _Known(
        "BedRecord",
        "nucleus.genomics.v1.BedRecord",
        lambda m: bool(m.reference_name) and 0 <= m.start < m.end,
    ),
    _Known(
        "GffRecord",
        "nucleus.genomics.v1.GffRecord",
        lambda m: bool(m.range.reference_name) and 0 <= m.range.start < m.range.end,
    ),
    _Known(
        "FeatureStatistics",
        "tensorflow.metadata.v0.DatasetFeatureStatisticsList",
        lambda m: any(dataset.features for dataset in m.datasets),
    ),
)
KNOWN_NAMES = tuple(known.name for known in _KNOWN)


class MessageField(NamedTuple):
    """A field of a message that has a value.

    Attributes:
        name: Name of the field; the tag for a value of a TensorBoard summary.
        kind: Type of the field, such as ``"int64"`` or ``"message"``.
        values: Its values. Messages are dicts, as in protobuf's JSON.
    """

    name: str
    kind: str
    values: list[Any]


def read_known(record: bytes, name: str) -> list[MessageField] | None:
    """Return the fields of a message that is named in :data:`KNOWN_NAMES`.

    Returns:
        The fields, or None if the record is not such a message.
    """
    known = _KNOWN[KNOWN_NAMES.index(name)]
    message = parse_message(_CLASSES[known.message], record)
    if message is None:
        return None
    size = message.ByteSize()
    message.DiscardUnknownFields()
    if message.ByteSize() != size or not known.accepts(message):
        return None
    return [field for found in message.ListFields() for field in _fields(*found)]


def _fields(descriptor: Any, value: Any) -> list[MessageField]:
    if descriptor.message_type is None:
        kind = _Field.Type.Name(descriptor.type).removeprefix("TYPE_").lower()
        single = isinstance(value, (str, bytes, int, float))
        return [MessageField(descriptor.name, kind, [value] if single else list(value))]
    if descriptor.message_type.name == "Summary":
        return [_summary_value(item) for item in value.value]
    if descriptor.message_type.GetOptions().map_entry:
        # A map of messages reads as one dict.
        owner = _CLASSES[descriptor.containing_type.name]()
        for key in value:
            _copy_entry(getattr(owner, descriptor.name), key, value[key])
        return [MessageField(descriptor.name, "map", [next(iter(_to_dict(owner).values()))])]
    messages = [value] if hasattr(value, "DESCRIPTOR") else list(value)
    return [MessageField(descriptor.name, "message", [_to_dict(item) for item in messages])]


def _copy_entry(entries: Any, key: str, value: Any) -> None:
    if isinstance(value, str):
        entries[key] = value
    else:
        entries[key].CopyFrom(value)


def _summary_value(item: Any) -> MessageField:
    if item.WhichOneof("kind") == "simple_value":
        return MessageField(item.tag, "float", [item.simple_value])
    content = _to_dict(item)
    content.pop("tag", None)
    return MessageField(item.tag, "message", [content])


def _to_dict(message: Any) -> dict[str, Any]:
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


# ---- messages without a known type ----

# Wire types, and the deepest message in a message that is shown as one.
_VARINT, _FIXED64, _FIXED32 = 0, 1, 5
_MAX_DEPTH = 8


def read_unknown(record: bytes) -> list[MessageField] | None:
    """Return the fields of a message without a known type; their names are their numbers.

    Returns:
        The fields, or None if the bytes are not a message.
    """
    fields = _read_fields(record, 1)
    if fields is None:
        return None
    return [MessageField(f"field {number}", kind, fields[number, kind]) for number, kind in fields]


def _read_fields(data: bytes, depth: int) -> dict[tuple[int, str], list[Any]] | None:
    """Return the values of each field of a message by number and kind."""
    found = parse_fields(data)
    if found is None:
        return None
    fields: dict[tuple[int, str], list[Any]] = {}
    for field in found:
        if field.wire_type == GROUP:
            return None
        kind, value = _guess(field.wire_type, field.data, depth)
        fields.setdefault((field.field_number, kind), []).append(value)
    return fields


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
    for (number, _), values in fields.items():
        plain = [v.decode("utf-8", "backslashreplace") if type(v) is bytes else v for v in values]
        found[str(number)] = plain if len(plain) > 1 else plain[0]
    return found
