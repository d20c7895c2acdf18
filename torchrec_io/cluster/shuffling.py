"""A shuffle of all records on a cluster: a sort of Ray Data by positions in the new order."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .._order.shuffle import check_seed, positions_of
from .._storage.compression import Compression
from .._storage.local import StrPath
from .._storage.remote.options import StorageOptions
from ..checks import counted
from ..convert import arrow as pa
from ..tools.outputs import check_file_name
from ..tools.report import JobReport, OnError, Result, Watcher
from .division import DividedRecords
from .extra import import_ray
from .record_tables import BYTES_COLUMN, NUMBER_COLUMN, TableReader
from .shard_folder import ShardFolder, WrittenShard
from .shard_output import ShardOutput
from .shared_paths import expand_shared_paths
from .tasks import plain_errors

# About the number of bytes of sorted records in a file, which a task holds in memory.
_SORTED_BYTES = 128 << 20


def shuffle(
    paths: StrPath | Iterable[StrPath],
    name: StrPath,
    *,
    num_shards: int,
    seed: int = 0,
    compression: Compression | None = None,
    index: bool = True,
    force: bool = False,
    on_error: OnError = "raise",
    allow_missing: bool = False,
    watcher: Watcher | None = None,
    storage_options: StorageOptions = None,
) -> Result:
    """Write the records of all files to shards, in a uniform random order, on a Ray cluster.

    The order is that of the first epoch of ``TFRecordDataset(paths, shuffle=True, seed=seed)``. It
    depends on the inputs and ``seed`` alone, not on the number of tasks or machines. The shards
    have consecutive parts of it; :func:`torchrec_io.tools.shuffle` writes records to all shards in
    turn instead.

    Ray Data sorts the records by their positions in the new order. Its object store holds them
    meanwhile, and uses the local disks of the machines for what does not fit in memory. Tasks then
    write the sorted records to a hidden folder beside the shards, which needs space for two copies
    of the data, and write the shards from these files. The shards get their names together, when
    all are complete. If the job fails, there is no output.

    Args:
        paths: Files, glob patterns, directories or URLs that all machines can read.
        name: Common start of the paths of the shards, ``name-00000-of-00008`` and so on, or of the
            URLs of objects. All machines of the cluster must share the folder.
        num_shards: Number of shards.
        seed: Seed of the order.
        compression: Compression of the shards: ``None``, ``"gzip"``, ``"zlib"`` or
            ``"zstd"``.
        index: Whether each shard gets an index ``.tfidx``.
        force: Whether shards of this name that exist are replaced. By default they are refused.
        on_error: ``"raise"``, or ``"skip"`` to skip and count damaged records. The tasks log the
            reasons. After a damaged length the rest of a file without an index is lost.
        allow_missing: Read the files that exist, even if their names ``name-00001-of-00003`` say
            that a directory or pattern lacks some.
        watcher: Receiver of progress messages.
        storage_options: Options of remote inputs and outputs, as for :class:`TFRecordDataset`.
            Secrets in them are not sent to other machines: give these in the environment of all
            machines.

    Returns:
        Paths, numbers of records and other facts of the shards.

    Raises:
        ImportError: If Ray is not installed: ``pip install torchrec-io[cluster]``.
        CorruptRecordError: If a record is damaged, unless it is skipped.
        TruncatedFileError: If a file is truncated, unless its rest is skipped.
        FileNotFoundError: If a path matches no file, shards are missing, or machines do not share
            the folder of the outputs.
        FileExistsError: If there are shards of this name, unless they may be replaced.
        OSError: If a file cannot be read or written, or the name is a URL of HTTP.
        ValueError: If an argument is invalid, the name is a folder, an input could be a shard, or
            shards would have more than the 5 GiB that a store copies.
    """
    import_ray()
    start = check_file_name(name, storage_options)
    output = ShardOutput(start, num_shards, None, compression, index, force)
    seed = check_seed(seed)
    report = JobReport(on_error, watcher)
    files = expand_shared_paths(paths, allow_missing=allow_missing, storage_options=storage_options)
    records = output.open_inputs(files, report)
    report.watcher.started(2 * records.size)
    with ShardFolder.beside(start) as folder:
        found = folder.open(_sort(records, folder, seed, on_error))
        report.skipped += len(records) - len(found)
        report.add(0, records.size)
        # These files are not damaged, so nothing is skipped.
        outputs, counts = output.write(found, JobReport("raise", watcher))
    return report.result(outputs, counts)


def _sort(
    records: DividedRecords, folder: ShardFolder, seed: int, on_error: OnError
) -> list[WrittenShard]:
    """Write all records to files in the new order, and return these in order.

    Raises:
        RuntimeError: If the files lack records, or have a record twice.
    """
    from ray.data import read_datasource  # noqa: PLC0415  # an optional package, slow to import

    from .datasink import TFRecordDatasink  # noqa: PLC0415  # it imports Ray
    from .datasource import TFRecordDatasource  # noqa: PLC0415  # it imports Ray

    count = len(records)
    parts = max(1, -(-records.size // _SORTED_BYTES))
    source = TFRecordDatasource(records, TableReader(None, (NUMBER_COLUMN, BYTES_COLUMN)), on_error)
    rows = read_datasource(source, override_num_blocks=parts)
    place = functools.partial(_with_positions, count=count, seed=seed)
    placed = rows.map_batches(place, batch_format="pyarrow", batch_size=None)
    # Without any bounds, Ray Data would look for some. After the last one there is no record.
    bounds = [count * part // parts for part in range(1, parts + 1)]
    sink = TFRecordDatasink(folder, _sorted_records)
    with plain_errors():
        placed.sort(NUMBER_COLUMN, boundaries=bounds).write_datasink(sink)
    shards = sorted(
        (shard for shard in sink.shards if shard.facts), key=lambda shard: shard.facts["first"]
    )
    sorted_count = sum(shard.records + shard.facts["skipped"] for shard in shards)
    is_ascending = all(a.facts["last"] < b.facts["first"] for a, b in itertools.pairwise(shards))
    if not is_ascending or sorted_count != count:
        raise RuntimeError(
            f"the sorted files have {counted(sorted_count, 'record')}, not each of {count:,} once: "
            "files of the job were changed while it ran"
        )
    return shards


def _with_positions(table: Any, *, count: int, seed: int) -> Any:
    """Return records with their positions in the new order in place of their numbers."""
    positions = positions_of(table[NUMBER_COLUMN].to_numpy(), count, seed)
    records = table[BYTES_COLUMN].cast(pa.large_binary())  # a sorted table may have more than 2 GiB
    return pa.table({NUMBER_COLUMN: positions, BYTES_COLUMN: records})


def _sorted_records(tables: Iterable[Any], facts: dict[str, Any]) -> Iterator[bytes]:
    """Yield records, and take note of their first and last positions and of skipped ones.

    Raises:
        RuntimeError: If the positions are not ascending, so that a record may be there twice.
    """
    for table in tables:
        positions = np.append(facts.get("last", -1), table[NUMBER_COLUMN].to_numpy())
        if not (np.diff(positions) > 0).all():
            raise RuntimeError("Ray Data has not sorted the records")
        facts.setdefault("first", int(positions[1]))
        facts["last"] = int(positions[-1])
        records = table[BYTES_COLUMN]
        facts["skipped"] = facts.get("skipped", 0) + records.null_count
        yield from records.drop_null().to_pylist()
