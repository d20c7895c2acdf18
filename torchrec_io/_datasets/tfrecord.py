"""Datasets of TFRecord files: indexed, or read as a stream."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, overload

import numpy as np
import numpy.typing as npt
from torch import Tensor

from .._storage.local import StrPath
from .._tensors.block_parser import Columns, SchemaLike
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
from .pipeline import IndexedPipeline
from .where import Predicate

if TYPE_CHECKING:
    from .._order.ramp import Ramp
    from .._tensors.batch import Batch
    from .._tensors.sample import Sample
    from ..episodes.offsets import Offsets, Outside
    from ..tfds.feature_choice import FeatureChoice
    from ..tfds.splits import Split


class _TfdsSampleArguments(TfdsSampleOptions, total=False):
    """Arguments of :meth:`TFRecordDataset.from_tfds` that do not change the items."""

    config: str | None
    version: str | None
    features: FeatureChoice | None
    steps: Literal["ragged", "each"] | Offsets
    outside: Outside


class _TfdsArguments(_TfdsSampleArguments, TfdsOptions, total=False):
    """Arguments of :meth:`TFRecordDataset.from_tfds`."""


@takes_options(TFRecordOptions)
class TFRecordDataset(IndexedDataset[Item_co]):
    """Records of TFRecord files, decoded by a schema, in a repeatable order.

    The order of an epoch is computed from record numbers, the seed and the epoch alone, so each
    record comes exactly once, whatever the number of DataLoader workers. Missing indexes are built
    on construction and cached. To read without an index, or pipes, use :class:`TFRecordStream`.

    ``for batch in DataLoader(TFRecordDataset(paths, schema, batch_size=256), batch_size=None)`` is
    the fast path: native code makes the batches. Without ``batch_size`` the dataset yields samples.

    Args:
        paths: A file, glob pattern or directory, or several. A directory stands for the files in it
            that are named as TFRecord files are; they must be one set. See docs/quickstart.md.
        schema: A :class:`Schema` or a dict of features parses records as ``tf.train.Example``
            messages; a ``Schema(context=..., sequence=...)`` as ``SequenceExample``. A function is
            called with the bytes of each record, in the loading process. ``None`` yields bytes.

    Raises:
        FileNotFoundError: If no file is found, or shards are missing.
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
        paths: StrPath | Iterable[StrPath],
        schema: Columns,
        *,
        batch_size: int | Ramp,
        batch_tokens: int | Ramp | None = None,
        **options: Unpack[TFRecordSampleOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: TFRecordDataset[Batch],
        paths: StrPath | Iterable[StrPath],
        schema: Columns,
        *,
        batch_tokens: int | Ramp,
        **options: Unpack[TFRecordSampleOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: TFRecordDataset[Sample],
        paths: StrPath | Iterable[StrPath],
        schema: Columns,
        **options: Unpack[TFRecordSampleOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: TFRecordDataset[Any],
        paths: StrPath | Iterable[StrPath],
        schema: SchemaLike = None,
        **options: Unpack[TFRecordOptions],
    ) -> None: ...
    def __init__(
        self,
        paths: StrPath | Iterable[StrPath],
        schema: SchemaLike = None,
        **options: Unpack[TFRecordOptions],
    ) -> None:
        known = complete(TFRecordOptions, options)
        super().__init__(IndexedPipeline.open(paths, schema, known))

    @overload
    @classmethod
    def from_tfds(
        cls,
        directory: StrPath,
        split: str | Split,
        *,
        batch_size: int | Ramp,
        **options: Unpack[_TfdsSampleArguments],
    ) -> TFRecordDataset[Batch]: ...
    @overload
    @classmethod
    def from_tfds(
        cls,
        directory: StrPath,
        split: str | Split,
        **options: Unpack[_TfdsSampleArguments],
    ) -> TFRecordDataset[Sample]: ...
    @overload
    @classmethod
    def from_tfds(
        cls,
        directory: StrPath,
        split: str | Split,
        **options: Unpack[_TfdsArguments],
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
        steps: Literal["ragged", "each"] | Offsets = "ragged",
        outside: Outside = "drop",
        **options: Unpack[TfdsOptions],
    ) -> TFRecordDataset[Any]:
        """Open a directory that TensorFlow Datasets wrote, without TensorFlow. See docs/tfds.md."""
        from ..tfds.directory import Directory  # noqa: PLC0415  # an optional room

        _check_steps(steps, outside)
        if not isinstance(steps, str) or steps != "ragged":
            check_no_length_batches(options, "a dataset of steps")
        complete(TfdsOptions, options)  # refuses the other options of the class
        known = complete(TFRecordOptions, options)
        found = Directory(directory, config, version, storage_options=access_options(known))
        plan = found.open(split, features, verify_crc=known["verify_crc"])
        pipeline = IndexedPipeline.of_indexes(
            plan.paths,
            plan.indexes,
            plan.schema,
            known,
            selection=plan.selection,
            name=plan.described,
        )
        dataset = cls.__new__(cls)
        IndexedDataset.__init__(dataset, pipeline)
        if isinstance(steps, str) and steps == "ragged":
            return dataset
        group = found.group_of_steps(plan.schema)
        offsets = None if isinstance(steps, str) else steps
        return dataset.steps(offsets, group=group, outside=outside)

    @overload
    def replace(self, **options: Unpack[OrderReplaceOptions]) -> Self: ...
    @overload
    def replace(self, **options: Unpack[TFRecordReplaceOptions]) -> TFRecordDataset[Any]: ...
    @takes_options(TFRecordReplaceOptions, unchanged=True)
    def replace(self, **options: Unpack[TFRecordReplaceOptions]) -> TFRecordDataset[Any]:
        """Return a dataset with another schema or options, at its start. See docs/order.md."""
        return self._replaced(TFRecordReplaceOptions, options)

    def steps(
        self,
        offsets: Offsets = None,
        *,
        group: str = "steps",
        outside: Outside = "drop",
        stride: int = 1,
        keep: Predicate | Tensor | npt.NDArray[np.bool_] | Sequence[bool] | None = None,
        features: Sequence[str] | None = None,
        cache_key: str | None = None,
    ) -> Self:
        """Return a dataset of the steps, or of windows, of episodes. See docs/episodes.md."""
        from ..episodes.stepping import keep_steps, step_pipeline  # noqa: PLC0415  # optional

        pipeline = step_pipeline(
            self._pipeline, offsets, group=group, outside=outside, stride=stride
        )
        if not callable(keep) and (features is not None or cache_key is not None):
            raise ValueError("features and cache_key need keep=function")
        if keep is not None:
            pipeline = keep_steps(
                pipeline, self._worker_state(), keep, features=features, cache_key=cache_key
            )
        return self._derive(pipeline)


def _check_steps(steps: Any, outside: Any) -> None:
    is_offsets = isinstance(steps, Iterable) and not isinstance(steps, (str, bytes))
    if not (is_offsets or steps in ("ragged", "each")):
        raise ValueError(
            "steps must be 'ragged', 'each' or offsets such as range(4) or {'action': range(16)}, "
            f"got {steps!r}"
        )
    if outside != "drop" and isinstance(steps, str):
        raise ValueError(f"outside needs steps with offsets, got outside={outside!r}")
