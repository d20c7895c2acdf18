"""Write small datasets of every feature with TFDS, and the values that TFDS reads from them.

The committed directories in ``tfds/`` were written by tensorflow-datasets 4.9.10. Run this script
with the Python of an environment that has it and ``tensorflow-cpu``; the files are the same every
time, to another folder if one is named: ``python tests/data/make_tfds_golden.py [FOLDER]``. The
form of ``expected.json`` is described in ``README.md`` beside this script. What the datasets hold
is in ``tfds_cases/``.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

# Both must be set before TensorFlow is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from google.protobuf import json_format
from tensorflow_datasets.core import registered
from tensorflow_datasets.core.example_serializer import ExampleSerializer
from tensorflow_datasets.core.features import top_level_feature
from tensorflow_datasets.core.utils import gcs_utils

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1])]

from tests.data.tfds_cases.build import Golden  # noqa: E402  # found there
from tests.data.tfds_cases.images import images_cases  # noqa: E402
from tests.data.tfds_cases.layouts import layouts_cases  # noqa: E402
from tests.data.tfds_cases.nested import nested_cases  # noqa: E402
from tests.data.tfds_cases.values import values_cases  # noqa: E402

OUT = HERE / "tfds"
# Nothing is looked up elsewhere.
gcs_utils._is_gcs_disabled = True  # the only switch for it


def serialize(serializer: ExampleSerializer, example: Any) -> bytes:
    """What TFDS serializes, the features in an order that is the same in every process."""
    message: bytes = serializer.get_tf_example(example).SerializeToString(deterministic=True)
    return message


ExampleSerializer.serialize_example = serialize


# ---- writing ----


def write(golden: Golden, out: Path) -> Path:
    """Have TFDS write a dataset; gives its directory."""
    with registered.skip_registration():
        builder = builder_class(golden)(data_dir=out, config=golden.config)
    options = tfds.download.DownloadConfig(num_shards=golden.shards, try_download_gcs=False)
    builder.download_and_prepare(download_config=options)
    folder = Path(builder.data_dir)
    if golden.template is not None:
        rename(golden, builder, folder)
    if golden.respelled is not None:
        respell(golden, folder)
    return folder


def builder_class(golden: Golden) -> type[tfds.core.GeneratorBasedBuilder]:
    """A builder that yields the records, in their order."""

    class Builder(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc]  # has no types
        # TFDS looks for a module in a package with importlib_resources, which it does not require.
        __module__ = __name__.rpartition(".")[2]
        name = golden.name
        VERSION = tfds.core.Version(golden.version)
        BUILDER_CONFIGS = (
            [tfds.core.BuilderConfig(name=golden.config, description=f"The {golden.config} one.")]
            if golden.config
            else []
        )

        def _info(self) -> tfds.core.DatasetInfo:
            return tfds.core.DatasetInfo(
                builder=self,
                description=f"Golden {golden.name}.",
                features=golden.features,
                supervised_keys=golden.supervised_keys,
                disable_shuffling=True,
            )

        def _split_generators(self, _manager: Any) -> dict[str, Any]:
            return {name: self._generate_examples(name) for name in golden.splits}

        def _generate_examples(self, split: str) -> Iterator[tuple[int, Any]]:
            yield from enumerate(golden.splits[split])

    return Builder


def rename(golden: Golden, builder: Any, folder: Path) -> None:
    """Give shards names after a template, and have TFDS write that down."""
    template = tfds.core.ShardedFileTemplate(
        data_dir=folder,
        dataset_name=golden.name,
        filetype_suffix="tfrecord",
        template=golden.template,
    )
    splits = []
    for name, info in builder.info.splits.items():
        of_split = template.replace(split=name)
        for number, old in enumerate(info.filepaths):
            new = of_split.sharded_filepath(shard_index=number, num_shards=info.num_shards)
            Path(old).rename(new)
        splits.append(
            tfds.core.SplitInfo(
                name=name,
                shard_lengths=info.shard_lengths,
                num_bytes=info.num_bytes,
                filename_template=of_split,
            )
        )
    tfds.folder_dataset.write_metadata(
        data_dir=folder,
        features=golden.features,
        split_infos=splits,
        filename_template=template,
        description=f"Golden {golden.name}.",
    )


def respell(golden: Golden, folder: Path) -> None:
    """Write ``features.json`` and ``dataset_info.json`` as older versions of TFDS did."""
    spelled = spell_json if golden.respelled == "legacy" else spell_proto
    old = spelled(golden.features)
    text = json.dumps(old, indent=4)
    read = tfds.features.FeaturesDict.from_json(json.loads(text))
    if repr(read) != repr(golden.features):
        raise AssertionError(f"{golden.name}: TFDS reads its old JSON as {read}")
    (folder / "features.json").write_text(text)
    path = folder / "dataset_info.json"
    info = json.loads(path.read_text("utf-8"))
    for key in ("fileFormat", "moduleName", "disableShuffling", "releaseNotes"):
        info.pop(key, None)
    for split in info["splits"]:
        split.pop("filepathTemplate", None)
    path.write_text(json.dumps(info, indent=2, sort_keys=True))


def spell_proto(feature: Any) -> Any:
    """A connector as ``{"type", "content", "proto_cls"}``, a protobuf message in JSON."""
    content = feature.to_json_content()
    head = {"type": full_name(feature)}
    if isinstance(feature, tfds.features.FeaturesDict) and hasattr(content, "features"):
        return {**head, "content": {name: spell_proto(each) for name, each in feature.items()}}
    if type(feature) is tfds.features.Sequence:
        inner = {"feature": spell_proto(feature.feature), "length": feature._length}
        return {**head, "content": inner}
    if isinstance(content, dict):
        return {**head, "content": content}
    text = json_format.MessageToJson(content, preserving_proto_field_name=False)
    return {**head, "content": text, "proto_cls": f"tensorflow_datasets.{type(content).__name__}"}


def spell_json(feature: Any) -> Any:
    """A connector as ``{"type", "content"}``, the arguments it is made with."""
    return {"type": full_name(feature), "content": json_content(feature)}


def json_content(feature: Any) -> Any:
    """What ``from_json_content`` of a connector takes for backward compatibility."""
    kinds = tfds.features
    content: Any = {}
    if isinstance(feature, kinds.Translation):
        content = {"languages": feature.languages}
    elif isinstance(feature, kinds.FeaturesDict):
        content = {name: spell_json(each) for name, each in feature.items()}
    elif isinstance(feature, kinds.ClassLabel):
        content = {"num_classes": feature.num_classes}
    elif isinstance(feature, kinds.Video):
        content = {"shape": feature.shape, "encoding_format": "png", "ffmpeg_extra_args": []}
    elif isinstance(feature, kinds.Sequence):
        content = {"feature": spell_json(feature.feature), "length": feature._length}
    elif not isinstance(feature, kinds.BBoxFeature | kinds.Text):
        content = {"shape": feature.shape, "dtype": np.dtype(feature.np_dtype).name}
        if isinstance(feature, kinds.Image):
            content["encoding_format"] = feature.encoding_format
        if isinstance(feature, kinds.Audio):
            content |= {"file_format": None, "sample_rate": None}
    return content


def full_name(feature: Any) -> str:
    """The module and name of a connector."""
    return f"{type(feature).__module__}.{type(feature).__qualname__}"


# ---- reading ----


def read_split(info: Any, features: Any) -> list[list[Any]]:
    """The records of each shard of a split, as TFDS reads them."""
    paths = [str(path) for path in info.filepaths]
    shards = [list(tf.data.TFRecordDataset(path).as_numpy_iterator()) for path in paths]
    theirs = iter(tensorflow_leaves(features, paths, sum(map(len, shards))))
    return [[read_record(features, next(theirs), record) for record in shard] for shard in shards]


def read_record(features: Any, theirs: list[Any], record: bytes) -> Any:
    """What TensorFlow's reader gives for a record; where NumPy's gives another value, both."""
    numpy = numpy_leaves(features, record)
    return features._nest([either(*pair) for pair in zip(theirs, numpy, strict=True)])


def tensorflow_leaves(features: Any, paths: list[str], count: int) -> list[list[Any]]:
    """What TensorFlow's reader gives for each connector of each record, in JSON.

    Where it fails, each connector is read by itself, to find which it is.
    """
    try:
        read = tf.data.TFRecordDataset(paths).map(features.deserialize_example)
        return [[to_json(leaf) for leaf in features._flatten(record)] for record in read]
    except Exception as error:  # noqa: BLE001  # whatever it raises is noted
        if len(features) == 1:
            width = len(features.flat_features)
            return [[["error", type(error).__name__]] * width for _ in range(count)]
    parts = [
        tensorflow_leaves(tfds.features.FeaturesDict({name: each}), paths, count)
        for name, each in sorted(features.items())
    ]
    return [list(itertools.chain(*leaves)) for leaves in zip(*parts, strict=True)]


def numpy_leaves(features: Any, record: bytes) -> list[Any]:
    """What NumPy's reader gives for each connector of a record; errors where it fails."""
    count = len(features.flat_features)
    try:
        flat = features._flatten(features._example_parser_np.parse_example(record))
    except Exception as error:  # noqa: BLE001  # whatever it raises is noted
        return [error] * count
    return [
        numpy_leaf(*leaf)
        for leaf in zip(features.flat_features, flat, features.flat_sequence_ranks, strict=True)
    ]


