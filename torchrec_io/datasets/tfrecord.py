"""TFRecord files as an iterable that PyTorch's DataLoader takes."""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..episodes.stepping import Stepping
from ..order.orders import RecordOrder, StreamedOrder
from ..order.plan import Uneven
from ..order.shuffle import Shuffle, ShuffleChoice, check_shuffle
from ..records.index_cache import IndexChoice, open_indexes
from ..records.reader import RecordReader
from ..records.stream_reader import StreamReader
from ..schema.checks import is_whole
from ..storage.compressed import CompressionChoice
from ..storage.local import StrPath
from ..storage.paths import expand_paths
from ..tfds.directory import Directory
from ..tfds.feature_choice import FeatureChoice
from ..tfds.splits import Split
from .indexed import IndexedDataset
from .length_batching import LengthKey, check_unbatched
from .options import ErrorPolicy, LoadOptions
from .record_loader import RecordSource, SchemaLike

if TYPE_CHECKING:
    from typing_extensions import Self


class TFRecordDataset(IndexedDataset):
    """Records of TFRecord files, decoded by a schema, in an order that can be repeated.

    An index gives every record a number; the order of an epoch is computed from the numbers, the
    seed and the epoch alone, so each record comes exactly once whatever the number of DataLoader
    workers. Missing indexes are built on construction and kept in the user's cache directory.

    ``for batch in DataLoader(TFRecordDataset(paths, schema, batch_size=256), batch_size=None)`` is
    the fast path: batches are made by native code and cross processes as one buffer. Without
    ``batch_size`` the dataset yields samples, which DataLoader collates as usual.

    Args:
        paths: A file, glob pattern or directory, or several. A pattern stands for its matches,
            sorted, and ``**`` in it crosses directories; a directory for the files in it that are
            named as TFRecord files are (``*.tfrecord*``, ``*.tfrec``, ``*.recordio``,
            ``name-00000-of-00008``, ``part-*``), sorted.
        schema: A :class:`Schema` or a dict of features: records are ``tf.train.Example`` messages,
            or ``SequenceExample`` for a ``Schema(context=..., sequence=...)``, and are parsed. A
            callable: it gets each record's bytes, in the loading process.
            ``None``: records are given as bytes.
        split: A slice of the records, as TensorFlow Datasets writes it: ``"[:80%]"``,
            ``"[10%:20%]"``, ``"[-100:]"``. For a random split see :meth:`split`.
        batch_size: ``None``: yield samples, dicts with a schema. A number: yield a :class:`Batch`
            of that many records; a list of as many items without a schema.
        batch_tokens: Yield batches of records of similar length, each of as many records as make
            its padded size, their number times the longest, at most this; with ``batch_size`` too,
            of at most that many. See docs/batching.md.
        length_key: What the length of a record is: the name of a ``VarLenFeature``,
            ``RaggedFeature`` or ``FixedLenSequenceFeature`` of the schema, whose values (parts, or
            steps of a feature list) are counted, in one pass over the data whose result is kept in
            the user's cache directory; or integers ``[N]``, one for each record of the files.
            Without it, ``batch_tokens`` takes the only such feature of the schema. With
            ``batch_size`` alone, batches are of that many records of similar length.
        drop_last: Leave out a last batch of fewer records. Not with batches by length.
        shuffle: ``False``: the order of the files. ``True``: a uniform permutation of all records.
            A number: records move by at most about that many places, which keeps reading local. A
            :class:`Shuffle`: whole blocks of records, read at once, are put in random order and
            mixed; for slow storage.
        seed: Of the shuffle. With the epoch it defines the order; see :meth:`set_epoch`.
        epochs: How many epochs one iteration goes through; ``None`` is endless.
        rank: This training process, with ``world_size``; by default as ``torch.distributed`` or
            torchrun's environment says, else the only one.
        world_size: How many training processes share the records.
        uneven: What ranks do with records that do not divide: ``"keep"``, ``"drop"`` or ``"pad"``;
            see docs/order.md.
        index: ``"auto"``: the index beside each file, else one from the cache, else a new one. A
            path or a list of paths: the index file of each data file, ``.tfidx`` or text.
            ``None``: read from front to back without one, also from pipes; see docs/streams.md for
            what that cannot do.
        compression: ``"auto"`` (by content), ``None``, ``"gzip"`` or ``"zlib"``.
        verify_crc: Check the data of each record. Lengths are always checked.
        on_error: What to do about a damaged record, or one the schema does not fit: ``"raise"``;
            ``"skip"``: leave it out, count it in :attr:`skipped` and log it; or a function that
            gets the error, after which the record is left out and its batch filled up from what
            comes next; only the last one of an epoch (and worker) is short. Batches by length are
            not filled up. Where a length is damaged, the rest of that file is lost and reported as
            one error, and so are all records longer than ``batch_tokens``, which are left out from
            the start. An index that turns out to be stale always raises.
        num_threads: Threads that read and parse. 1 is the calling thread; more are background
            threads, which give the same batches in the same order. By default 2, and 1 in
            DataLoader workers.
        prefetch: How far background threads are ahead: so many batches, or runs of up to 16 where
            batches are small (together about 1 MiB as stored).
        with_key: Yield ``(key, sample)`` or ``(list of keys, batch)``; a key is ``"path:offset"``.

    Raises:
        FileNotFoundError: a file does not exist, or a pattern or directory stands for none.
        CorruptRecordError, TruncatedFileError: indexing met damage and ``on_error`` is ``"raise"``.
        StaleIndexError, IndexFormatError: a given index does not fit or is damaged.
        SchemaError: the schema contradicts itself.
        ValueError: another argument is not one of the above; or a record is longer than
            ``batch_tokens`` and ``on_error`` is ``"raise"``.
    """

    _by_length = True

    def __init__(
        self,
        paths: StrPath | Iterable[StrPath],
        schema: SchemaLike = None,
        *,
        split: str | None = None,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        length_key: LengthKey = None,
        drop_last: bool = False,
        shuffle: ShuffleChoice = False,
        seed: int = 0,
        epochs: int | None = 1,
        rank: int | None = None,
        world_size: int | None = None,
        uneven: Uneven = "keep",
        index: IndexChoice | None = "auto",
        compression: CompressionChoice = "auto",
        verify_crc: bool = True,
        on_error: ErrorPolicy = "raise",
        num_threads: int | None = None,
        prefetch: int = 2,
        with_key: bool = False,
    ) -> None:
        options = LoadOptions(
            batch_size=batch_size,
            batch_tokens=batch_tokens,
            drop_last=drop_last,
            epochs=epochs,
            rank=rank,
            world_size=world_size,
            uneven=uneven,
            on_error=on_error,
            num_threads=num_threads,
            prefetch=prefetch,
            with_key=with_key,
        )
        check_shuffle(shuffle)
        self.paths = expand_paths(paths)
        if index is None:
            if split is not None:
                raise ValueError("a split needs an index")
            check_unbatched(options, length_key, "a stream without an index")
            stream = StreamReader(self.paths, compression=compression, verify_crc=verify_crc)
            streamed = _streamed_order(self.paths, shuffle, seed, options)
            super().__init__(RecordSource(stream, schema), streamed, options)
            return
        indexes, errors = open_indexes(self.paths, index, compression)
        reader = RecordReader(indexes, verify_crc=verify_crc)
        self._set_up(
            reader,
            errors,
            schema,
            options,
            split=split,
            shuffle=shuffle,
            seed=seed,
            length_key=length_key,
        )

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
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        length_key: LengthKey = None,
        drop_last: bool = False,
        shuffle: ShuffleChoice = False,
        seed: int = 0,
        epochs: int | None = 1,
        rank: int | None = None,
        world_size: int | None = None,
        uneven: Uneven = "keep",
        verify_crc: bool = True,
        on_error: ErrorPolicy = "raise",
        num_threads: int | None = None,
        prefetch: int = 2,
        with_key: bool = False,
    ) -> Self:
        """Records of a directory that TensorFlow Datasets (TFDS) wrote, without TensorFlow.

        The schema is :meth:`Schema.from_tfds`, the records are those that TFDS gives for the split,
        in the order of the files (``tfds.load(..., shuffle_files=False)`` with its
        ``ReadConfig(interleave_cycle_length=1)``). See docs/tfds.md.

        How many records each shard has is taken from ``dataset_info.json``: nothing is indexed
        ahead where the files have the size that is said there, and indexes can be kept in the
        user's cache directory. A shard is held against what is said when it is first read, before
        any of its records is given.

        Args:
            directory: That of a version, such as ``~/tensorflow_datasets/mnist/3.0.1``, or that of
                a config or a dataset, with versions in it.
            split: ``"train"``, ``"train[:80%]+validation"``, a :class:`tfds.Split`, one of
                :func:`tfds.even_splits`.
            config: If the directory has several.
            version: By default the greatest there is.
            features: Names to read, others are left out; a name stands for all that is nested in
                it. Or a dict: by name a spec in place of the dataset's own, or None to leave it
                out.
            steps: What becomes of the dataset in a record, such as the steps of an episode:
                ``"ragged"``: sequences, as they are stored. ``"each"``: its elements are the
                samples; a number: so many consecutive ones. See :meth:`steps`, which does that.
            batch_size: This and the others are those of the constructor.
            batch_tokens: See there.
            length_key: See there; a nested feature's name is joined by "/".
            drop_last: See there.
            shuffle: See there.
            seed: See there.
            epochs: See there.
            rank: See there.
            world_size: See there.
            uneven: See there.
            verify_crc: See there.
            on_error: See there. A shard that cannot be indexed always raises.
            num_threads: See there.
            prefetch: See there.
            with_key: See there.

        Raises:
            FileNotFoundError: there is no such directory, or shards are missing.
            NotADirectoryError: it is a file.
            SchemaError: what the directory says of itself cannot be, or has a feature that cannot
                be read: by a connector nobody knows, say. ``features`` can leave it out.
            WrongShardError: a shard has more or fewer records than is said, or is of another
                dataset. What can only be found by reading is found on first use.
            CorruptRecordError, TruncatedFileError: a shard is damaged.
            ValueError: there is no such split, config, version or feature; the split has no
                records; records have no dataset, or several, of which ``steps`` could be; or
                another argument is not one of the above.
        """
        _check_steps(steps)
        check_shuffle(shuffle)
        options = LoadOptions(
            batch_size=batch_size,
            batch_tokens=batch_tokens,
            drop_last=drop_last,
            epochs=epochs,
            rank=rank,
            world_size=world_size,
            uneven=uneven,
            on_error=on_error,
            num_threads=num_threads,
            prefetch=prefetch,
            with_key=with_key,
        )
        known = Directory(directory, config, version)
        plan = known.open(split, features)
        if steps != "ragged":
            check_unbatched(options, length_key, "a dataset of steps")
        dataset = cls.__new__(cls)
        dataset.paths = plan.paths
        dataset._set_up(  # noqa: SLF001  # of this class
            RecordReader(plan.indexes, verify_crc=verify_crc),
            [],
            plan.schema,
            options,
            split=plan.selection,
            shuffle=shuffle,
            seed=seed,
            length_key=length_key,
            described=plan.described,
        )
        if steps == "ragged":
            return dataset
        window = None if steps == "each" else steps
        return dataset.steps(known.group_of_steps(plan.schema), window=window)

    def replace(self, **options: Any) -> Self:
        """The same records with other options, such as ``shuffle`` or ``batch_size``.

        Takes ``schema`` and the keyword arguments of the constructor but those about the files
        (``split``, ``index``, ``compression`` and ``verify_crc``). The epoch, the place and the
        count of skipped records start anew.

        Raises:
            TypeError: there is no such option.
            ValueError: a value is none of the choices.
        """
        order = self._own_order
        if isinstance(order, RecordOrder):
            return super().replace(**options)
        seed = options.pop("seed", order.seed)
        shuffle = options.pop("shuffle", order.shuffle)
        schema = options.pop("schema", self._source.given_schema)
        length_key = options.pop("length_key", self._length_key)
        load_options = self._shares.options.replace(**options)
        check_unbatched(load_options, length_key, "a stream without an index")
        streamed = _streamed_order(self.paths, shuffle, seed, load_options)
        return self._copy(RecordSource(self._source.reader, schema), streamed, load_options)

    def steps(self, group: str = "steps", *, window: int | None = None) -> Self:
        """The steps of the records, each of which is an episode; or windows of steps.

        Features named ``"<group>/..."``, nested or not, are as many values in a record each, one
        for every step, as TensorFlow Datasets stores episodes of RLDS. A sample is one step: of
        these features the values at that step, of all others those of the record. Steps are
        numbered over all records and come in an order as records do: shuffled, shared, batched and
        resumed by the same options, now said of steps. What was left out of the dataset by
        ``split`` is left out with all its steps, and :meth:`split` of the steps keeps those of a
        record together; ``group_by`` gets whole records.

        How many steps each record has is found in one pass over the data, and kept in the user's
        cache directory. A record whose features do not agree counts as one sample, which is a
        DecodeError; so does one that cannot be read. Keys are ``"path:offset#step"``.

        Args:
            group: The features that have steps: VarLenFeature, RaggedFeature (its outermost rows),
                SequenceFeature, FixedLenSequenceFeature, or FixedLenFeature (its first dimension).
            window: Give ``window`` consecutive steps of a record, the next sample one step later; a
                record of fewer has none. ``None``: single steps.

        Returns:
            A dataset whose batches have, of a step's feature, the type and shape that its value has
            by itself: a VarLenFeature gives a Tensor ``[B]``, or ``[B, window]``; one of rows of
            any length a :class:`Ragged`.

        Raises:
            SchemaError: there is no such group, or a feature of it has no steps.
            ValueError: there is no index, or batches are made by length; the dataset is one of
                steps already; or window is no whole number from 1.
            TruncatedFileError, StaleIndexError, OSError: the files are not what was indexed.
        """
        order = self._own_order
        if isinstance(order, StreamedOrder):
            raise ValueError("steps need an index")  # noqa: TRY004  # the argument was wrong
        if self._steps is not None:
            raise ValueError("the dataset is one of steps already: call steps() on that of records")
        options, schema = self._shares.options, self._source.given_schema
        check_unbatched(options, self._length_key, "a dataset of steps")
        stepping = Stepping.of(self._records, schema, group, window)
        other = copy.copy(self)
        other._steps = stepping  # noqa: SLF001  # of this class, as below
        return other._with_order(stepping.order(order), schema, options, None)  # noqa: SLF001


def _check_steps(steps: Any) -> None:
    if steps not in ("ragged", "each") and (not is_whole(steps) or steps < 1):
        raise ValueError(
            f"steps must be 'ragged', 'each' or a whole number of at least 1, not {steps!r}"
        )


def _streamed_order(
    paths: list[str], shuffle: ShuffleChoice, seed: int, options: LoadOptions
) -> StreamedOrder:
    check_shuffle(shuffle)
    if isinstance(shuffle, Shuffle) or (isinstance(shuffle, (bool, np.bool_)) and shuffle):
        raise ValueError(
            f"without an index shuffle must be False or a number of records, not {shuffle!r}"
        )
    if options.uneven != "keep":
        raise ValueError(f"without an index uneven must be 'keep', not {options.uneven!r}")
    names = ";".join(os.path.basename(path) for path in paths)
    files = hashlib.blake2b(os.fsencode(names), digest_size=8).hexdigest()
    return StreamedOrder(files, min(int(shuffle), 2**62) or False, seed)
