"""Directories of datasets that TFDS wrote."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from .._order.selection import Selection
from .._parsing.stored_names import feature_names
from .._records.index import RecordIndex
from .._records.opening import open_indexes
from .._records.sequential import iter_records
from .._schema.schema import Schema
from .._storage.compression import SUFFIXES, without_suffix
from .._storage.folders import file_names, folder_of
from .._storage.local import StrPath
from .._storage.location import Location, remember_stamps
from .._storage.remote.options import StorageOptions
from ..checks import counted
from ..errors import SchemaError, TorchRecIOError, WrongShardError
from .connectors import Connector
from .feature_choice import ChosenFeatures, FeatureChoice, StoredKeys, choose
from .features_json import parse_features, read_features
from .info import INFO_FILE, StatedSplit, read_info
from .json_text import Node
from .shards import Shards, get_stamp, get_stamps, open_shards
from .splits import ALL, Split, list_splits
from .templates import ShardTemplate
from .to_schema import Unreadable, to_specs
from .versions import check_names, find_directory


class OpenedSplit(NamedTuple):
    """The records of a split, and their schema.

    Attributes:
        indexes: Indexes of the shards.
        selection: Selection of the records of the shards.
        schema: Schema of the records.
        described: Name of the dataset and its splits, as in a saved state.
    """

    indexes: list[RecordIndex]
    selection: Selection
    schema: Schema
    described: str

    @property
    def paths(self) -> list[str]:
        """Paths of the shards, without repetition."""
        return list(dict.fromkeys(index.data_path for index in self.indexes))


class SplitInfo:
    """A split of a dataset: facts of dataset_info.json, and the paths of its files.

    Attributes:
        name: Name, such as "train".
        shard_lengths: Number of records of each shard; None if it is not known, as in directories
            that TFDS wrote before version 2.
        num_bytes: Size of all records or of all files, in bytes, because TFDS's writers differ; 0
            if it is not known.
    """

    def __init__(self, stated: StatedSplit, folder: Location, template: ShardTemplate) -> None:
        self.name: str = stated.name
        self.shard_lengths: tuple[int, ...] | None = stated.shard_lengths
        self.num_bytes: int = stated.num_bytes
        self._stated = stated
        self._folder = folder
        self._template = template

    def __repr__(self) -> str:
        found = self.num_examples
        count = "unknown number of records" if found is None else counted(found, "record")
        return f"SplitInfo({self.name!r}, {count})"

    @property
    def num_examples(self) -> int | None:
        """Number of records; None if it is not known."""
        if self.shard_lengths is None:
            return self._stated.num_examples
        return sum(self.shard_lengths)

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths of the shards, whether they exist or not; see :attr:`files`."""
        return tuple(file.name for file in self.files)

    @cached_property
    def files(self) -> tuple[Location, ...]:
        """Locations of the shards, whether they exist or not.

        They end with ``".gz"``, ``".zz"`` or ``".zst"`` if the files of compressed shards do.

        Raises:
            SchemaError: If the template of their names is not valid, or leads out of the directory.
            FileNotFoundError: If the lengths of the shards are not known and shards are missing.
        """
        if self.shard_lengths is not None:
            names = self._template.paths(len(self.shard_lengths))
        else:
            names = self._find_names()
        return self._as_stored([self._folder.child(name) for name in names])

    def shards(self, *, verify_crc: bool = True) -> Shards:
        """Return the shards, after counting their records if dataset_info.json does not say them.

        Args:
            verify_crc: See :meth:`RecordIndex.build`.

        Raises:
            FileNotFoundError: If a shard is missing.
            CorruptRecordError: If a shard is damaged.
            TruncatedFileError: If a shard is truncated.
            WrongShardError: If the shards have another number of records than dataset_info.json
                says for all of them.
        """
        if self.shard_lengths is not None:
            return Shards(self.files, self.shard_lengths, self.num_bytes)
        get_stamps(self.files)  # reports all missing shards at once
        indexes, errors = open_indexes(self.files, "auto", "auto", verify_crc=verify_crc)
        if errors:
            raise errors[0]
        lengths = [len(index) for index in indexes]
        if self.num_examples not in (None, sum(lengths)):
            raise WrongShardError(
                f"the shards of split {self.name!r} have {counted(sum(lengths), 'record')}, but "
                f"{INFO_FILE} says {self.num_examples:,}",
                path=self._folder.name,
            )
        return Shards(self.files, lengths, self.num_bytes, indexes)

    def _as_stored(self, files: Sequence[Location]) -> tuple[Location, ...]:
        """Return the shards, with the suffix of compressed files if the first shard has it."""
        lengths = self.shard_lengths or [1] * len(files)
        first = next((file for file, length in zip(files, lengths, strict=True) if length), None)
        if first is None:
            return tuple(files)
        remember_stamps(files)
        names = ("", *SUFFIXES.values())
        found = next((name for name in names if get_stamp(first.beside(name))), "")
        return tuple(file.beside(found) for file in files)

    def _find_names(self) -> list[str]:
        """Return the shards, relative to the dataset's directory, if their lengths are not known.

        The files are listed before a name is made for each of the shards: there may be billions.
        """
        folder, pattern = self._template.pattern()
        listed = self._folder.child(folder)
        # A shard may be there both compressed and as it was.
        files = {without_suffix(name) for name in file_names(listed)}
        reason = f"shards of split {self.name!r} are missing"
        count = self._stated.num_shards
        if count is None:
            found = [os.path.join(folder, name) for name in files if pattern.fullmatch(name)]
            names = self._template.paths(len(found))
            if found and sorted(names) == sorted(found):
                return names
        elif count <= len(files):
            return self._template.paths(count)
        else:
            reason += (
                f": it has {counted(count, 'shard')}, but the directory has "
                f"{counted(len(files), 'file')}"
            )
        raise FileNotFoundError(errno.ENOENT, reason, listed.name)


