"""A training loop to copy."""

from __future__ import annotations

import os
from collections.abc import Sequence

from .._schema.feature_mapping import FeatureMapping
from .._storage.file_sets import match_shard, pattern_of
from ..presets.recognition import AnySchema, Preset

_MOST_LISTED = 10
_BATCH_SIZE = 64
# Number of specs up to which a page lists those of a schema.
MOST_SPECS = 1000


def paths_source(files: Sequence[str]) -> str:
    """Return an expression for files: a name, a pattern that matches all of them, or a list."""
    if len(files) == 1:
        return _quoted(files[0])
    folders = {os.path.dirname(path) for path in files}
    is_sharded = all(match_shard(os.path.basename(path)) for path in files)
    if len(folders) == 1 and (is_sharded or len(files) > _MOST_LISTED):
        pattern = pattern_of(files, _other_files(files, folders.pop()))
        if pattern is not None:
            return _quoted(pattern)
    lines = "".join(f"        {_quoted(path)},\n" for path in files)
    return f"[\n{lines}    ]"


def _other_files(files: Sequence[str], folder: str) -> set[str] | None:
    """Return the other files of a folder that a pattern may match; None if it cannot be listed."""
    try:
        names = os.listdir(folder or ".")
    except OSError:  # it is remote, or may not be listed
        return None
    return {os.path.join(folder, name) for name in names if not name.endswith(".tfidx")} - {*files}


def _quoted(text: str) -> str:
    """Return the source of a text, with double quotes as in the source of schemas."""
    source = repr(text)
    return source.replace("'", '"') if source.startswith("'") and '"' not in source else source


def training_loop(
    files: Sequence[str],
    schema: Preset | AnySchema | None,
    *,
    shuffle: str,
    label: str | None,
    is_damaged: bool,
) -> str:
    """Return Python source of a training loop.

    Args:
        files: Files to read.
        schema: Schema of the records, or the preset that returns it; None for raw records.
        shuffle: Source of the shuffle.
        label: Name of the label, if it is known.
        is_damaged: Whether damaged records must be skipped.
    """
    paths = paths_source(files)
    head = "import torchrec_io as tio\n"
    if isinstance(schema, FeatureMapping) and len(schema) > MOST_SPECS:
        head += f"\nschema = tio.{schema.public_name}.infer({paths})\n"
    elif schema is not None:
        head = schema.to_python()
    arguments = [paths] if schema is None else [paths, "schema"]
    arguments += [f"batch_size={_BATCH_SIZE}", f"shuffle={shuffle}"]
    arguments += ['on_error="skip"'] if is_damaged else []
    lines = [head, "dataset = tio.TFRecordDataset("]
    lines += [f"    {argument}," for argument in arguments]
    lines += [")", "loader = tio.make_loader(dataset)", "", "for batch in loader:"]
    lines += [] if label is None else [f"    labels = batch[{_quoted(label)}]"]
    return "\n".join([*lines, "    ...  # train on the batch", ""])
