"""A directory that TFDS wrote: what is known of its data."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from ..errors import SchemaError, TorchRecIOError, WrongShardError
from ..order.selection import Selection
from ..records.index_cache import open_indexes
from ..records.sequential import iter_records
from ..schema.inspect import feature_names
from ..schema.schema import Schema
from ..storage.local import StrPath
from .connectors import Connector, Leaf, nested_datasets
from .features_json import parse_features, read_features
from .finding import check_names, find_directory
from .info import INFO_FILE, StatedSplit, read_info
from .json_text import Node
from .labels import Labels
from .promised import PromisedIndex
from .selection import Chosen, FeatureChoice, StoredKeys, choose
from .shards import Shards, open_shards, sizes_of
from .splits import TfdsSplit, listed
from .templates import ShardTemplate
from .to_schema import Unread, to_specs

_ALL = "all"


class Plan(NamedTuple):
    """What a dataset of a split is made of.

    Attributes:
        indexes: Of the shards.
        selection: Of their records.
        schema: For these.
        described: The dataset and its splits that these are of, as in a state.
    """

    indexes: list[PromisedIndex]
    selection: Selection
    schema: Schema
    described: str

    @property
    def paths(self) -> list[str]:
        """The shards, each once."""
        return list(dict.fromkeys(index.data_path for index in self.indexes))


class Outline(NamedTuple):
    """The features of a dataset.

    Attributes:
        leaves: Those that hold no others; none where there is no features.json.
        unread: Why some cannot be read, by name.
        keys: What each record must have stored.
    """

    leaves: list[Leaf]
    unread: dict[str, str]
    keys: StoredKeys


class TfdsSplitInfo:
    """A split: what dataset_info.json says of it, and which files it is in.

    Attributes:
        name: Such as "train".
        shard_lengths: How many records each shard has; None if that is not said, as in directories
            that TFDS wrote before version 2.
        num_bytes: Of all records, or of all shards: TFDS's writers differ. 0 if not known.
    """

    def __init__(self, stated: StatedSplit, folder: str, template: ShardTemplate) -> None:
        self.name = stated.name
        self.shard_lengths = stated.shard_lengths
        self.num_bytes = stated.num_bytes
        self._stated = stated
        self._folder = folder
        self._template = template

    def __repr__(self) -> str:
        return f"TfdsSplitInfo({self.name!r}, {self.num_examples} records)"

    @property
    def num_examples(self) -> int | None:
        """How many records it has; None if that is not said."""
        if self.shard_lengths is None:
            return self._stated.num_examples
        return sum(self.shard_lengths)

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Its shards, whether they are there or not.

        Raises:
            SchemaError: the template of their names is none, or leads elsewhere.
            FileNotFoundError: their number is not said, and the files that are there are not all.
        """
        count = self._stated.num_shards
        if self.shard_lengths is not None:
            names = self._template.paths(len(self.shard_lengths))
        elif count is not None:
            self._check_number(count)
            names = self._template.paths(count)
        else:
            names = self._there()
        return tuple(os.path.join(self._folder, name) for name in names)

    def counted(self) -> Shards:
        """Its shards, indexed and counted where dataset_info.json does not say how many records.

        Raises:
            FileNotFoundError: a shard is missing.
            CorruptRecordError, TruncatedFileError: one is damaged.
            WrongShardError: they have not as many records as is said of all of them.
        """
        if self.shard_lengths is not None:
            return Shards(self.paths, self.shard_lengths, self.num_bytes)
        sizes_of(self.paths)  # all that are missing are told at once
        indexes, errors = open_indexes(self.paths, "auto", None)
        if errors:
            raise errors[0]
        lengths = [len(index) for index in indexes]
        if self.num_examples not in (None, sum(lengths)):
            raise WrongShardError(
                f"the shards of split {self.name!r} have {sum(lengths)} records, {INFO_FILE} says "
                f"{self.num_examples}",
                path=self._folder,
            )
        return Shards(self.paths, lengths, self.num_bytes, indexes)

    def _check_number(self, count: int) -> None:
        """Refuses to make up the names of more shards than there can be."""
        folder, _ = self._template.pattern()
        there = len(self._listed(folder))
        if count > there:
            reason = f"split {self.name!r} has {count} shards, of {there} files"
            raise FileNotFoundError(errno.ENOENT, reason, os.path.join(self._folder, folder))

    def _there(self) -> list[str]:
        """The shards that are there, if they are all; names in the dataset's folder."""
        folder, pattern = self._template.pattern()
        found = [
            os.path.join(folder, name) for name in self._listed(folder) if pattern.fullmatch(name)
        ]
        names = self._template.paths(len(found))
        if not found or sorted(names) != sorted(found):
            reason = f"split {self.name!r} has no shards, or not all of them"
            raise FileNotFoundError(errno.ENOENT, reason, os.path.join(self._folder, folder))
        return names

    def _listed(self, folder: str) -> list[str]:
        try:
            return os.listdir(os.path.join(self._folder, folder))
        except FileNotFoundError:
            return []


