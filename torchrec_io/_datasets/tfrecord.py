"""Datasets of TFRecord files: indexed, or read as a stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, overload

from .._storage.local import StrPath
from .._tensors.block_parser import Columns, SchemaLike, parser_of_messages
from ..checks import is_integer
from .base import Item_co
from .indexed import IndexedDataset
from .options import (
    OrderReplaceOptions,
    TfdsOptions,
    TfdsSampleOptions,
    TFRecordOptions,
    TFRecordReplaceOptions,
    TFRecordSampleOptions,
    access_options,
    check_no_length_batches,
    complete,
    takes_options,
)
from .pipeline import DataFiles, IndexedPipeline

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .._tensors.batch import Batch
    from .._tensors.sample import Sample
    from ..tfds.feature_choice import FeatureChoice
    from ..tfds.splits import Split


@takes_options(TFRecordOptions)
class TFRecordDataset(IndexedDataset[Item_co]):
    """Records of TFRecord files, decoded by a schema, in a repeatable order.

    An index gives every record a number. The order of an epoch is computed from these numbers, the
    seed and the epoch alone, so each record comes exactly once, whatever the number of DataLoader
    workers. Missing indexes are built on construction and kept in the user's cache directory.

    ``for batch in DataLoader(TFRecordDataset(paths, schema, batch_size=256), batch_size=None)`` is
    the fast path: native code makes the batches, and each crosses processes as one buffer. Without
    ``batch_size`` the dataset yields samples, which DataLoader collates as usual.

    To read files from front to back without an index, or pipes, use :class:`TFRecordStream`.

    Args:
        paths: A file, glob pattern or directory, or several. A pattern stands for its matches,
            sorted; ``**`` in it crosses directories. A directory stands for the files in it that
            are named as TFRecord files are (``*.tfrecord*``, ``*.tfrec``, ``*.tfr``,
            ``*.record``, ``*.recordio``, ``name-00000-of-00008``, ``part-*``), sorted. They must be
            one set: ``train-*`` and ``val-*`` in one directory are an error, and the pattern
            ``directory/*`` reads both.
        schema: A :class:`Schema` or a dict of features parses records as ``tf.train.Example``
            messages; a ``Schema(context=..., sequence=...)`` as ``SequenceExample``. A function is
            called with the bytes of each record, in the loading process. ``None`` yields bytes.

    Raises:
        FileNotFoundError: If a file does not exist, a pattern or directory matches no file, or
            shards are missing.
        CorruptRecordError, TruncatedFileError: If a file is damaged and ``on_error`` is
            ``"raise"``.
        StaleIndexError, IndexFormatError: If a given index does not match its file or is damaged.
        SchemaError: If the schema is inconsistent.
        ValueError: If another argument is invalid, a directory has several sets of files, or a
            record is longer than ``batch_tokens`` and ``on_error`` is ``"raise"``.
    """

    @overload
    def __init__(
        self: TFRecordDataset[Batch],
        paths: StrPath | Iterable[StrPath] | DataFiles,
        schema: Columns,
        *,
        batch_size: int,
        batch_tokens: int | None = None,
        **options: Unpack[TFRecordSampleOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: TFRecordDataset[Batch],
        paths: StrPath | Iterable[StrPath] | DataFiles,
        schema: Columns,
        *,
        batch_tokens: int,
        **options: Unpack[TFRecordSampleOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: TFRecordDataset[Sample],
        paths: StrPath | Iterable[StrPath] | DataFiles,
        schema: Columns,
        **options: Unpack[TFRecordSampleOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: TFRecordDataset[Any],
        paths: StrPath | Iterable[StrPath] | DataFiles,
        schema: SchemaLike = None,
        **options: Unpack[TFRecordOptions],
    ) -> None: ...
    def __init__(
        self,
        paths: StrPath | Iterable[StrPath] | DataFiles,
        schema: SchemaLike = None,
        **options: Unpack[TFRecordOptions],
    ) -> None:
        known = complete(TFRecordOptions, options)
        files = DataFiles.open(
            paths,
            known["index"],
            storage_options=access_options(known),
            verify_crc=known["verify_crc"],
        )
        super().__init__(IndexedPipeline.build(files, schema, parser_of_messages, known))

    @overload
    @classmethod
    def from_tfds(
        cls,
        directory: StrPath,
        split: str | Split,
        *,
        config: str | None = None,
        version: str | None = None,
        features: FeatureChoice | None = None,
        steps: Literal["ragged", "each"] | int = "ragged",
        batch_size: int,
        **options: Unpack[TfdsSampleOptions],
    ) -> TFRecordDataset[Batch]: ...
    @overload
    @classmethod
    def from_tfds(
        cls,
        directory: StrPath,
        split: str | Split,
        *,
        config: str | None = None,
        version: str | None = None,
        features: FeatureChoice | None = None,
        steps: Literal["ragged", "each"] | int = "ragged",
        **options: Unpack[TfdsSampleOptions],
    ) -> TFRecordDataset[Sample]: ...
    @overload
    @classmethod
    def from_tfds(
        cls,
        directory: StrPath,
        split: str | Split,
        *,
        config: str | None = None,
        version: str | None = None,
        features: FeatureChoice | None = None,
        steps: Literal["ragged", "each"] | int = "ragged",
        **options: Unpack[TfdsOptions],
    ) -> TFRecordDataset[Any]: ...
    @classmethod
    @takes_options(TfdsOptions)
    def from_tfds(
        cls,
        directory: StrPath,
        split: str | Split,
        *,
        config: str | None = None,
        version: str | None = None,
        features: FeatureChoice | None = None,
        steps: Literal["ragged", "each"] | int = "ragged",
        **options: Unpack[TfdsOptions],
    ) -> TFRecordDataset[Any]:
        """Open a directory that TensorFlow Datasets (TFDS) wrote, without TensorFlow.

        The schema is that of :meth:`Schema.from_tfds`. The records are those that TFDS yields for
        the split, in the order of the files (``tfds.load(..., shuffle_files=False)`` with
        ``ReadConfig(interleave_cycle_length=1)``). See docs/tfds.md.

        The number of records in each shard is taken from ``dataset_info.json``. So nothing is
        indexed ahead if the files have the sizes stated there and indexes can be cached. A shard is
        compared with what is stated when it is first read, before any of its records is yielded.

        Args:
            directory: Directory of a version, such as ``~/tensorflow_datasets/mnist/3.0.1``, or of
                a config or dataset that contains versions. It may be a URL.
            split: ``"train"``, ``"train[:80%]+validation"``, a :class:`torchrec_io.tfds.Split`, or
                one of :func:`torchrec_io.tfds.even_splits`.
            config: Name of the config, if the directory has several.
            version: Version; by default the greatest.
            features: Names of the features to read; a name includes all features nested in it. Or a
                dict from name to a spec that replaces the dataset's own, or to None to leave the
                feature out.
            steps: Handling of a dataset inside each record, such as the steps of an episode.
                ``"ragged"`` reads sequences, as they are stored. ``"each"`` makes a sample of each
                element. A number makes samples of that many consecutive elements. See
                :meth:`steps`.
            options: Options of the class, except ``split`` and those of files and indexes.

        Raises:
            FileNotFoundError: If the directory does not exist, or shards are missing.
            NotADirectoryError: If it is a file.
            SchemaError: If the directory's metadata is invalid, or describes a feature that cannot
                be read, such as one of an unknown connector. ``features`` can leave it out.
            WrongShardError: If a shard has more or fewer records than stated, or belongs to another
                dataset. What only reading can show is raised on first use.
            CorruptRecordError, TruncatedFileError: If a shard is damaged. A shard that cannot be
                indexed raises whatever ``on_error`` is.
            ValueError: If the split, config, version or feature does not exist, the split has no
                records, records have no dataset or several of them for ``steps``, or another
                argument is invalid.
        """
        from ..tfds.directory import Directory  # noqa: PLC0415  # an optional room

        _check_steps(steps)
        if steps != "ragged":
            check_no_length_batches(options, "a dataset of steps")
        access = access_options(complete(TfdsOptions, options))
        found = Directory(directory, config, version, storage_options=access)
        plan = found.open(split, features, verify_crc=options.get("verify_crc", True))
        files = DataFiles(plan.paths, plan.indexes, (), plan.selection, plan.described)
        dataset = cls(files, plan.schema, **options)
        if steps == "ragged":
            return dataset
        group = found.group_of_steps(plan.schema)
        return dataset.steps(group, window=None if steps == "each" else int(steps))

    @overload
    def replace(self, **options: Unpack[OrderReplaceOptions]) -> Self: ...
    @overload
    def replace(self, **options: Unpack[TFRecordReplaceOptions]) -> TFRecordDataset[Any]: ...
    @takes_options(TFRecordReplaceOptions, unchanged=True)
    def replace(self, **options: Unpack[TFRecordReplaceOptions]) -> TFRecordDataset[Any]:
        """Return a dataset of the same records with another schema or other options.

        The epoch, the position and the count of skipped errors start again.

        Args:
            options: Options of the class that do not belong to its files, and ``schema``. Others
                stay as they are.

        Raises:
            TypeError: If an option is unknown or belongs to the files.
            ValueError: If a value is invalid.
        """
        return self._replaced(TFRecordReplaceOptions, options)

    def steps(self, group: str = "steps", *, window: int | None = None) -> Self:
        """Return a dataset whose samples are the steps of the records, which are episodes.

        Features named ``"<group>/..."``, nested or not, have one value for each step of a record,
        as TensorFlow Datasets stores episodes of RLDS. A sample is one step: the values of these
        features at that step, and the values of all other features of the record. Steps are
        numbered over all records. They are shuffled, assigned to ranks, batched and resumed by the
        same options as records. :meth:`split` of the steps keeps those of a record together, and
        ``group_by`` is called with whole records.

        The number of steps of each record is found in one pass over the data and cached. A record
        that cannot be read, or whose features have different numbers of steps, counts as one
        sample, which raises a DecodeError. Keys are ``"path:offset#step"``.

        Args:
            group: Name of the features that have steps: VarLenFeature, RaggedFeature (its outermost
                rows), SequenceFeature, FixedLenSequenceFeature or FixedLenFeature (its first
                dimension).
            window: Number of consecutive steps in a sample. The next sample starts one step later.
                A record with fewer steps has no sample. ``None`` makes single steps.

        Returns:
            A dataset in whose batches a feature with steps has the type and shape of a step's
            value: a VarLenFeature gives a Tensor ``[B]``, or ``[B, window]``; rows of any length
            give a :class:`Ragged`.

        Raises:
            SchemaError: If the group does not exist, or one of its features has no steps.
            ValueError: If batches are made by length, the samples are already steps, or ``window``
                is not a positive integer.
            TruncatedFileError, StaleIndexError, OSError: If the files changed since they were
                indexed.
        """
        from ..episodes.stepping import step_pipeline  # noqa: PLC0415  # an optional room

        return self._derive(step_pipeline(self._pipeline, group, window))


def _check_steps(steps: Any) -> None:
    if steps not in ("ragged", "each") and not (is_integer(steps) and steps >= 1):
        raise ValueError(f"steps must be 'ragged', 'each' or a positive integer, got {steps!r}")
