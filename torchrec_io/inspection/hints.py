"""Hints about records that cannot be parsed: their likely format, and the spec that reads them.

They end the messages of errors. A record is examined only when its error is shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from .._schema.dtypes import RAW_DTYPES, item_bytes
from .._schema.feature import Feature
from .._schema.schema import Schema
from .._schema.stored_names import feature_names
from ..checks import suggest_names
from .byte_formats import EMPTY, IMAGES, OTHER, TENSOR, TEXT, sniff
from .features import InspectedFeature, inspect_example, inspect_sequence_example
from .inference import DTYPES
from .record_kind import BYTES, EXAMPLE, EXAMPLE_LIST, SEQUENCE, natural_key, recognize_kind

# Values of larger records are not examined, as this is slow.
_MOST_BYTES = 1 << 24

# Specs that decode bytes values.
_DECODING = ("ImageFeature", "RawFeature", "SerializedTensorFeature")

_TENSOR_TEXT = "a serialized tensor (TensorProto)"
_SEQUENCE_HINT = (
    "the record looks like a tf.train.SequenceExample: use Schema(context=..., sequence=...)"
)
_EXAMPLE_HINT = (
    "the record looks like a tf.train.Example: use a dict of features as the schema, without "
    "context and sequence"
)


def hint_at(schema: Schema, record: bytes, name: str | None, key: str) -> str:
    """Return a hint about a record that cannot be parsed, to end an error message; or "".

    Args:
        schema: Schema of the record.
        record: The record.
        name: Flat name of the feature that cannot be read; None if the record is not valid.
        key: Name of the stored feature.
    """
    names = feature_names(record)
    if names is None or not any(each and each.isprintable() for part in names for each in part):
        return _hint_at_record(record)
    if name is None:
        return ""
    in_lists = name in (schema.sequence or {})
    here, elsewhere = names[::-1] if in_lists else names
    if key in here:
        return "" if len(record) > _MOST_BYTES else _value_hint(schema, record, name, key)
    if names[1] and not schema.is_sequence:
        hint = _SEQUENCE_HINT
    elif in_lists and not here:
        hint = _EXAMPLE_HINT
    elif key in elsewhere:
        hint = f"the record has it as a {'context feature' if in_lists else 'feature list'}"
    else:
        hint = suggest_names(key, sorted(set(here), key=natural_key), "the record has")
    return f"; {hint}"


def _hint_at_record(record: bytes) -> str:
    """Return a hint about a record that is not an Example, to end an error message; or ""."""
    if not record:
        return "; the record is empty"
    what, schema = _recognize(record)
    return f"; the record looks like {what}: pass {schema}" if what else ""


def _recognize(record: bytes) -> tuple[str, str]:
    """Guess the format of a record; return its name and a schema that reads it, or "" twice."""
    found = sniff(record)
    if found == TEXT:
        is_json = record.lstrip()[:1] in (b"{", b"[")
        return ("JSON", "schema=json.loads") if is_json else ("text", "schema=bytes.decode")
    if found not in (OTHER, TENSOR):
        return _file_text(found), "schema=None for its bytes, or a function that decodes them"
    kind = recognize_kind([record]) if len(record) <= _MOST_BYTES else BYTES
    if kind is EXAMPLE_LIST:
        return f"an {kind.name}", "a tio.ranking.Schema"
    if found == OTHER and kind in (EXAMPLE, SEQUENCE, BYTES):
        return "", ""
    name = _TENSOR_TEXT if found == TENSOR else f"a {kind.name}"
    return name, "schema=None, or a function that parses it"


def _file_text(format_: str) -> str:
    return f"a {format_} {'image' if format_ in IMAGES else 'file'}"


def _value_hint(schema: Schema, record: bytes, name: str, key: str) -> str:
    """Return a hint that names the spec for the values of a stored feature; "" if not known."""
    spec = schema[name]
    in_lists = name in (schema.sequence or {})
    filled = [step for step in _steps_of(record, key, in_lists=in_lists) if step.values]
    if not filled:
        return ""
    kind, values = filled[0]
    wanted = next((each.dtype for each in spec.stored_keys(name) if each.key == key), "")
    shape = [] if len(values) == 1 else [len(values)]
    if kind != "bytes":
        dtype = DTYPES[kind]
        plain = f"VarLenFeature({dtype!r})" if in_lists else f"FixedLenFeature({shape}, {dtype!r})"
        return "" if wanted == dtype else f"; {plain} reads it"
    class_name = type(getattr(spec, "element", spec)).__name__
    if wanted == "string" and class_name not in _DECODING:
        return ""
    value: bytes = values[0]  # type: ignore[assignment]  # of this kind
    is_several = in_lists or bool(shape) or hasattr(spec, "element")
    what, decoding = _decoding_of(value, spec)
    if not what or (class_name == "RawFeature" and not decoding):
        return ""  # the bytes of an array may look like text
    if decoding.startswith(class_name) and is_several == hasattr(spec, "element"):
        return ""
    if is_several and decoding:
        decoding = f"SequenceFeature({decoding})" if "Tensor" not in decoding else ""
    plain = f"FixedLenFeature({shape}, 'string')" if not is_several else "VarLenFeature('string')"
    return f"; the value looks like {what}: {decoding or plain} reads it"


def _decoding_of(value: bytes, spec: Feature) -> tuple[str, str]:
    """Guess the content of a bytes value; return its name and the spec that decodes it, or ""."""
    found = sniff(value)
    if found in IMAGES:
        return _file_text(found), "ImageFeature()"
    if found == TENSOR:
        return _TENSOR_TEXT, "SerializedTensorFeature"
    if found == OTHER:
        count, rest = divmod(len(value), item_bytes(spec.dtype) if spec.dtype in RAW_DTYPES else 1)
        if rest or spec.dtype not in RAW_DTYPES or type(spec).__name__ == "ImageFeature":
            return "", ""
        return "the bytes of an array", f"RawFeature({spec.dtype!r}, [{count}])"
    return {TEXT: "text", EMPTY: ""}.get(found, _file_text(found)), ""


def _steps_of(record: bytes, key: str, *, in_lists: bool) -> Sequence[InspectedFeature]:
    """Return a stored feature, or the steps of a feature list."""
    if in_lists:
        found = inspect_sequence_example(record)
        return [] if found is None else found[1].get(key, [])
    features = inspect_example(record) or {}
    return [features[key]] if key in features else []
