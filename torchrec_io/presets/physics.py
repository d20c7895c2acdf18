"""Presets of simulations, whose layout is described by a metadata file beside the data."""

from __future__ import annotations

import re
from typing import Any

from .._schema.bounded_json import shown
from .._schema.dtypes import RAW_DTYPES
from .._schema.schema import Schema
from .._schema.specs import FixedLenFeature
from .._schema.stored_specs import RawFeature, SequenceFeature
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.remote.options import StorageOptions
from ..errors import SchemaError
from ..tfds.json_text import Node, read_json

_MOST_BYTES = 16 << 20  # size of a metadata file
_MOST_FIELDS = 1000
_MOST_SIZE = 2**31 - 1
_MOST_DIMENSIONS = 16
_KINDS = ("static", "dynamic", "dynamic_varlen")
# Spelling of dtypes in the metadata of sphere_dynamic_sizing and flag_dynamic_sizing.
_DTYPE = re.compile(r"<dtype: '(\w+)'>")


def mesh_graph_nets(meta_path: StrPath, *, storage_options: StorageOptions = None) -> Schema:
    """Return the schema of trajectories on meshes for MeshGraphNets, described by a ``meta.json``.

    A field with a shape such as ``[600, -1, 2]`` becomes a list of B Tensors ``[600, nodes, 2]``,
    because meshes differ in size. A field with a known shape becomes a Tensor. "static" fields are
    stored once and stay ``[1, ...]`` (DeepMind's reader repeats them for each step). A
    "dynamic_varlen" field has the rows of all steps concatenated, and comes with
    ``length_<field>``, int32, the number of rows of each step; use
    ``values.split(lengths.tolist())``.

    The metadata that was published for ``sphere_dynamic_sizing`` and ``flag_dynamic_sizing``
    describes ``sizing_field`` with four columns, but it has three. Correct the file, or use
    ``Schema({**preset, "sizing_field": tio.RawFeature("float32", [None, 3])})``.

    Source: deepmind/deepmind-research, ``meshgraphnets/dataset.py`` (``_parse``), and its issue 651
    for ``sizing_field``.

    Args:
        meta_path: Path of the metadata file.
        storage_options: Options of remote objects, as for :class:`TFRecordDataset`.

    Raises:
        SchemaError: If the file is not such metadata, is larger than 16 MiB, or describes an
            invalid field. The message names the field.
        OSError: If the file cannot be read.
    """
    meta = read_json(Location.of(meta_path, storage_options), _MOST_BYTES)
    features: dict[str, Any] = {}
    lengths: dict[str, Any] = {}
    fields = list(_require(meta, "features").members())
    if not 0 < len(fields) <= _MOST_FIELDS:
        raise meta.error(f"there must be 1 to {_MOST_FIELDS} features, got {len(fields)}")
    for name, field in fields:
        shape = [
            None if size < 0 else size
            for size in (node.as_whole(-1, _MOST_SIZE) for node in _require(field, "shape").items())
        ]
        features[name] = _make_raw(field, _parse_dtype(_require(field, "dtype")), shape)
        kind = _require(field, "type").as_text()
        if kind not in _KINDS:
            raise field.error(f"type must be one of {', '.join(_KINDS)}, got {shown(kind)}")
        if kind == "dynamic_varlen":
            lengths[f"length_{name}"] = RawFeature("int32", [None])
    both = sorted(set(features) & set(lengths))
    if both:
        raise meta.error(
            f"{shown(both[0])} must not be both a field and the lengths of another field"
        )
    features |= lengths
    _check_names(meta, features)
    return Schema(features)


def learning_to_simulate(
    metadata_path: StrPath, *, storage_options: StorageOptions = None
) -> Schema:
    """Return the schema of particle trajectories (SequenceExamples) for Graph Network Simulators.

    Scenes differ in their number of particles. ``position`` is a list of B Tensors
    ``[steps, particles, dim]`` of float32, ``particle_type`` a list of B Tensors ``[particles]`` of
    int64, and ``key`` is int64 ``[B]``. If the metadata has a ``context_mean``, ``step_context`` is
    a Ragged of values ``[N, columns]``, a row for each record. There is one step more than
    ``sequence_length``, so that each step has a previous one.

    Source: deepmind/deepmind-research, ``learning_to_simulate/reading_utils.py``
    (``parse_serialized_simulation_example``).

    Args:
        metadata_path: Path of ``metadata.json``.
        storage_options: Options of remote objects, as for :class:`TFRecordDataset`.

    Raises:
        SchemaError: If the file is not such metadata, is larger than 16 MiB, or has an invalid
            "dim" or "context_mean".
        OSError: If the file cannot be read.
    """
    metadata = read_json(Location.of(metadata_path, storage_options), _MOST_BYTES)
    dim = _require(metadata, "dim").as_whole(1, 16)
    _require(metadata, "sequence_length").as_whole(1, _MOST_SIZE)
    sequence = {"position": SequenceFeature(RawFeature("float32", [None, dim]))}
    context = metadata.get("context_mean")
    if context is not None:
        columns = sum(1 for _ in context.items())
        if not 0 < columns <= _MOST_FIELDS:
            raise context.error(f"there must be 1 to {_MOST_FIELDS} numbers, got {columns}")
        sequence["step_context"] = SequenceFeature(RawFeature("float32", [columns]))
    return Schema(
        context={
            "key": FixedLenFeature([], "int64", default_value=0),
            "particle_type": RawFeature("int64", [None]),
        },
        sequence=sequence,
    )


def _require(node: Node, name: str) -> Node:
    """Return a required member, by its spelling in these files."""
    found = node.get(name)
    if found is None:
        raise node.error(f"{name!r} is missing")
    return found


def _parse_dtype(node: Node) -> str:
    text = node.as_text()
    spelled = _DTYPE.fullmatch(text)
    name = spelled[1] if spelled else text
    if name not in RAW_DTYPES:
        raise node.error(f"{shown(text)} is not a dtype of stored numbers")
    return name


def _make_raw(field: Node, dtype: Any, shape: list[int | None]) -> RawFeature:
    if len(shape) > _MOST_DIMENSIONS:
        raise field.error(
            f"a shape must have at most {_MOST_DIMENSIONS} dimensions, got {len(shape)}"
        )
    try:
        return RawFeature(dtype, shape)
    except SchemaError as error:
        raise field.error(error.reason) from None


def _check_names(meta: Node, features: dict[str, Any]) -> None:
    """Raise an error if the list of stored fields exists and lacks a field that is described."""
    names = meta.get("field_names")
    if names is None:
        return
    stored = {node.as_text() for node in names.items()}
    missing = sorted(set(features) - stored)
    if missing:
        raise names.error(
            f"{shown(missing[0])} is described, but missing in this list of stored fields"
        )
