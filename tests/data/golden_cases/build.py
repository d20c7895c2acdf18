"""Builders of the golden cases: cases, specs, messages by protobuf and by hand."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import tensorflow as tf
from tf_json import Json

from tests.support import wire
from tests.support.wire import delimited as field

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Case:
    """One spec, to be applied to one batch of the records of a file, or to one record.

    Attributes:
        name: Of the case; begins with its subject.
        file: Where the records are.
        spec: Of Examples, or of the context of SequenceExamples.
        records: Which records of the file make the batch; None is all of them.
        sequence: Of the feature lists of SequenceExamples; None for Examples.
        single: Whether the one record is parsed without a batch dimension.
    """

    name: str
    file: str
    spec: Json
    records: list[int] | None = None
    sequence: Json = None
    single: bool = False


# ---- Specs ----


def fixed(dtype: str, shape: list[int], default: Json = None) -> Json:
    """The spec of a FixedLenFeature."""
    return {"type": "FixedLen", "dtype": dtype, "shape": shape, "default": default}


def varlen(dtype: str) -> Json:
    """The spec of a VarLenFeature."""
    return {"type": "VarLen", "dtype": dtype}


def steps_of(dtype: str, shape: list[int], default: Json = None, allow: bool = True) -> Json:
    """The spec of a FixedLenSequenceFeature."""
    spec = {"type": "FixedLenSequence", "dtype": dtype, "shape": shape}
    return {**spec, "allow_missing": allow, "default": default}


def sparse(dtype: str, index_key: Json, value_key: str, size: Json, in_order: bool = False) -> Json:
    """The spec of a SparseFeature."""
    keys = {"index_key": index_key, "value_key": value_key, "size": size}
    return {"type": "Sparse", "dtype": dtype, **keys, "already_sorted": in_order}


def ragged(dtype: str, *partitions: tuple[str, Json], key: str | None = None, **more: Json) -> Json:
    """The spec of a RaggedFeature."""
    parts = [list(partition) for partition in partitions]
    return {"type": "Ragged", "dtype": dtype, "value_key": key, "partitions": parts, **more}


def float_bits(value: float) -> str:
    """A float in the form that specs and results use."""
    return struct.pack(">f", value).hex()


# ---- Examples made by protobuf ----


def ints(*values: int) -> tf.train.Feature:
    """A feature of int64 kind."""
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def floats(*values: float) -> tf.train.Feature:
    """A feature of float kind."""
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def floats_from_bits(*values: int) -> tf.train.Feature:
    """A feature of float kind with these IEEE bits, which a Python float might not keep."""
    return tf.train.Feature.FromString(field(2, field(1, struct.pack(f"<{len(values)}I", *values))))


def strings(*values: bytes) -> tf.train.Feature:
    """A feature of bytes kind."""
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def example(features: dict[str, tf.train.Feature]) -> bytes:
    """A serialized Example, with its features in the order of their names."""
    message = tf.train.Example(features=tf.train.Features(feature=features))
    serialized: bytes = message.SerializeToString(deterministic=True)
    return serialized


def sequence_example(
    context: dict[str, tf.train.Feature], lists: dict[str, list[tf.train.Feature]]
) -> bytes:
    """A serialized SequenceExample, with its features in the order of their names."""
    message = tf.train.SequenceExample(
        context=tf.train.Features(feature=context),
        feature_lists=tf.train.FeatureLists(
            feature_list={
                name: tf.train.FeatureList(feature=steps) for name, steps in lists.items()
            }
        ),
    )
    serialized: bytes = message.SerializeToString(deterministic=True)
    return serialized


# ---- Examples made by hand ----


def unpacked_ints(*values: int) -> bytes:
    """A Feature of int64 values, each with its own tag."""
    return field(3, wire.unpacked_ints(values))


def unpacked_floats(*values: float) -> bytes:
    """A Feature of floats, each with its own tag."""
    return field(2, wire.unpacked_floats(values))
