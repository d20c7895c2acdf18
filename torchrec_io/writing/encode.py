"""Python values to serialized ``tf.train.Example`` and ``tf.train.SequenceExample`` messages.

The native core takes apart what is common: Python's own scalars and lists, NumPy's arrays. This
module makes all other values one of those.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core
from ..schema.dtypes import DTYPES, DType, dtype_name, is_integer
from ..schema.schema import Schema
from ..schema.specs import Feature
from ..schema.stored_keys import shape_key_of, uses_of

Kinds: TypeAlias = "Mapping[str, DType] | Schema"

_Kind: TypeAlias = _core.Kind
_KINDS = {
    name: _Kind.bytes if name == "string" else _Kind.ints if is_integer(name) else _Kind.floats
    for name in DTYPES
}
_DEEPEST = _core.MAX_LIST_DEPTH
_STORABLE = "int, float, str, bytes, lists and arrays of them"


def encode_example(features: Mapping[str, Any], kinds: Kinds | None = None) -> bytes:
    """Serializes one ``tf.train.Example``, as TensorFlow's deterministic serializer does.

    Features are sorted by the UTF-8 bytes of their names. (So does protobuf in C++. Its compiled
    Python library differs in one case: ``c10`` goes before ``c1`` there.)

    | a value of | is stored as |
    | --- | --- |
    | bool, int | int64 |
    | float; ints and floats together | float32 |
    | str (as UTF-8), bytes, bytearray, memoryview | bytes |
    | NumPy array or scalar, torch Tensor | int64, float32 or bytes, by its dtype; row-major |
    | :class:`BytesArray`, :class:`Ragged` | bytes; values of all rows, one after another |
    | list or tuple, nested or not | what its values are |
    | None | a feature of no kind |

    Args:
        features: Value of each feature. A name may also be given as UTF-8 bytes. ``{}`` gives an
            Example whose map of features is there and empty: ``0a 00``.
        kinds: The dtype that some features are stored as: "int64" (for any integer dtype),
            "float32" (any float dtype) or "string"; or a schema, of which each feature's stored
            dtype counts. Needed for lists without values; names of other features are ignored.

    Returns:
        The message. Equal features give equal bytes, in whatever order they come.

    Raises:
        TypeError: a value is of a type that has no place in an Example, is both numbers and bytes,
            or is not of the kind that is named.
        ValueError: an integer does not fit in int64, a finite number does not fit in float32, a str
            is not UTF-8, an empty list has no kind, or the message would pass 2 GiB.
        SchemaError: ``kinds`` names no dtype.
    """
    return ExampleEncoder(kinds)(features)


class ExampleEncoder:
    """:func:`encode_example` for many, one by one: ``kinds`` are looked at just once.

    Raises:
        TypeError, SchemaError: as :func:`encode_example`, for ``kinds``.
    """

    def __init__(self, kinds: Kinds | None = None) -> None:
        self._encoder = _encoder(kinds)

    def __call__(self, features: Mapping[str, Any]) -> bytes:
        return self._encoder.encode([_as_dict(features, "features")], None, False)[0]


def encode_examples(
    examples: Iterable[Mapping[str, Any]], kinds: Kinds | None = None
) -> list[bytes]:
    """Serializes any number of Examples, each as :func:`encode_example` does, in one native call.

    Raises:
        TypeError: as :func:`encode_example`; the message also says which example it is, from 0 on.
        ValueError: likewise.
        SchemaError: ``kinds`` names no dtype.
    """
    features: list[dict[Any, Any] | None] = [
        _as_dict(example, "features", i) for i, example in enumerate(examples)
    ]
    return _encoder(kinds).encode(features, None, True)


def encode_sequence_example(
    context: Mapping[str, Any] | None,
    sequence: Mapping[str, Any] | None,
    kinds: Kinds | None = None,
) -> bytes:
    """Serializes one ``tf.train.SequenceExample``.

    Args:
        context: Value of each feature, as in :func:`encode_example`. None leaves this part out; an
            empty mapping writes it empty.
        sequence: Steps of each feature, with None as for ``context``. Steps are a list or tuple,
            each step being any value of :func:`encode_example`, None for a Feature of no kind; or
            an array or Tensor ``[steps, ...]``; or a :class:`Ragged`, whose rows are the steps; or
            a :class:`BytesArray` ``[steps, ...]``. All steps of a feature are of one kind. A
            feature may have no steps.
        kinds: As in :func:`encode_example`, for the features of both parts.

    Raises:
        TypeError: as :func:`encode_example`, or a sequence feature is not made of steps.
        ValueError: as :func:`encode_example`.
        SchemaError: ``kinds`` names no dtype.
    """
    contexts, sequences = [_as_part(context, "context")], [_as_part(sequence, "sequence")]
    return _encoder(kinds).encode(contexts, sequences, False)[0]


def encode_sequence_examples(
    pairs: Iterable[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]],
    kinds: Kinds | None = None,
) -> list[bytes]:
    """Serializes any number of SequenceExamples in one native call.

    Args:
        pairs: Context and sequence of each, as in :func:`encode_sequence_example`.
        kinds: As in :func:`encode_example`.

    Raises:
        TypeError: as :func:`encode_sequence_example`; the message also says which example it is.
        ValueError: likewise.
        SchemaError: ``kinds`` names no dtype.
    """
    contexts: list[dict[Any, Any] | None] = []
    sequences: list[dict[Any, Any] | None] = []
    for i, (context, sequence) in enumerate(pairs):
        contexts.append(_as_part(context, "context", i))
        sequences.append(_as_part(sequence, "sequence", i))
    return _encoder(kinds).encode(contexts, sequences, True)


def _encoder(kinds: Kinds | None) -> _core.MessageEncoder:
    if kinds is None:
        return _PLAIN_ENCODER
    return _core.MessageEncoder(_stored_kinds(kinds), np.ndarray, np.generic, _simplify)


def _as_part(
    features: Mapping[str, Any] | None, what: str, position: int | None = None
) -> dict[Any, Any] | None:
    return None if features is None else _as_dict(features, what, position)


def _as_dict(features: Mapping[str, Any], what: str, position: int | None = None) -> dict[Any, Any]:
    if type(features) is dict:
        return features
    if not isinstance(features, Mapping):
        place = "" if position is None else f" (example {position})"
        raise TypeError(f"{what} must map names to values, not be a {_type_name(features)}{place}")
    return dict(features)


# ---- kinds ----


def _stored_kinds(kinds: Kinds) -> dict[str, _Kind]:
    """Return kinds by name, also of the features that a spec refers to."""
    if not isinstance(kinds, Mapping):
        raise TypeError(f"kinds must map names to dtypes, not be a {_type_name(kinds)}")
    stored = {}
    for name, dtype in kinds.items():
        key = name if type(name) is str else _plain_name(name)
        if type(dtype) is str and dtype in _KINDS:
            stored[key] = _KINDS[dtype]
        elif isinstance(dtype, Feature):
            stored.update(_kinds_of_feature(key, dtype))
        else:
            stored[key] = _KINDS[dtype_name(dtype)]
    return stored


def _plain_name(name: Any) -> str:
    if not isinstance(name, (str, bytes)):
        raise TypeError(f"a name in kinds must be a str, not {_type_name(name)}")
    return name.decode() if isinstance(name, bytes) else str.__str__(name)


def _kinds_of_feature(name: str, feature: Feature) -> dict[str, _Kind]:
    stored = {use.key: _KINDS[use.manner[1]] for use in uses_of(name, feature)}
    shape_key = shape_key_of(feature)
    if shape_key is not None:
        stored[shape_key] = _Kind.ints
    return stored


# ---- values ----


def _simplify(value: Any, steps: bool) -> Any:
    """A value of which the native core knows each type; a list of such, or an array, for steps.

    Raises:
        TypeError: there is none.
        ValueError: a number would be lost.
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
    raise TypeError(f"a sequence feature needs a list or array of steps, not a {_type_name(value)}")


