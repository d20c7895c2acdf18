"""Simulations whose layout a metadata file beside the data says."""

from __future__ import annotations

import re
from typing import Any

from ..errors import SchemaError
from ..schema.bounded_json import shown
from ..schema.dtypes import RAW_DTYPES
from ..schema.schema import Schema
from ..schema.specs import FixedLenFeature
from ..schema.stored_specs import RawFeature, SequenceFeature
from ..storage.local import StrPath
from ..tfds.json_text import Node, read_json

_MOST_BYTES = 16 << 20  # of a metadata file
_MOST_FIELDS = 1000
_MOST_SIZE = 2**31 - 1
_MOST_DIMENSIONS = 16
_KINDS = ("static", "dynamic", "dynamic_varlen")
# As the metadata of sphere_dynamic_sizing and flag_dynamic_sizing spells a dtype.
_DTYPE = re.compile(r"<dtype: '(\w+)'>")


def mesh_graph_nets(meta_path: StrPath) -> Schema:
    """Trajectories on meshes that MeshGraphNets learn from, as a ``meta.json`` describes them.

    A field of a shape such as ``[600, -1, 2]`` is a list of B Tensors ``[600, nodes, 2]``, as
    meshes differ in size; one of a known shape a Tensor. "static" fields are stored once,
    ``[1, ...]``, and stay so (DeepMind's reader repeats them for each step). A "dynamic_varlen"
    field has the rows of all steps one behind the other, and with it comes ``length_<field>``,
    int32: the rows of each step, for ``values.split(lengths.tolist())``.

    The metadata published with ``sphere_dynamic_sizing`` and ``flag_dynamic_sizing`` gives
    ``sizing_field`` four columns, of which there are three: change it in the file, or
    ``Schema({**preset, "sizing_field": tio.RawFeature("float32", [None, 3])})``.

    Source: deepmind/deepmind-research, ``meshgraphnets/dataset.py`` (``_parse``), and for that
    remark its issue 651.

    Args:
        meta_path: The metadata file.

    Raises:
        SchemaError: the file is none of this kind, is larger than 16 MiB, or describes fields that
            there cannot be; it says which.
        OSError: it cannot be read.
    """
    meta = read_json(meta_path, _MOST_BYTES)
    features: dict[str, Any] = {}
    lengths: dict[str, Any] = {}
    fields = list(_need(meta, "features").members())
    if not 0 < len(fields) <= _MOST_FIELDS:
        raise meta.error(f"there are {len(fields)} features, not 1 to {_MOST_FIELDS}")
    for name, field in fields:
        shape = [
            None if size < 0 else size
            for size in (node.as_whole(-1, _MOST_SIZE) for node in _need(field, "shape").items())
        ]
        features[name] = _raw(field, _dtype(_need(field, "dtype")), shape)
        kind = _need(field, "type").as_text()
        if kind not in _KINDS:
            raise field.error(f"type is {shown(kind)}, not one of {', '.join(_KINDS)}")
        if kind == "dynamic_varlen":
            lengths[f"length_{name}"] = RawFeature("int32", [None])
    both = sorted(set(features) & set(lengths))
    if both:
        raise meta.error(f"{shown(both[0])} is described, and the lengths of another field")
    features |= lengths
    _check_names(meta, features)
    return Schema(features)


def learning_to_simulate(metadata_path: StrPath) -> Schema:
    """Trajectories of particles that Graph Network Simulators learn from (SequenceExamples).

    Scenes differ in their number of particles: ``position`` is a list of B Tensors
    ``[steps, particles, dim]`` of float32, ``particle_type`` one of int64 ``[particles]``; ``key``
    is int64 ``[B]``. If the metadata has a ``context_mean``, ``step_context`` is a Ragged of values
    ``[N, columns]`` over records. There is one step more than ``sequence_length`` says, so that
    each step has one before it.

    Source: deepmind/deepmind-research, ``learning_to_simulate/reading_utils.py``
    (``parse_serialized_simulation_example``).

    Args:
        metadata_path: The file ``metadata.json``.

    Raises:
        SchemaError: the file is none of this kind, is larger than 16 MiB, or has a "dim" or
            "context_mean" that there cannot be.
        OSError: it cannot be read.
    """
    metadata = read_json(metadata_path, _MOST_BYTES)
    dim = _need(metadata, "dim").as_whole(1, 16)
    _need(metadata, "sequence_length").as_whole(1, _MOST_SIZE)
    sequence = {"position": SequenceFeature(RawFeature("float32", [None, dim]))}
    context = metadata.get("context_mean")
    if context is not None:
        columns = sum(1 for _ in context.items())
        if not 0 < columns <= _MOST_FIELDS:
            raise context.error(f"there are {columns} numbers, not 1 to {_MOST_FIELDS}")
        sequence["step_context"] = SequenceFeature(RawFeature("float32", [columns]))
    return Schema(
        context={
            "key": FixedLenFeature([], "int64", default_value=0),
            "particle_type": RawFeature("int64", [None]),
        },
        sequence=sequence,
    )


def _need(node: Node, name: str) -> Node:
    """A member that must be there, by the name that these files spell so."""
    found = node.get(name)
    if found is None:
        raise node.error(f"there is no {name!r}")
    return found


def _dtype(node: Node) -> str:
    text = node.as_text()
    spelled = _DTYPE.fullmatch(text)
    name = spelled[1] if spelled else text
    if name not in RAW_DTYPES:
        raise node.error(f"{shown(text)} is no dtype of stored numbers")
    return name


def _raw(field: Node, dtype: str, shape: list[int | None]) -> RawFeature:
    if len(shape) > _MOST_DIMENSIONS:
        raise field.error(f"a shape has {len(shape)} dimensions, not up to {_MOST_DIMENSIONS}")
    try:
        return RawFeature(dtype, shape)
    except SchemaError as error:
        raise field.error(error.reason) from None


def _check_names(meta: Node, features: dict[str, Any]) -> None:
    """Whether the list of all stored fields, if there is one, has those that are described."""
    names = meta.get("field_names")
    if names is None:
        return
    stored = {node.as_text() for node in names.items()}
    missing = sorted(set(features) - stored)
    if missing:
        raise names.error(f"{shown(missing[0])} is described, but not stored")
