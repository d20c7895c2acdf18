"""Serialization of Python values to ``tf.train.Example`` and ``tf.train.SequenceExample`` messages.

The native core reads the common types: Python's own scalars and lists, and NumPy arrays. This
module converts all other values to one of those.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core
from .._schema.dtypes import DTYPES, dtype_name, stored_dtype
from .._schema.feature import Feature
from .._schema.schema import Schema
from ..checks import with_article

# Stored dtypes by feature name.
Kinds: TypeAlias = "Mapping[str, Any] | Schema"

_Kind: TypeAlias = _core.Kind
_STORED_KINDS = {"string": _Kind.bytes, "float32": _Kind.floats, "int64": _Kind.ints}
_KINDS: dict[str, _Kind] = {name: _STORED_KINDS[stored_dtype(name)] for name in DTYPES}
_MAX_DEPTH = _core.MAX_LIST_DEPTH
_STORABLE = "int, float, str, bytes, or lists and arrays of them"


def encode_example(features: Mapping[str, Any], kinds: Kinds | None = None) -> bytes:
    """Serialize one ``tf.train.Example``, as TensorFlow's deterministic serializer does.

    Features are sorted by the UTF-8 bytes of their names, as protobuf does in C++. (Protobuf's
    compiled Python library differs in one case: it sorts ``c10`` before ``c1``.)

    | value | stored as |
    | --- | --- |
    | bool, int | int64 |
    | float; ints and floats together | float32 |
    | str (as UTF-8), bytes, bytearray, memoryview | bytes |
    | NumPy array or scalar, torch Tensor | int64, float32 or bytes, by dtype; row-major |
    | :class:`BytesArray` | bytes; row-major |
    | list or tuple; nested ones if their rows have one length | kind of its values; row-major |
    | None | a feature without a kind |

    A feature has one kind in all records of a file: TensorFlow and this library refuse other files.
    This function sees one record, so it cannot know. Pass ``kinds`` if a float may be a whole
    number, such as ``{"reward": 0}`` in one record and ``{"reward": 0.5}`` in another. Writers
    compare records.

    Args:
        features: Value of each feature by name. A name may also be UTF-8 bytes. Features in dicts
            are named by their paths: ``{"objects": {"area": [1]}}`` stores ``objects/area``. A
            :class:`Sample` of a dataset is stored as its schema says. ``{}`` gives an Example with
            an empty map of features: ``0a 00``.
        kinds: Stored dtypes of some features by name: "int64" (for any integer dtype), "float32"
            (for any float dtype) or "string"; or a schema, which also says how the values of its
            features are stored, such as a :class:`Sparse`, or nested lists for a RaggedFeature.
            Required for lists without values. Names of other features are ignored.

    Returns:
        Bytes of the message. Equal features give equal bytes, whatever their order in the mapping.

    Raises:
        TypeError: If a value is of a type that cannot be stored, contains both numbers and bytes,
            is not of the kind named in ``kinds``, or was decoded, so that the stored bytes are not
            known.
        ValueError: If an integer does not fit in int64, a finite number does not fit in float32, a
            str cannot be encoded as UTF-8, an empty list has no kind, nested lists have rows of
            different lengths, or the message would reach 2 GiB.
        SchemaError: If ``kinds`` contains an unknown dtype.
    """
    if kinds is None and type(features) is dict:  # as usual
        return _PLAIN_ENCODER.encode([features], None, False)[0]
    part = _example_part(features, _schema_of(kinds))
    return _encoder(kinds).encode([part], None, False)[0]


class WriterEncoder:
    """The serializer of a writer. A feature keeps the kind of its first value in all records.

    Raises:
        TypeError: If ``kinds`` is not a mapping of names to dtypes.
        SchemaError: If ``kinds`` contains an unknown dtype.
    """

    def __init__(self, kinds: Kinds | None = None) -> None:
        self._encode = _encoder(kinds, is_of_writer=True).encode
        self._schema = _schema_of(kinds)

    def __call__(self, features: Mapping[str, Any]) -> bytes:
        if self._schema is None and type(features) is dict:
            return self._encode([features], None, False)[0]
        context, sequence = _parts(features, self._schema)
        return self._encode([context], None if sequence is None else [sequence], False)[0]


def encode_examples(
    examples: Iterable[Mapping[str, Any]], kinds: Kinds | None = None
) -> list[bytes]:
    """Serialize several Examples in one native call. Each feature has one kind in all of them.

    Args:
        examples: Features of each Example, as in :func:`encode_example`.
        kinds: Stored dtypes of some features, as in :func:`encode_example`.

    Returns:
        Bytes of each message.

    Raises:
        TypeError: If a value cannot be stored, as in :func:`encode_example`, or is of another kind
            than that of an earlier Example. The message also names the position of the Example,
            from 0.
        ValueError: If a value does not fit, likewise.
        SchemaError: If ``kinds`` contains an unknown dtype.
    """
    schema = _schema_of(kinds)
    features: list[dict[Any, Any] | None] = [
        example
        if schema is None and type(example) is dict  # as usual; a call would take longer
        else _example_part(example, schema, i)
        for i, example in enumerate(examples)
    ]
    return _encoder(kinds).encode(features, None, True)


def encode_sequence_example(
    context: Mapping[str, Any] | None,
    sequence: Mapping[str, Any] | None,
    kinds: Kinds | None = None,
) -> bytes:
    """Serialize one ``tf.train.SequenceExample``.

    Args:
        context: Value of each context feature, as in :func:`encode_example`. None omits this part
            of the message; an empty mapping writes it empty.
        sequence: Steps of each sequence feature, or None as for ``context``. Steps are a list or
            tuple whose items are values of :func:`encode_example` (None is a step without a kind);
            an array or Tensor of shape ``[steps, ...]``; a :class:`Ragged`, whose rows are the
            steps; or a :class:`BytesArray` of shape ``[steps, ...]``. All steps of a feature are of
            one kind. A feature may have no steps.
        kinds: Stored dtypes of some features of both parts, as in :func:`encode_example`.

    Returns:
        Bytes of the message.

    Raises:
        TypeError: If a value cannot be stored, as in :func:`encode_example`, or a sequence feature
            does not consist of steps.
        ValueError: If a value does not fit, as in :func:`encode_example`.
        SchemaError: If ``kinds`` contains an unknown dtype.
    """
    schema = _schema_of(kinds)
    contexts = [_as_part(context, "context", schema)]
    sequences = [_as_part(sequence, "sequence", schema)]
    return _encoder(kinds).encode(contexts, sequences, False)[0]


def encode_sequence_examples(
    pairs: Iterable[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]],
    kinds: Kinds | None = None,
) -> list[bytes]:
    """Serialize several SequenceExamples in one native call.

    Args:
        pairs: Context and sequence of each message, as in :func:`encode_sequence_example`.
        kinds: Stored dtypes of some features, as in :func:`encode_example`.

    Returns:
        Bytes of each message.

    Raises:
        TypeError: If a value cannot be stored, as in :func:`encode_sequence_example`, or is of
            another kind than that of an earlier SequenceExample. The message also names the
            position of the SequenceExample, from 0.
        ValueError: If a value does not fit, likewise.
        SchemaError: If ``kinds`` contains an unknown dtype.
    """
    schema = _schema_of(kinds)
    contexts: list[dict[Any, Any] | None] = []
    sequences: list[dict[Any, Any] | None] = []
    for i, (context, sequence) in enumerate(pairs):
        contexts.append(_as_part(context, "context", schema, i))
        sequences.append(_as_part(sequence, "sequence", schema, i))
    return _encoder(kinds).encode(contexts, sequences, True)


def _encoder(kinds: Kinds | None, *, is_of_writer: bool = False) -> _core.MessageEncoder:
    if kinds is None and not is_of_writer:
        return _PLAIN_ENCODER
    stored = of_lists = None if kinds is None else _stored_kinds(kinds)
    if isinstance(kinds, Schema) and kinds.sequence is not None:
        stored, of_lists = _stored_kinds(kinds.context), _stored_kinds(kinds.sequence)
    return _core.MessageEncoder(stored, of_lists, np.ndarray, np.generic, _simplify, is_of_writer)


# ---- values of samples ----


def _schema_of(kinds: Kinds | None) -> Schema | None:
    """Return the schema that ``kinds`` is, if it says more than the kinds of values."""
    if not isinstance(kinds, Schema):
        return None
    says_more = kinds.is_sequence or any(
        spec.key or not spec.is_written_as_is for spec in kinds.values()
    )
    return kinds if says_more else None


def _parts(
    features: Mapping[str, Any], schema: Schema | None, position: int | None = None
) -> tuple[dict[Any, Any], dict[Any, Any] | None]:
    """Return the stored features of an Example and None, or the context and the feature lists.

    Args:
        features: Values by name.
        schema: Schema that says how they are stored. Default: the one that read a sample.
        position: Position of the record, for errors.
    """
    if schema is None:
        schema = getattr(features, "stored_by", None)
    if not isinstance(schema, Schema) or not isinstance(features, Mapping):
        return _as_dict(features, "features", position), None
    from .._tensors.stored_values import stored_parts  # noqa: PLC0415  # it needs torch

    return stored_parts(schema, features)


def _example_part(
    features: Mapping[str, Any], schema: Schema | None, position: int | None = None
) -> dict[Any, Any]:
    part, lists = _parts(features, schema, position)
    if lists is not None:
        raise TypeError(
            "the features are those of a SequenceExample: use encode_sequence_example, or write "
            "the sample with a writer"
        )
    return part


def _as_part(
    features: Mapping[str, Any] | None,
    argument: Literal["context", "sequence"],
    schema: Schema | None,
    position: int | None = None,
) -> dict[Any, Any] | None:
    if features is None:
        return None
    found = _as_dict(features, argument, position)
    if schema is None:
        return found
    from .._tensors.stored_values import stored_part  # noqa: PLC0415  # it needs torch

    has_steps = argument == "sequence"
    specs = (schema.sequence or {}) if has_steps else schema.context
    return stored_part(specs, found, has_steps=has_steps)


def _as_dict(
    features: Mapping[str, Any], argument: str, position: int | None = None
) -> dict[Any, Any]:
    if type(features) is dict:
        return features
    if not isinstance(features, Mapping):
        place = "" if position is None else f" (example {position})"
        raise TypeError(
            f"{argument} must be a mapping of names to values, got {_type_name(features)}{place}"
        )
    return dict(features)


# ---- kinds ----


def _stored_kinds(kinds: Kinds) -> dict[str, _Kind]:
    """Return stored kinds by feature name, including features that a spec refers to."""
    if not isinstance(kinds, Mapping):
        raise TypeError(f"kinds must be a mapping of names to dtypes, got {_type_name(kinds)}")
    stored: dict[str, _Kind] = {}
    for name, dtype in kinds.items():
        key = name if type(name) is str else _plain_name(name)
        if type(dtype) is str and dtype in _KINDS:
            stored[key] = _KINDS[dtype]
        elif isinstance(dtype, Feature):
            stored |= {each.key: _STORED_KINDS[each.dtype] for each in dtype.stored_keys(key)}
        else:
            stored[key] = _KINDS[dtype_name(dtype)]
    return stored


def _plain_name(name: Any) -> str:
    if not isinstance(name, (str, bytes)):
        raise TypeError(f"names in kinds must be str, got {_type_name(name)}")
    return name.decode() if isinstance(name, bytes) else str.__str__(name)


# ---- values ----


def _simplify(value: Any, steps: bool) -> Any:
    """Convert a value to types that the native core reads.

    Args:
        value: Value of a feature.
        steps: Whether the value consists of steps. The result is then a list of values or an array.

    Raises:
        TypeError: If the value cannot be stored.
        ValueError: If a number would be lost.
    """
    return _simple_steps(value) if steps else _simple(value, 0)


def _simple_steps(value: Any) -> Any:
    if not isinstance(value, (str, bytes, bytearray, memoryview)):
        value = _to_numpy(value)
        if isinstance(value, np.ndarray) and value.ndim > 0:
            if value.dtype != object:
                return _simple_array(value)
            value = value.tolist()
        if callable(getattr(value, "rows", None)):
            return [_simple(row, 1) for row in value.rows()]
        if isinstance(value, Sequence) or callable(getattr(value, "flat", None)):
            return [None if step is None else _simple(step, 1) for step in value]
    raise TypeError(f"a sequence feature must be a list or array of steps, got {_type_name(value)}")


def _simple(value: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise ValueError(f"lists are nested more than {_MAX_DEPTH} deep")
    if isinstance(value, (int, float, str, bytes)):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    value = _to_numpy(value)
    if isinstance(value, np.ndarray):
        return _simple(value.tolist(), depth + 1) if value.dtype == object else _simple_array(value)
    if callable(getattr(value, "flat", None)):
        return value.flat() or np.empty(0, "S1")
    if callable(getattr(value, "rows", None)):
        raise TypeError(
            f"the rows of {with_article(_type_name(value))} would be lost: pass kinds=schema with "
            "a RaggedFeature that has partitions, or store its values and lengths as two features"
        )
    if not isinstance(value, Sequence):
        raise TypeError(f"{with_article(_type_name(value))} cannot be stored; use {_STORABLE}")
    return [_simple(item, depth + 1) for item in value]


def _to_numpy(value: Any) -> Any:
    """Convert arrays, tensors and scalars of array libraries to NumPy; return other values."""
    if isinstance(value, np.ndarray):
        return value
    if callable(getattr(value, "detach", None)) and callable(getattr(value, "cpu", None)):
        return _tensor_to_numpy(value.detach())
    if hasattr(value, "AS_ARRAYS"):  # a Ragged, BytesArray or Sparse, which refuse __array__
        return value
    return np.asarray(value) if callable(getattr(value, "__array__", None)) else value


def _tensor_to_numpy(tensor: Any) -> Any:
    with contextlib.suppress(TypeError, RuntimeError):
        return tensor.numpy()  # works for most tensors
    try:
        tensor = tensor.cpu().resolve_neg()
        if tensor.is_floating_point() and tensor.dtype.itemsize < 4:
            tensor = tensor.float()  # NumPy has no bfloat16
        return tensor.numpy()
    except (TypeError, RuntimeError) as error:
        raise TypeError(f"the values of this Tensor cannot be read: {error}") from error


def _simple_array(array: npt.NDArray[Any]) -> Any:
    """Convert an array to an array or nested lists that the native core reads."""
    if np.ma.is_masked(array):
        raise ValueError("the array is masked; fill its missing values first")
    kind = array.dtype.kind
    if kind in "biu":
        return _plain(array, array.dtype.newbyteorder("="))
    if kind == "f" or array.dtype.name == "bfloat16":
        return _simple_floats(array)
    if kind in "SUT":
        # An empty list would have no kind.
        return array.tolist() if array.size else np.empty(array.shape, "S1")
    raise TypeError(f"an array of {array.dtype} cannot be stored")


def _plain(array: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return the same values in the memory layout that native code reads."""
    if type(array) is np.ndarray and array.dtype == dtype and array.flags.carray:
        return array
    plain: npt.NDArray[Any] = np.require(array, dtype, ["C", "A", "E"])
    return plain


def _simple_floats(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    size = array.dtype.itemsize
    if size < 4:
        return _plain(array, np.float32)
    if size <= 8:
        return _plain(array, array.dtype.newbyteorder("="))
    with np.errstate(over="ignore"):
        floats = _plain(array, np.float64)
    if (np.isinf(floats) != np.isinf(array)).any():
        raise ValueError("a number does not fit in float32")
    return floats


def _type_name(value: Any) -> str:
    return type(value).__name__


_PLAIN_ENCODER = _core.MessageEncoder(None, None, np.ndarray, np.generic, _simplify, False)