def numpy_leaf(feature: Any, example: Any, rank: int) -> Any:
    """What NumPy's reader gives for one connector; an error where it fails."""
    backend = top_level_feature._Backend.NP  # what deserialize_example_np does
    try:
        value = top_level_feature._decode_feature(feature, example, None, rank, backend)
        if isinstance(value, tfds.core.data_sources.python.PythonDataSource):
            return [value[step] for step in range(len(value))]
    except Exception as error:  # noqa: BLE001  # whatever it raises is noted
        return error
    return value


def either(theirs: Any, numpy: Any) -> Any:
    """What both readers give, else what each does: TensorFlow's first."""
    failed = isinstance(theirs, list) and theirs[0] == "error"
    if isinstance(numpy, Exception) or (not failed and agrees(theirs, numpy)):
        return theirs
    return to_json(numpy) if failed else ["differ", theirs, to_json(numpy)]


def agrees(theirs: Any, numpy: Any) -> bool:
    """Whether NumPy's reader gives the same; its scalars have no dtype, its lists are rows."""
    if isinstance(theirs, dict):
        return set(theirs) == set(numpy) and all(agrees(theirs[k], numpy[k]) for k in theirs)
    kind, *rest = theirs
    if numpy is None:
        return False
    if kind in ("dataset", "ragged"):
        return len(rest[0]) == len(numpy) and all(map(agrees, rest[0], numpy))
    array = np.asarray(numpy, dtype=object if kind == "string" else kind)
    shape, _ = rest
    same: bool = array.size == np.prod(shape) and array_to_json(array.reshape(shape)) == theirs
    return same