class TfdsDirectory:
    """A dataset that TensorFlow Datasets (TFDS) wrote: one version of it, read without TensorFlow.

    It is read as ``tfds.builder_from_directory`` of TFDS 4.9 reads it; older directories, too.
    Nothing is read but ``dataset_info.json``, ``features.json`` and names of classes.

    Args:
        directory: That of a version, such as ``~/tensorflow_datasets/mnist/3.0.1``; or that of a
            config or a dataset, with versions in it.
        config: If there are several.
        version: By default the greatest there is.

    Attributes:
        path: The directory of this version.
        name: The dataset's.
        config: "" for none.
        version: Such as "3.0.1".
        description: In words.
        supervised_keys: Names of what goes into a model and what should come out of it, or None.
        splits: By name, a :class:`TfdsSplitInfo` each: ``shard_lengths``, ``num_examples``,
            ``paths``, ``num_bytes``.

    Raises:
        FileNotFoundError, NotADirectoryError: there is no dataset.
        ValueError: there is no such config or version, or several configs and none is named.
        SchemaError: dataset_info.json says what cannot be, or that the files are of another format.
    """

    def __init__(
        self, directory: StrPath, config: str | None = None, version: str | None = None
    ) -> None:
        self.path = find_directory(directory, config, version)
        self._info = info = read_info(self.path)
        check_names(info, config, version)
        info.check_format()
        self.name = info.name
        self.config = info.config
        self.version = info.version
        self.description = info.description
        self.supervised_keys = info.supervised_keys
        node = Node(None, info.path, "splits")
        self.splits: Mapping[str, TfdsSplitInfo] = {
            name: TfdsSplitInfo(
                split, self.path, ShardTemplate(split.template, info.name, name, node)
            )
            for name, split in info.splits.items()
        }

    def __repr__(self) -> str:
        return f"TfdsDirectory({self.path!r})"

    @property
    def _full_name(self) -> str:
        """As TFDS writes it: ``"name/config:version"``."""
        return "/".join(filter(None, (self.name, self.config))) + f":{self.version}"

    @cached_property
    def features(self) -> Connector | None:
        """What features.json says: a tree of connectors, as TFDS calls them.

        None if it is missing, as in directories that TFDS wrote before version 4.

        Raises:
            SchemaError: it says what cannot be.
        """
        found = read_features(self.path)
        if found is None and self._info.features is not None:
            return parse_features(self._info.features, Labels(self.path))
        return found

    @cached_property
    def schema(self) -> Schema:
        """What reads the records; see :meth:`Schema.from_tfds`.

        Raises:
            SchemaError: features.json says what cannot be, or has a feature that cannot be read.
        """
        return self._schema(self.choose())

    def choose(self, features: FeatureChoice | None = None) -> Chosen:
        """The specs of the dataset's features, or of those that are wanted.

        Args:
            features: As of :meth:`TFRecordDataset.from_tfds`.

        Raises:
            SchemaError: a feature that is wanted cannot be read.
            ValueError: there is no such feature.
        """
        chosen = self._chosen(features)
        for name, unread in chosen.unread():
            raise self._unreadable(name, unread)
        return chosen

    def outline(self) -> Outline:
        """What its features are, whether they can be read or not.

        Raises:
            SchemaError: features.json says what cannot be.
        """
        chosen = self._chosen(None)
        unread = {name: str(self._unreadable(name, why).reason) for name, why in chosen.unread()}
        leaves = list(self.features.leaves()) if self.features is not None else []
        return Outline(leaves, unread, chosen.keys)

    def _chosen(self, features: FeatureChoice | None) -> Chosen:
        connectors = self.features
        if connectors is not None:
            return choose(to_specs(connectors, self.path), features)
        chosen = choose(dict(Schema.infer(self._some_paths())), features)
        return chosen._replace(keys=StoredKeys())  # records have only been looked at

    def open(self, split: str | TfdsSplit, features: FeatureChoice | None = None) -> Plan:
        """Finds what a dataset of a split is made of; see :meth:`TFRecordDataset.from_tfds`.

        Raises:
            ValueError: there is no such split or feature, or no record in the split.
            SchemaError: a feature cannot be read.
            FileNotFoundError: shards are missing.
            WrongShardError, CorruptRecordError, TruncatedFileError: a shard is not what
                dataset_info.json says, or damaged.
        """
        wanted = TfdsSplit.of(split)
        names = set(self.splits) if _ALL in wanted.names else set(wanted.names)
        shards = {name: info.counted() for name, info in self.splits.items() if name in names}
        # Of others it is enough that they can be listed.
        lengths = {
            name: shards[name].lengths if name in shards else [info.num_examples or 0]
            for name, info in self.splits.items()
        }
        stretches = wanted.stretches(lengths)
        if not any(stretch.end > stretch.begin for stretch in stretches):
            raise ValueError(
                f"split {str(wanted)!r}: no records; the dataset has {listed(lengths)}"
            )
        chosen = self.choose(features)
        opened = open_shards(stretches, shards, chosen.keys)
        used = dict.fromkeys(part.split for part in stretches if part.end > part.begin)
        described = f"{self._full_name} {'+'.join(used)}"
        return Plan(opened.indexes, opened.selection, self._schema(chosen), described)

    def group_of_steps(self, schema: Schema) -> str:
        """The one dataset that each record has, as those of RLDS have ``"steps"``.

        Args:
            schema: What is read of the records.

        Raises:
            ValueError: there is none that is read, or there are several.
        """
        names = [] if self.features is None else list(nested_datasets(self.features))
        read = [name for name in names if any(f"{leaf}/".startswith(f"{name}/") for leaf in schema)]
        if len(read) == 1:
            return read[0]
        if read:
            reason = f"several datasets, {read}: with steps='ragged', call steps(name) for one"
        elif names:
            reason = f"the datasets {names}, and features leaves out all of them"
        else:
            reason = "no dataset in them: with steps='ragged', call steps(name) for a sequence"
        raise ValueError(f"records of {self.name!r} have {reason}")

    def _schema(self, chosen: Chosen) -> Schema:
        try:
            return Schema(chosen.specs)
        except SchemaError as error:  # such as two features of one name
            error.path = error.path or self.path
            raise

    def _unreadable(self, name: str, unread: Unread) -> SchemaError:
        reason = unread.reason
        if unread.class_name is not None:
            keys = self._keys_of(name)
            stored = f"; records have {', '.join(map(repr, keys))}" if keys else ""
            reason += f"{stored}. Give features={{{keys[0] if keys else name!r}: ...}} a spec"
        return SchemaError(reason, path=self.path, feature=name)

    def _keys_of(self, name: str) -> list[str]:
        """What the first record there is has under a name."""
        try:
            _, record = next(iter_records(self._some_paths()[0]))
        except (TorchRecIOError, OSError, StopIteration):
            return []
        names = feature_names(record) or []
        return sorted(key for key in names if key == name or key.startswith(f"{name}/"))

    def _some_paths(self) -> list[str]:
        found = [
            path for info in self.splits.values() for path in info.paths if os.path.exists(path)
        ]
        if not found:
            raise FileNotFoundError(errno.ENOENT, "there is no shard of any split", self.path)
        return found