def _simple(value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError(f"lists are nested more than {_DEEPEST} deep")
    if isinstance(value, (int, float, str, bytes)):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    value = _to_numpy(value)
    if isinstance(value, np.ndarray):
        return _simple(value.tolist(), depth + 1) if value.dtype == object else _simple_array(value)
    if callable(getattr(value, "flat", None)):
        return value.flat() or np.empty(0, "S1")
    rows = value.rows() if callable(getattr(value, "rows", None)) else value
    if not isinstance(rows, Sequence):
        raise TypeError(f"a {_type_name(value)} cannot be stored: {_STORABLE} can")
    return [_simple(item, depth + 1) for item in rows]


def _to_numpy(value: Any) -> Any:
    """Arrays, tensors and scalars of array libraries as NumPy arrays; other values as they are."""
    if isinstance(value, np.ndarray):
        return value
    if callable(getattr(value, "detach", None)) and callable(getattr(value, "cpu", None)):
        return _tensor_to_numpy(value.detach())
    return np.asarray(value) if callable(getattr(value, "__array__", None)) else value


def _tensor_to_numpy(tensor: Any) -> Any:
    with contextlib.suppress(TypeError, RuntimeError):
        return tensor.numpy()  # as most can
    try:
        tensor = tensor.cpu().resolve_neg()
        if tensor.is_floating_point() and tensor.dtype.itemsize < 4:
            tensor = tensor.float()  # NumPy has no bfloat16
        return tensor.numpy()
    except (TypeError, RuntimeError) as error:
        raise TypeError(f"values of this Tensor cannot be taken: {error}") from error


def _simple_array(array: npt.NDArray[Any]) -> Any:
    """An array, or nested lists, that the native core knows."""
    if np.ma.is_masked(array):
        raise ValueError("values of a masked array are missing")
    kind = array.dtype.kind
    if kind in "biu":
        return _plain(array, array.dtype.newbyteorder("="))
    if kind == "f" or array.dtype.name == "bfloat16":
        return _simple_floats(array)
    if kind in "SUT":
        # An empty list would not say that it is one of bytes.
        return array.tolist() if array.size else np.empty(array.shape, "S1")
    raise TypeError(f"an array of {array.dtype} cannot be stored")


def _plain(array: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The same values where and how native code reads them."""
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


_PLAIN_ENCODER = _core.MessageEncoder(None, np.ndarray, np.generic, _simplify)