def to_json(value: Any) -> Any:
    """A value in the form of ``expected.json``."""
    if value is None:
        return ["none"]
    if isinstance(value, dict):
        return {name: to_json(each) for name, each in value.items()}
    if isinstance(value, tf.data.Dataset):
        return ["dataset", [to_json(step) for step in value]]
    if isinstance(value, tf.RaggedTensor | list):
        return ["ragged", [to_json(row) for row in value]]
    array = value.numpy() if isinstance(value, tf.Tensor) else value
    return array_to_json(np.asarray(array, dtype=object if isinstance(array, bytes) else None))


def array_to_json(array: np.ndarray[Any, Any]) -> Any:
    """An array: strings and other values as hex, but int64 as numbers."""
    shape = list(array.shape)
    if array.dtype.kind in "OSU":
        values = [v.encode() if isinstance(v, str) else v for v in array.ravel().tolist()]
        return ["string", shape, [value.hex() for value in values]]
    if array.dtype == np.int64:
        return ["int64", shape, array.ravel().tolist()]
    return [array.dtype.name, shape, array.astype(array.dtype.newbyteorder("<")).tobytes().hex()]


# ---- all of it ----


def expected_of(folder: Path, unread: Sequence[str]) -> Any:
    """What TFDS knows of a directory that it has written, and reads from it."""
    builder = tfds.builder_from_directory(folder)
    nothing = {name: ["unread"] for name in unread}
    return {
        split: {
            "shard_lengths": info.shard_lengths,
            "files": [Path(path).name for path in info.filepaths],
            "shards": [
                [{**record, **nothing} for record in shard]
                for shard in read_split(info, builder.info.features)
            ],
        }
        for split, info in sorted(builder.info.splits.items())
    }


def compact(item: Any) -> str:
    """An item without spaces."""
    return json.dumps(item, separators=(",", ":"))


def expected_text(directories: dict[str, Any]) -> str:
    """``expected.json``: one line a record."""
    parts = []
    for where, splits in directories.items():
        lines = []
        for split, known in splits.items():
            head = {key: known[key] for key in ("shard_lengths", "files")}
            shards = [
                "[\n" + ",\n".join("      " + compact(record) for record in shard) + "]"
                for shard in known["shards"]
            ]
            lines.append(
                f"    {compact(split)}: {compact(head)[:-1]},\n    "
                f'"shards": [{", ".join(shards)}]}}'
            )
        parts.append(f"  {compact(where)}: {{\n" + ",\n".join(lines) + "}")
    text = f'{{"tensorflow_datasets": {compact(tfds.__version__)},\n"directories": {{\n'
    text += ",\n".join(parts) + "}}\n"
    json.loads(text)
    return text


def make(out: Path) -> None:
    """Write all directories below a folder, which is emptied before."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    of_dataset: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        cases = [
            *values_cases(Path(scratch)), *images_cases(), *nested_cases(), *layouts_cases()
        ]  # fmt: skip
        for golden in cases:
            folder = write(golden, out)
            where = folder.relative_to(out / golden.name).as_posix()
            of_dataset.setdefault(golden.name, {})[where] = expected_of(folder, golden.unread)
    for name, directories in of_dataset.items():
        (out / name / "expected.json").write_text(expected_text(directories))
    shutil.rmtree(out / "downloads", ignore_errors=True)
    print(f"{len(of_dataset)} datasets")


if __name__ == "__main__":
    tfds.disable_progress_bar()
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else OUT)
