"""Hints about records that cannot be parsed: their likely format, and the spec that reads them.

They end the messages of errors. A record is examined only when its error is shown.
"""

from __future__ import annotations

from .._parsing.stored_names import feature_names
from .._records.record_block import RecordList
from .._schema.dtypes import RAW_DTYPES, item_bytes
from .._schema.feature import Feature
from .._schema.image_spec import ImageFeature
from .._schema.python_form import to_python
from .._schema.schema import Schema
from .._schema.stored_specs import RawFeature, SerializedTensorFeature
from ..checks import suggest_names
from .byte_formats import EMPTY, IMAGES, OTHER, TENSOR, TEXT, sniff
from .inference import DTYPES, Finding, Inspected, find_feature
from .record_kind import BYTES, EXAMPLE, EXAMPLE_LIST, SEQUENCE, natural_key, recognize_kind
from .surveyor import Surveyor

# Larger records are not recognized, as this is slow.
_MOST_BYTES = 1 << 24

# Specs that decode bytes values.
_DECODING = (ImageFeature, RawFeature, SerializedTensorFeature)

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
        return _value_hint(schema, record, name, key)
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
    finding = _find(record, key, in_lists=name in (schema.sequence or {}))
    if finding is None or finding.spec is None or finding.counts in (None, (0, 0)):
        return ""
    wanted = next((each.dtype for each in spec.stored_keys(name) if each.key == key), "")
    if finding.kind != "bytes":
        is_wanted = wanted == DTYPES[finding.kind]
        return "" if is_wanted else f"; {to_python(finding.spec)} reads it"
    element = getattr(spec, "element", spec)
    if wanted == "string" and not isinstance(element, _DECODING):
        return ""
    what, decoder = _decoder_of(finding, element)
    is_several = finding.where == "list" or finding.counts != (1, 1) or element is not spec
    is_own = decoder.startswith(f"tio.{type(element).__name__}")
    if not what or (is_own and is_several == (element is not spec)):
        return ""
    if is_several and decoder:
        decoder = "" if finding.formats[0] == TENSOR else f"tio.SequenceFeature({decoder})"
    return f"; the value looks like {what}: {decoder or to_python(finding.spec)} reads it"


def _find(record: bytes, key: str, *, in_lists: bool) -> Finding | None:
    """Return the finding about a feature of a record; None if the record cannot be read."""
    surveyor = Surveyor()
    surveyor.add(RecordList.of([record]))
    survey = surveyor.result()
    summary = (survey.lists if in_lists else survey.context).get(key)
    return None if summary is None else find_feature(key, summary, Inspected(1, 1))


def _decoder_of(finding: Finding, element: Feature) -> tuple[str, str]:
    """Return the likely content of bytes values, and source of the spec that decodes it; or ""."""
    found = finding.formats[0]
    if found in IMAGES:
        return _file_text(found), "tio.ImageFeature()"
    if found == TENSOR:
        return _TENSOR_TEXT, "tio.SerializedTensorFeature"
    if found == OTHER and element.dtype in RAW_DTYPES and not isinstance(element, ImageFeature):
        least, most = map(int, finding.extent or (0, 0))
        size = item_bytes(element.dtype)
        if least < most or most % size:
            return "", ""
        return "the bytes of an array", to_python(RawFeature(element.dtype, [most // size]))
    if found in (OTHER, EMPTY) or isinstance(element, RawFeature):
        return "", ""  # the bytes of an array may look like text
    return "text" if found == TEXT else _file_text(found), ""