class Directory:
    """One version of a dataset that TensorFlow Datasets (TFDS) wrote, read without TensorFlow.

    The directory is read like ``tfds.builder_from_directory`` of TFDS 4.9 reads it. Directories of
    older versions are supported, too. Only ``dataset_info.json``, ``features.json`` and names of
    classes are read.

    Args:
        directory: Directory of a version, such as ``~/tensorflow_datasets/mnist/3.0.1``; or of a
            config or dataset that contains versions.
        config: Name of the config. Required if there are several.
        version: Version. Default: the greatest one.
        storage_options: Options of remote objects, as for :class:`TFRecordDataset`.

    Attributes:
        path: Directory of the version.
        name: Name of the dataset.
        config: Name of the config; "" for none.
        version: Version, such as "3.0.1".
        description: Description of the dataset.
        supervised_keys: Names of the inputs and targets of a model, or None.
        location: Location of the version.
        splits: Splits by name. Each has the attributes ``shard_lengths``, ``num_examples``,
            ``paths`` and ``num_bytes``.

    Raises:
        FileNotFoundError: If there is no dataset.
        NotADirectoryError: If ``directory`` is a file.
        ValueError: If the config or version does not exist, or if there are several configs and
            none is given.
        SchemaError: If dataset_info.json is not valid, or if the files have another format than
            TFRecord.
    """

    def __init__(
        self,
        directory: StrPath,
        config: str | None = None,
        version: str | None = None,
        *,
        storage_options: StorageOptions = None,
    ) -> None:
        given = folder_of(directory, storage_options)
        found = find_directory(given, config, version)
        self.location: Location = found
        self.path: str = found.name
        self._info = info = read_info(found)
        check_names(info, config, version)
        self.name: str = info.name
        self.config: str = info.config
        self.version: str = info.version
        self.description: str = info.description
        self.supervised_keys: Any = info.supervised_keys
        node = Node(None, info.path, "splits")
        self.splits: Mapping[str, SplitInfo] = {
            name: SplitInfo(split, found, ShardTemplate(split.template, info.name, name, node))
            for name, split in info.splits.items()
        }

    def __repr__(self) -> str:
        return f"tfds.Directory({self.path!r})"

    @cached_property
    def features(self) -> Connector | None:
        """Features of the dataset, as a tree of what TFDS calls connectors.

        None without a features.json, as in directories that TFDS wrote before 3.2.

        Raises:
            SchemaError: If features.json is not valid.
        """
        found = read_features(self.location)
        if found is None and self._info.features is not None:
            return parse_features(self._info.features, self.location)
        return found

    @cached_property
    def schema(self) -> Schema:
        """Schema of the records; see :meth:`Schema.from_tfds`.

        Raises:
            SchemaError: If features.json is not valid, or if a feature cannot be read.
        """
        return self._schema(self.choose())

    def choose(self, features: FeatureChoice | None = None) -> ChosenFeatures:
        """Choose the features to read.

        Args:
            features: Features to read; see :meth:`TFRecordDataset.from_tfds`. Default: all
                features.

        Raises:
            SchemaError: If one of the features cannot be read.
            ValueError: If a feature does not exist.
        """
        chosen = self._choose(features)
        for name, unreadable in chosen.unreadable():
            raise self._unreadable(name, unreadable)
        return chosen

    def outline(self) -> tuple[dict[str, str], StoredKeys]:
        """Return facts about all features, including those that cannot be read.

        Returns:
            Reason for each feature that cannot be read, by name; and stored features that each
            record must have.

        Raises:
            SchemaError: If features.json is not valid.
        """
        chosen = self._choose(None)
        unread = {name: self._unreadable(name, each).reason for name, each in chosen.unreadable()}
        return unread, chosen.keys

    def _choose(self, features: FeatureChoice | None) -> ChosenFeatures:
        connectors = self.features
        if connectors is not None:
            return choose(to_specs(connectors, self.path), features)
        inferred = Schema.infer(self._some_files())
        chosen = choose(dict(inferred), features)
        return chosen._replace(keys=StoredKeys())  # only some records were inspected

    def open(
        self, split: str | Split, features: FeatureChoice | None = None, *, verify_crc: bool = True
    ) -> OpenedSplit:
        """Open the shards of a split; see :meth:`TFRecordDataset.from_tfds`.

        Args:
            split: Split to open.
            features: Features to read. Default: all features.
            verify_crc: Verify checksums.

        Raises:
            ValueError: If the split or a feature does not exist, or if the split has no records.
            SchemaError: If a feature cannot be read.
            FileNotFoundError: If shards are missing.
            WrongShardError: If a shard does not match dataset_info.json.
            CorruptRecordError: If a shard is damaged.
            TruncatedFileError: If a shard is truncated.
        """
        wanted = Split.of(split)
        names = set(self.splits) if ALL in wanted.names else set(wanted.names)
        shards = {
            name: info.shards(verify_crc=verify_crc)
            for name, info in self.splits.items()
            if name in names
        }
        # Other splits only appear in error messages.
        lengths = {
            name: shards[name].lengths if name in shards else [info.num_examples or 0]
            for name, info in self.splits.items()
        }
        ranges = wanted.ranges(lengths)
        if not any(each.end > each.begin for each in ranges):
            raise ValueError(
                f"split {str(wanted)!r} has no records; the splits are {list_splits(lengths)}"
            )
        chosen = self.choose(features)
        indexes, selection = open_shards(ranges, shards, chosen.keys, verify_crc=verify_crc)
        used = dict.fromkeys(each.split for each in ranges if each.end > each.begin)
        name = "/".join(filter(None, (self.name, self.config)))
        described = f"{name}:{self.version} {'+'.join(used)}"
        return OpenedSplit(indexes, selection, self._schema(chosen), described)

    def group_of_steps(self, schema: Schema) -> str:
        """Return the name of the nested dataset in each record, such as ``"steps"`` of RLDS.

        Args:
            schema: Schema of the features that are read.

        Raises:
            ValueError: If no nested dataset is read, or several are.
        """
        names = [] if self.features is None else list(self.features.nested_datasets())
        read = [name for name in names if any(f"{leaf}/".startswith(f"{name}/") for leaf in schema)]
        if len(read) == 1:
            return read[0]
        if read:
            reason = f"several nested datasets, {read}: use steps='ragged', then steps(name)"
        elif names:
            reason = f"the nested datasets {names}, but features leaves out all of them"
        else:
            reason = "no nested dataset: use steps='ragged', then steps(name) for a sequence"
        raise ValueError(f"records of {self.name!r} have {reason}")

    def _schema(self, chosen: ChosenFeatures) -> Schema:
        try:
            return Schema(chosen.specs)
        except SchemaError as error:  # for example, two features of the same name
            error.path = error.path or self.path
            raise

    def _unreadable(self, name: str, unreadable: Unreadable) -> SchemaError:
        reason = unreadable.reason
        if unreadable.class_name is not None:
            keys = self._keys_of(name)
            stored = f"; records have {', '.join(map(repr, keys))}" if keys else ""
            key = keys[0] if keys else name
            reason += f"{stored}. Pass a spec for it: features={{{key!r}: ...}}"
        return SchemaError(reason, path=self.path, feature=name)

    def _keys_of(self, name: str) -> list[str]:
        """Return the stored features with a name in the first record."""
        try:
            _, record = next(iter_records(self._some_files()[0]))
        except (TorchRecIOError, OSError, StopIteration):
            return []
        names, _ = feature_names(record) or ([], [])
        return sorted(key for key in names if key == name or key.startswith(f"{name}/"))

    def _some_files(self) -> list[Location]:
        files = [file for info in self.splits.values() for file in info.files]
        remember_stamps(files)
        found = [file for file in files if get_stamp(file) is not None]
        if not found:
            raise FileNotFoundError(errno.ENOENT, "all shards of all splits are missing", self.path)
        return found
