"""Encodings that protobuf's own writer does not use, but reads, and TensorFlow too."""

from __future__ import annotations

from tests.support.wire import (
    bytes_feature,
    delimited,
    entry,
    example,
    float_feature,
    int_feature,
    tag,
    varint,
)

from .build import (
    INT64_MIN,
    Case,
    fixed,
    unpacked_floats,
    unpacked_ints,
    varlen,
)


def wire_records() -> dict[str, bytes]:
    """Encodings that protobuf's own writer does not use, but reads, and TensorFlow too."""
    int_entry = entry(b"i", int_feature(1, -2))
    float_entry = entry(b"f", float_feature(1.5, -0.0))
    string_entry = entry(b"s", bytes_feature(b"ab", b""))
    all_entries = int_entry + float_entry + string_entry
    return {
        "packed": example(int_entry, float_entry, string_entry),
        "other_order": example(string_entry, int_entry, float_entry),
        "unpacked": example(
            entry(b"i", unpacked_ints(INT64_MIN, 300)),
            entry(b"f", unpacked_floats(-0.0, float("inf"))),
            string_entry,
        ),
        "value_before_key": example(
            delimited(1, delimited(2, int_feature(5, 6)) + delimited(1, b"i")),
            delimited(1, delimited(2, unpacked_floats(5, 6)) + delimited(1, b"f")),
            delimited(1, delimited(2, bytes_feature(b"5", b"6")) + delimited(1, b"s")),
        ),
        "duplicate_keys": example(
            int_entry, string_entry, float_entry, entry(b"i", int_feature(7, 8)), string_entry
        ),
        "duplicate_keys_of_other_kind": example(
            entry(b"i", bytes_feature(b"x")),
            entry(b"f", int_feature(1)),
            entry(b"s", float_feature(1)),
            all_entries,
        ),
        "duplicate_keys_across_parts": (
            example(all_entries)
            + example(entry(b"i", int_feature(9, 10)), entry(b"s", bytes_feature(b"9", b"10")))
        ),
        "split_features": (example(int_entry) + example() + example(float_entry, string_entry)),
        "unknown_top_level_fields": (
            tag(2, 0)
            + varint(2**63)
            + tag(3, 1)
            + bytes(8)
            + example(int_entry, float_entry)
            + delimited(4, b"skip me")
            + tag(1, 0)  # field 1, but with a wire type that is not its own
            + varint(1)
            + example(string_entry)
            + tag(2**29 - 1, 5)
            + bytes(4)
            + delimited(1000, b"")
        ),
        "overlong_value_varints": example(
            entry(b"i", delimited(3, delimited(1, b"\x81\x80\x00" + b"\x80" * 9 + b"\x00"))),
            float_entry,
            string_entry,
        ),
        # The tags 0a and 12 of the entry and the lengths of its two parts take a byte or two more.
        "overlong_entry": example(
            delimited(1, b"\x8a\x00\x81\x00i" + b"\x92\x00\x87\x80\x00" + int_feature(3, 1000)),
            float_entry,
            string_entry,
        ),
    }


def wire_empty_records() -> dict[str, bytes]:
    """The ways to write an empty list, a feature of no kind and no features at all."""
    empty_lists = (entry(b"f", delimited(2, b"")), entry(b"s", delimited(1, b"")))
    return {
        "empty_lists": example(entry(b"i", delimited(3, b"")), *empty_lists),
        "empty_packed_chunks": example(
            entry(b"i", delimited(3, delimited(1, b""))),
            entry(b"f", delimited(2, delimited(1, b""))),
            empty_lists[1],
        ),
        "no_kind": example(entry(b"i", b""), entry(b"f", b""), entry(b"s", b"")),
        "empty_features": example(),
        "empty_parts": example() * 3,
        "only_unknown_fields": delimited(7, b"abc"),
        "empty_example": b"",
    }


def wire_cases() -> list[Case]:
    """Each odd encoding by itself, then all of them in one batch."""
    as_fixed = {
        "i": fixed("int64", [2]),
        "f": fixed("float32", [2]),
        "s": fixed("string", [2]),
    }
    as_varlen = {name: varlen(spec["dtype"]) for name, spec in as_fixed.items()}
    file, empty_file = "wire.tfrecord", "wire_empty.tfrecord"
    return [
        *(Case(f"wire/{name}", file, as_fixed, [n]) for n, name in enumerate(wire_records())),
        Case("wire/batch", file, as_fixed),
        Case("wire/batch_varlen", file, as_varlen),
        *(
            Case(f"wire_empty/{name}", empty_file, as_varlen, [n])
            for n, name in enumerate(wire_empty_records())
        ),
        Case("wire_empty/batch", empty_file, as_varlen),
    ]
