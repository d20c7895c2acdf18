"""TFRecord files from datasets of Ray Data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._storage.compression import COMPRESSIONS, Compression
from .._storage.local import StrPath
from .._storage.outputs import split_output
from .._storage.remote.options import StorageOptions
from .._writing.shards import refuse_shards, shards_of
from ..checks import check_choice, check_integer
from ..tools.outputs import check_file_name
from ..tools.report import JobReport, Result
from .extra import import_ray
from .shard_folder import ShardFolder

if TYPE_CHECKING:
    import ray.data


def write_tfrecords(
    dataset: ray.data.Dataset,
    name: StrPath,
    *,
    num_shards: int | None = None,
    compression: Compression | None = None,
    index: bool = True,
    force: bool = False,
    storage_options: StorageOptions = None,
    **write_options: Any,
) -> Result:
    """Write a dataset of Ray Data to TFRecord files of ``tf.train.Example`` records, one for a row.

    Types of columns become those of features as in :func:`torchrec_io.convert.from_parquet`;
    tensors become their values in row-major order. The record has no feature for a null. A feature
    has the same dtype in all shards: that of the schema of the dataset.

    Each task writes a shard to a hidden folder beside the outputs. When all of them are complete,
    they get their names together; in a store, by copies. A task that fails is tried again, and
    nothing of it remains. If the job fails, there is no output.

    Args:
        dataset: Rows to write.
        name: Common start of the paths of the shards, ``name-00000-of-00008`` and so on, or of the
            URLs of objects. All machines of the cluster must share the folder.
        num_shards: Number of shards. The rows are divided among them. By default there is one for
            each block of the dataset that has rows.
        compression: Compression of the shards: ``None``, ``"gzip"``, ``"zlib"`` or ``"zstd"``.
        index: Whether each shard gets an index ``.tfidx``.
        force: Whether shards of this name that exist are replaced. By default they are refused.
        storage_options: Options of remote outputs, as for :class:`TFRecordDataset`. Secrets in them
            are not sent to other machines: give these in the environment of all machines.
        write_options: Arguments of ``ray.data.Dataset.write_datasink``, such as ``concurrency``.

    Returns:
        Paths, numbers of records and other facts of the shards.

    Raises:
        ImportError: If Ray is not installed: ``pip install torchrec-io[cluster]``.
        ConversionError: If a column has a type that an Example cannot store, such as a struct, or
            has different types in different blocks, or a value does not fit.
        FileExistsError: If there are shards of this name, unless ``force``.
        FileNotFoundError: If machines do not share the folder.
        ValueError: If another argument is invalid.
        OSError: If a file cannot be written, or the name is a URL of HTTP.
    """
    import_ray()
    from .datasink import RowEncoder, TFRecordDatasink, types_of  # noqa: PLC0415  # it imports Ray

    start = check_file_name(name, storage_options)
    split_output(start)  # a URL that cannot be written is refused
    check_choice("compression", compression, (None, *COMPRESSIONS))
    if not force:
        refuse_shards(start)
    encoder = RowEncoder(start.name, types_of(dataset, start.name))
    if num_shards is not None:
        num_shards = check_integer("num_shards", num_shards, 1)
        shards_of(start, num_shards)  # a number that is too large is refused
        dataset = dataset.repartition(num_shards)
    report = JobReport()
    with ShardFolder.beside(start, compression, index=index) as folder:
        sink = TFRecordDatasink(folder, encoder)
        dataset.write_datasink(sink, **write_options)
        encoder.check_same(sink.shards)
        shards = [shard for shard in sink.shards if shard.records or num_shards is not None]
        shards = shards or [folder.write(0, [])]
        outputs = folder.commit(shards, start, force=force)
    return report.result(outputs, [shard.records for shard in shards])
