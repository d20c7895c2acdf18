"""Cases that TensorFlow refuses."""

from __future__ import annotations

import tensorflow as tf
from tf_json import Json

from tests.support import wire

from .build import (
    Case,
    example,
    fixed,
    floats,
    ints,
    strings,
    varlen,
)


def refused_records() -> dict[str, bytes]:
    """Examples, of which TensorFlow refuses all but the first with a fitting spec."""
    good = {"i": ints(1, 2), "f": floats(1.5), "s": strings(b"x")}
    floats_cut_short = wire.delimited(2, wire.tag(1, 2) + wire.varint(8) + bytes(4))
    return {
        "good": example(good),
        "nothing": example({}),
        "i_too_long": example({**good, "i": ints(1, 2, 3)}),
        "i_too_short": example({**good, "i": ints(1)}),
        "i_empty": example({**good, "i": ints()}),
        "i_no_kind": example({**good, "i": tf.train.Feature()}),
        "i_is_float": example({**good, "i": floats(1, 2)}),
        "i_is_empty_string": example({**good, "i": strings()}),
        "cut_key": example(good)[:5],
        "cut_varint": wire.example(
            wire.entry(b"i", wire.delimited(3, wire.delimited(1, b"\x01\x82")))
        ),
        "cut_floats": wire.example(wire.entry(b"f", floats_cut_short)),
        "varint_of_11_bytes": wire.example(
            wire.entry(b"i", wire.delimited(3, wire.delimited(1, b"\x80" * 10 + b"\x01")))
        ),
        "kind_without_such_number": wire.example(wire.entry(b"i", wire.delimited(4, b"\x08\x01"))),
        "not_protobuf": b"\x0a\x0cHello world!",
    }


def refused_cases() -> list[Case]:
    """Wrong counts, wrong kinds, missing features, bad defaults and damaged Examples."""
    number = {name: n for n, name in enumerate(refused_records())}
    pair = {"i": fixed("int64", [2])}
    pair_or_default = {"i": fixed("int64", [2], [0, 0])}
    list_of_ints = {"i": varlen("int64")}

    def case(name: str, spec: Json, *records: str) -> Case:
        return Case(f"refused/{name}", "refused.tfrecord", spec, [number[r] for r in records])

    return [
        case("too_many_values", pair, "good", "i_too_long"),
        case("too_few_values", pair, "good", "i_too_short"),
        case("too_few_values_with_default", pair_or_default, "i_too_short"),
        case("vector_as_scalar", {"i": fixed("int64", [])}, "good"),
        case("scalar_as_matrix", {"f": fixed("float32", [2, 2])}, "good"),
        case("strings_as_pair", {"s": fixed("string", [2])}, "good"),
        case("value_for_zero_size", {"f": fixed("float32", [0])}, "good"),
        case("empty_list", pair, "good", "i_empty"),
        case("empty_list_with_default", pair_or_default, "i_empty"),
        case("int_as_float", {"i": fixed("float32", [2])}, "good"),
        case("int_as_string", {"i": fixed("string", [2])}, "good"),
        case("float_as_int", {"f": fixed("int64", [])}, "good"),
        case("string_as_int", {"s": fixed("int64", [])}, "good"),
        case("string_as_float", {"s": fixed("float32", [])}, "good"),
        case("kind_changes_in_batch", pair, "good", "good", "i_is_float"),
        case("wrong_kind_with_default", pair_or_default, "i_is_float"),
        case("wrong_kind_varlen", list_of_ints, "good", "i_is_float"),
        case("wrong_kind_but_empty_varlen", list_of_ints, "i_is_empty_string"),
        case("string_as_float_varlen", {"s": varlen("float32")}, "good"),
        case("float_as_string_varlen", {"f": varlen("string")}, "good"),
        case("missing_int", pair, "good", "nothing"),
        case("missing_float", {"f": fixed("float32", [])}, "good", "nothing"),
        case("missing_string", {"s": fixed("string", [])}, "good", "nothing"),
        case("missing_no_kind", pair, "i_no_kind"),
        case("missing_zero_size", {"x": fixed("int64", [0])}, "good"),
        case("default_too_short", {"i": fixed("int64", [2], [0])}, "good"),
        case("default_not_broadcast", {"i": fixed("int64", [2], 0)}, "nothing"),
        case("default_for_zero_size", {"x": fixed("int64", [0], [])}, "nothing"),
        case("cut_key", list_of_ints, "good", "cut_key"),
        case("cut_varint", list_of_ints, "cut_varint"),
        case("cut_varint_fixed", pair, "cut_varint"),
        case("cut_floats", {"f": varlen("float32")}, "cut_floats"),
        case("cut_floats_fixed", {"f": fixed("float32", [2])}, "cut_floats"),
        case("varint_of_11_bytes", list_of_ints, "varint_of_11_bytes"),
        case("kind_without_such_number", list_of_ints, "kind_without_such_number"),
        case("not_protobuf", list_of_ints, "good", "not_protobuf"),
    ]
