"""Programs that run under faults: what they start from, what they do, and how the result is read.

All programs work in ``folder``: inputs are in ``in``, outputs in ``out``, the cache in ``cache``.
"""

from __future__ import annotations

import gzip
import io
import os
import random
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from PIL import Image

import torchrec_io as tio
from tests.native import test_ownership
from tests.support.tfrecord import frame
from torchrec_io import _core
from torchrec_io._records.index_file import SUFFIX
from torchrec_io._records.sequential import iter_records
from torchrec_io._records.verify import verify_file
from torchrec_io._storage.cache.folder import CacheFolder
from torchrec_io._storage.cache.stored_chunks import StoredChunks
from torchrec_io._storage.chunk_cache import Chunk, ChunkCache
from torchrec_io._storage.chunked_file import ChunkedFile
from torchrec_io._storage.compression import Compression
from torchrec_io._storage.location import Location
from torchrec_io._storage.paths import expand_paths
from torchrec_io._storage.stamp import Stamp
from torchrec_io.cluster.shard_folder import ShardFolder
from torchrec_io.reports.extra import import_extra
from torchrec_io.reports.reporting import report

# Imported here once, and not in each of the processes that run a program.
import_extra("datasketches")
import_extra("jinja2")

OLD = [tio.encode_example({"n": number, "data": b"old"}) for number in range(6)]
NEW = [tio.encode_example({"n": number, "data": b"new"}) for number in range(6)]
SCHEMA = {"n": tio.FixedLenFeature([], "int64")}


def nothing(folder: Path) -> None:
    del folder


@dataclass(frozen=True)
class Program:
    """A program.

    Attributes:
        run: Program; it returns its result, if it has one.
        read: Function that reads the outputs; FileNotFoundError if there are none.
        prepare: Function that makes inputs and old outputs.
        under: Folder whose files get faults.
    """

    run: Callable[[Path], Any]
    read: Callable[[Path], Any] = nothing
    prepare: Callable[[Path], object] = nothing
    under: str = "out"

    def after(self, prepare: Callable[[Path], object]) -> Program:
        """Return the same program with more preparations, first."""

        def both(folder: Path) -> None:
            prepare(folder)
            self.prepare(folder)

        return Program(self.run, self.read, both, self.under)


# ---- reading of outputs ----


def read_records(folder: Path) -> dict[str, list[bytes]]:
    """Return the records of the files in ``out``, and check that their indexes match."""
    found = {}
    for path in expand_paths(folder / "out", one_set=False):
        found[os.path.basename(path)] = [record for _, record in iter_records(path)]
        if os.path.exists(path.beside(SUFFIX)):
            offsets = tio.RecordIndex.load(path.beside(SUFFIX), path).offsets
            assert offsets.tolist() == tio.RecordIndex.build(path).offsets.tolist()
    return found


def read_index(folder: Path) -> list[int]:
    path = folder / "in" / "a.tfrecord"
    offsets: list[int] = tio.RecordIndex.load(f"{path}{SUFFIX}", path).offsets.tolist()
    return offsets


def read_text_index(folder: Path) -> list[int]:
    path = folder / "out" / "a.idx"
    offsets: list[int] = tio.RecordIndex.load(path, folder / "in" / "a.tfrecord").offsets.tolist()
    return offsets


def read_parquet(folder: Path) -> dict[str, Any]:
    from pyarrow import parquet  # noqa: PLC0415  # optional

    return {
        os.path.basename(path): parquet.read_table(path).to_pylist()
        for path in expand_paths(f"{folder}/out/x*.parquet")
    }


def read_tar(folder: Path) -> dict[str, Any]:
    found = {}
    for path in expand_paths(f"{folder}/out/x*.tar"):
        with tarfile.open(path) as tar:
            files = [(name, tar.extractfile(name)) for name in tar.getnames()]
            found[os.path.basename(path)] = {name: f.read() for name, f in files if f is not None}
    return found


def read_tree(folder: Path) -> dict[str, bytes]:
    files = map(Path, expand_paths(folder / "out" / "tree", tfrecord_names=False))
    return {path.name: path.read_bytes() for path in files}


# ---- inputs and old outputs ----


def inputs(folder: Path) -> None:
    (folder / "in").mkdir()
    for name, records in (("a", NEW[:4]), ("b", NEW[4:])):
        with tio.TFRecordWriter(folder / "in" / f"{name}.tfrecord") as writer:
            for record in records:
                writer.write(record)


def compressed_inputs(folder: Path) -> None:
    inputs(folder)
    for name in ("a", "b"):
        path = folder / "in" / f"{name}.tfrecord"
        with tio.TFRecordWriter(f"{path}.gz", "gzip") as writer:
            for _, record in iter_records(path):
                writer.write(record)
        path.unlink()


def zstd_inputs(folder: Path) -> None:
    inputs(folder)
    tio.tools.compress(folder / "in", folder / "in", "zstd")
    for name in ("a", "b"):
        (folder / "in" / f"{name}.tfrecord").unlink()


def seekable_inputs(folder: Path) -> None:
    """Make compressed files with indexes, with a seek point at each member."""
    inputs(folder)
    for path in map(Path, expand_paths(folder / "in")):
        packed = path.with_name(f"{path.name}.gz")
        content = path.read_bytes()
        packed.write_bytes(gzip.compress(content[:50]) + gzip.compress(content[50:]))
        tio.RecordIndex.build(packed, seek_point_bytes=1).save()
        path.unlink()


def windowed_inputs(folder: Path) -> None:
    """Make a compressed file with an index whose seek points have windows."""
    (folder / "in").mkdir()
    path = folder / "in" / "a.tfrecord.gz"
    with gzip.open(path, "wb") as packed:
        for number in range(6):
            noise = random.Random(number).randbytes(40_000)
            packed.write(frame(tio.encode_example({"n": number, "data": noise})))
    index = tio.RecordIndex.build(path, seek_point_bytes=1)
    assert index.seek_points.has_windows
    index.save()


def indexed_inputs(folder: Path) -> None:
    inputs(folder)
    for path in expand_paths(folder / "in"):
        tio.RecordIndex.build(path).save()


def write_shards(folder: Path, records: list[bytes], name: str = "x", **options: Any) -> None:
    with tio.ShardedWriter(folder / "out" / name, **options) as writer:
        for record in records:
            writer.write(record)


def old_shards(folder: Path) -> None:
    write_shards(folder, OLD, num_shards=2, index=True)


def old_file(name: str, compression: Compression | None = None) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        with tio.TFRecordWriter(folder / "out" / name, compression, index=True) as writer:
            for record in OLD:
                writer.write(record)

    return prepare


def old_parts(folder: Path) -> None:
    for name in ("x-train.tfrecord", "x-test.tfrecord"):
        old_file(name)(folder)


def old_outputs(convert: Callable[[Path], object]) -> Callable[[Path], None]:
    """Return a function that makes the outputs of a conversion, from other records."""

    def prepare(folder: Path) -> None:
        (folder / "in").mkdir()
        with tio.TFRecordWriter(folder / "in" / "a.tfrecord") as writer:
            for record in OLD:
                writer.write(record)
        convert(folder)
        (folder / "in" / "a.tfrecord").unlink()
        (folder / "in").rmdir()

    return prepare


def csv_input(folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "x.csv").write_text("n,data\n" + "".join(f"{n},new\n" for n in range(6)))


def jsonl_input(folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "x.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in range(6)))


def npz_input(folder: Path) -> None:
    (folder / "in").mkdir()
    np.savez(folder / "in" / "x.npz", n=np.arange(6))


def parquet_input(folder: Path) -> None:
    from pyarrow import parquet, table  # noqa: PLC0415  # optional

    (folder / "in").mkdir()
    parquet.write_table(table({"n": list(range(6))}), folder / "in" / "x.parquet")


def image_input(folder: Path) -> None:
    for name in ("cat", "dog"):
        (folder / "in" / name).mkdir(parents=True)
        Image.new("L", (4, 4)).save(folder / "in" / name / "x.png")


# ---- writers ----


def write_file(folder: Path, compression: Compression | None = None, name: str = "x") -> None:
    path = folder / "out" / f"{name}.tfrecord"
    with tio.TFRecordWriter(path, compression, index=True) as writer:
        for record in NEW:
            writer.write(record)


def write_without_index(folder: Path) -> None:
    with tio.ShardedWriter(folder / "out" / "x", 2) as writer:
        for record in NEW:
            writer.write(record)


def write_parts(folder: Path) -> None:
    """Write shards as the tasks and the driver of a cluster do."""
    name = Location.of(folder / "out" / "x")
    with ShardFolder.beside(name) as parts:
        written = [parts.write(number, NEW[number::2]) for number in range(2)]
        parts.commit(written, name, force=True)


WRITERS = {
    "file": Program(write_file, read_records),
    "file over old": Program(write_file, read_records, old_file("x.tfrecord")),
    "gzip file over old": Program(
        lambda folder: write_file(folder, "gzip"), read_records, old_file("x.tfrecord")
    ),
    "shards": Program(
        lambda folder: write_shards(folder, NEW, num_shards=2, index=True), read_records
    ),
    "shards over old": Program(
        lambda folder: write_shards(folder, NEW, num_shards=2, index=True),
        read_records,
        old_shards,
    ),
    "shards without index over indexed": Program(write_without_index, read_records, old_shards),
    "parts of a cluster": Program(write_parts, read_records),
    "parts of a cluster over old": Program(write_parts, read_records, old_shards),
    "shards by size over old": Program(
        lambda folder: write_shards(folder, NEW, max_bytes=150), read_records, old_shards
    ),
}

# ---- tools ----


def tool(
    run: Callable[[Path, Path], object], old: Callable[[Path], object], **options: Any
) -> Program:
    program = Program(
        lambda folder: run(folder / "in", folder / "out") and None, read_records, old, **options
    )
    return program.after(inputs)


def save_report(folder: Path) -> None:
    report(folder / "in").save(folder / "out" / "x.html", force=True)


def old_page(folder: Path) -> None:
    (folder / "out" / "x.html").write_text("old", "utf-8")


def read_page(folder: Path) -> bool:
    """Return whether the page is the new one, and check that it is whole."""
    page = (folder / "out" / "x.html").read_text("utf-8")
    assert page == "old" or page.endswith("</html>")
    return page != "old"


def repair(folder: Path, name: str) -> None:
    tio.tools.repair(folder / "in" / name, folder / "out" / "x.tfrecord", force=True)


TOOLS = {
    "merge": tool(
        lambda source, out: tio.tools.merge(source, out / "x.tfrecord", force=True),
        old_file("x.tfrecord"),
    ),
    "subset": tool(
        lambda source, out: tio.tools.subset(source, out / "x.tfrecord", every=2, force=True),
        old_file("x.tfrecord"),
    ),
    "split": tool(
        lambda source, out: tio.tools.split(source, out / "x", [0.5, 0.5], force=True), old_parts
    ),
    "reshard": tool(
        lambda source, out: tio.tools.reshard(source, out / "x", num_shards=2, force=True),
        old_shards,
    ),
    "reshard over others": tool(
        lambda source, out: tio.tools.reshard(source, out / "x", num_shards=3, force=True),
        old_shards,
    ),
    "shuffle": tool(
        lambda source, out: tio.tools.shuffle(source, out / "x", num_shards=2, force=True),
        old_shards,
    ),
    "compress": tool(
        lambda source, out: tio.tools.compress(source, out, force=True),
        lambda folder: [old_file(f"{n}.tfrecord.gz", "gzip")(folder) for n in "ab"],
    ),
    "decompress": Program(
        lambda folder: tio.tools.decompress(folder / "in", folder / "out", force=True) and None,
        read_records,
        lambda folder: [old_file(f"{n}.tfrecord")(folder) for n in "ab"],
    ).after(compressed_inputs),
    "report": Program(save_report, read_page, old_page).after(inputs),
    "repair": Program(
        lambda folder: repair(folder, "a.tfrecord"), read_records, old_file("x.tfrecord")
    ).after(inputs),
    "repair of gzip": Program(
        lambda folder: repair(folder, "a.tfrecord.gz"), read_records, old_file("x.tfrecord")
    ).after(compressed_inputs),
}

# ---- conversions ----


def from_other(kind: str, source: str, **options: Any) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        convert = getattr(tio.convert, f"from_{kind}")
        convert(folder / "in" / source, folder / "out" / "x", num_shards=2, force=True, **options)

    return run


def to_parquet(folder: Path) -> None:
    tio.convert.to_parquet(folder / "in", folder / "out" / "x", num_shards=2, force=True)


def to_webdataset(folder: Path) -> None:
    tio.convert.to_webdataset(folder / "in", folder / "out" / "x", max_bytes=10240, force=True)


def to_files(folder: Path) -> None:
    tio.convert.to_files(folder / "in", folder / "out" / "tree", "data")


CONVERSIONS = {
    "from_csv": Program(from_other("csv", "x.csv"), read_records, old_shards).after(csv_input),
    "from_jsonl": Program(from_other("jsonl", "x.jsonl"), read_records, old_shards).after(
        jsonl_input
    ),
    "from_npz": Program(from_other("npz", "x.npz"), read_records, old_shards).after(npz_input),
    "from_images": Program(from_other("images", ""), read_records, old_shards).after(image_input),
    "from_parquet": Program(from_other("parquet", "x.parquet"), read_records, old_shards).after(
        parquet_input
    ),
    "to_parquet": Program(to_parquet, read_parquet, inputs).after(old_outputs(to_parquet)),
    "to_webdataset": Program(to_webdataset, read_tar, inputs).after(old_outputs(to_webdataset)),
    "to_files": Program(to_files, read_tree, inputs),
}

# ---- indexes and caches ----


def stale_index(folder: Path) -> None:
    inputs(folder)
    path = folder / "in" / "a.tfrecord"
    records = [record for _, record in iter_records(path)]
    tio.RecordIndex.build(path).save()
    with tio.TFRecordWriter(path) as writer:
        for record in records:
            writer.write(record + b"\x12\x00")
    tio.RecordIndex.build(folder / "in" / "b.tfrecord").save(f"{path}{SUFFIX}")


def index_command(folder: Path) -> None:
    from torchrec_io.cli.commands import app  # noqa: PLC0415  # slow

    path = str(folder / "in" / "a.tfrecord")
    if status := app(["index", path, "--force"], standalone_mode=False):
        raise OSError(f"status {status}")


def count_records(folder: Path) -> int:
    return len(tio.TFRecordDataset(folder / "in"))


def read_cached(folder: Path) -> list[int]:
    return list(map(len, tio.TFRecordDataset(folder / "in")))


def by_length(folder: Path) -> list[list[int]]:
    schema = {"n": tio.VarLenFeature("int64")}
    dataset = tio.TFRecordDataset(folder / "in", schema, batch_tokens=2, length_key="n")
    return [batch["n"].values.tolist() for batch in dataset]


def packed_rows(key: str, dtype: Any) -> Callable[[Path], Any]:
    def run(folder: Path) -> Any:
        schema = {key: tio.VarLenFeature(dtype)}
        pack = tio.Pack(16, key, window=50)
        dataset = tio.TFRecordDataset(folder / "in", schema, pack=pack, batch_size=1)
        return [[batch[key].tolist(), batch["record_numbers"].tolist()] for batch in dataset]

    return run


def by_predicate(folder: Path) -> int:
    dataset = tio.TFRecordDataset(folder / "in", SCHEMA, batch_size=4)
    return len(dataset.where(lambda batch: batch["n"] < 2, features=["n"], cache_key="few"))


def by_step(folder: Path) -> list[Any]:
    data = tio.SequenceFeature(tio.RawFeature("uint8", shape=[3]))
    records = tio.TFRecordDataset(
        folder / "in", {**SCHEMA, "data": data}, batch_size=2, shuffle=True, seed=1
    )
    steps = records.steps(group="data")
    return [[batch["n"].tolist(), batch["data"].tolist()] for batch in steps]


INDEXES = {
    "index": Program(
        lambda folder: tio.RecordIndex.build(folder / "in" / "a.tfrecord").save() and None,
        read_index,
        inputs,
        under="in",
    ),
    "index over stale": Program(
        lambda folder: tio.RecordIndex.build(folder / "in" / "a.tfrecord").save() and None,
        read_index,
        stale_index,
        under="in",
    ),
    "text index": Program(
        lambda folder: (
            tio.RecordIndex.build(folder / "in" / "a.tfrecord").to_text(folder / "out" / "a.idx")
            and None
        ),
        read_text_index,
        inputs,
    ),
    "index command": Program(index_command, read_index, inputs, under="in"),
    "cached index": Program(count_records, read_cached, inputs, under="cache"),
    "cached lengths": Program(by_length, by_length, inputs, under="cache"),
    "cached lengths of documents": Program(
        packed_rows("n", "int64"), packed_rows("n", "int64"), inputs, under="cache"
    ),
    "cached steps": Program(by_step, by_step, inputs, under="cache"),
    "cached predicate": Program(by_predicate, by_predicate, inputs, under="cache"),
}

# ---- readers ----


def all_ids(**options: Any) -> Callable[[Path], list[list[int]]]:
    def run(folder: Path) -> list[list[int]]:
        dataset = tio.TFRecordDataset(folder / "in", SCHEMA, batch_size=2, **options)
        return [batch["n"].tolist() for batch in dataset]

    return run


def stream(folder: Path) -> list[list[int]]:
    dataset = tio.TFRecordStream(folder / "in", SCHEMA, batch_size=2)
    return [batch["n"].tolist() for batch in dataset]


def map_style(folder: Path) -> list[int]:
    dataset = tio.TFRecordMapDataset(folder / "in", SCHEMA)
    return [int(dataset[number]["n"]) for number in (5, 0, 3)]


def verify(folder: Path) -> list[tuple[bool, int]]:
    reports = [verify_file(path) for path in expand_paths(folder / "in")]
    if not all(report.ok for report in reports):
        raise OSError("damaged")
    return [(report.ok, report.records) for report in reports]


def dry_repair(folder: Path) -> list[tuple[bool, int]]:
    paths = expand_paths(folder / "in")
    reports = [tio.tools.repair(path, dry_run=True) for path in paths]
    if not all(report.ok for report in reports):
        raise OSError("damaged")
    return [(report.ok, report.records) for report in reports]


def count_by_report(folder: Path) -> tuple[int, int]:
    found = report(folder / "in")
    if not found.ok:
        raise OSError("damaged")
    return found.records, found.inspected


def build_index(folder: Path) -> list[Any]:
    return [tio.RecordIndex.build(path).offsets.tolist() for path in expand_paths(folder / "in")]


def convert_csv(folder: Path) -> Any:
    tio.convert.from_csv(folder / "in" / "x.csv", folder / "out" / "x", force=True)
    return read_records(folder)


def merge_inputs(folder: Path) -> Any:
    tio.tools.merge(folder / "in", folder / "out" / "x.tfrecord", force=True)
    return read_records(folder)


def text_lines(folder: Path) -> list[bytes]:
    return list(tio.TextLineDataset(str(folder / "in" / "*.csv")))


def infer(folder: Path) -> str:
    return tio.Schema.infer(folder / "in").to_json()


def reader(run: Callable[[Path], Any], prepare: Callable[[Path], object] = inputs) -> Program:
    return Program(run, nothing, prepare, under="in")


LANES = tio.Shuffle(block=5, window=10, lanes=2)
READERS = {
    "dataset": reader(all_ids()),
    "shuffled dataset with indexes": reader(all_ids(shuffle=True, seed=1), indexed_inputs),
    "dataset with lanes": reader(all_ids(shuffle=LANES, seed=1)),
    "compressed dataset": reader(all_ids(), compressed_inputs),
    "shuffled compressed dataset": reader(all_ids(shuffle=True, seed=1), seekable_inputs),
    "shuffled dataset with windows": reader(all_ids(shuffle=True, seed=1), windowed_inputs),
    "shuffled zstd dataset": reader(all_ids(shuffle=True, seed=1), zstd_inputs),
    "stream": reader(stream),
    "compressed stream": reader(stream, compressed_inputs),
    "map-style dataset": reader(map_style),
    "packed rows": reader(packed_rows("n", "int64")),
    "steps": reader(by_step),
    "compressed steps": reader(by_step, seekable_inputs),
    "text lines": reader(text_lines, csv_input),
    "verify": reader(verify),
    "compressed verify": reader(verify, compressed_inputs),
    "repair": reader(dry_repair),
    "compressed repair": reader(dry_repair, compressed_inputs),
    "report": reader(count_by_report),
    "compressed report": reader(count_by_report, compressed_inputs),
    "build indexes": reader(build_index),
    "build compressed indexes": reader(build_index, compressed_inputs),
    "infer": reader(infer),
    "merge": reader(merge_inputs),
    "convert csv": reader(convert_csv, csv_input),
}

# ---- the cache of remote objects ----


class MemoryObject(ChunkedFile):
    """An object that needs no store, in chunks of 4,096 bytes."""

    def __init__(self, data: bytes, stored: StoredChunks) -> None:
        stamp, starts = Stamp(("", ""), len(data), 0), np.arange(0, len(data) + 1, 4096)
        super().__init__("s3://b/a", stamp, starts, 0, cache=ChunkCache(0), stored=stored)
        self._data = np.frombuffer(data, np.uint8)

    def load(self, number: int, size: int) -> Chunk:
        return Chunk(self._data[self.starts[number] :][:size], None)

    def close(self) -> None:
        """Do nothing."""


def fill_block_cache(folder: Path) -> int:
    """Bring an object into memory, through a cache that is too small for it.

    No fault of the cache is an error: the data is downloaded then.
    """
    data = bytes(range(256)) * 64  # four blocks
    cache = folder / "cache" / "blocks"
    most = 42 << 10  # three of them
    stored = StoredChunks(CacheFolder(str(cache), most), "0" * 32)
    file = MemoryObject(data, stored)
    memory = np.zeros(len(data), np.uint8)
    try:
        for half in (0, 8192):  # of the second one, a block removes another
            file.read_ranges(np.array([(half, 8192, half)]), memory)
        assert memory.tobytes() == data
        for number in range(4):
            chunk = stored.load(number, 4096)
            assert chunk is None or chunk.tobytes() == data[4096 * number :][:4096]
    except OSError as error:
        raise AssertionError from error
    return int(memory.sum())


def read_block_cache(folder: Path) -> int:
    """Return the result of the same work again, and check the bound of the cache."""
    cache = folder / "cache" / "blocks"
    total = fill_block_cache(folder)
    assert sum(path.stat().st_blocks * 512 for path in cache.iterdir()) <= 42 << 10
    return total


CACHES = {"block cache": Program(fill_block_cache, read_block_cache, under="cache")}

# ---- programs that allocate more ----


def many_inputs(folder: Path, count: int = 200) -> None:
    (folder / "in").mkdir()
    with tio.ShardedWriter(folder / "in" / "x", 2) as writer:
        for number in range(count):
            writer.write({"n": number, "data": b"x" * number, "list": [1.5] * (number % 7 + 1)})


def many_compressed_inputs(folder: Path) -> None:
    many_inputs(folder)
    tio.tools.compress(folder / "in", folder / "compressed", index=False)
    for path in (folder / "in").iterdir():
        path.unlink()
    for path in (folder / "compressed").iterdir():
        path.rename(folder / "in" / path.name)


def all_features(make: Callable[..., Any], **options: Any) -> Callable[[Path], Any]:
    schema = {**SCHEMA, "data": tio.VarLenFeature("string"), "list": tio.VarLenFeature("float32")}

    def run(folder: Path) -> Any:
        dataset = make(folder / "in", schema, batch_size=64, **options)
        return [[batch["n"].tolist(), batch["list"].values.tolist()] for batch in dataset]

    return run


def rows(folder: Path) -> Any:
    return tio.collate(list(tio.TFRecordDataset(folder / "in", SCHEMA)))["n"].tolist()


def images(folder: Path) -> None:
    (folder / "in").mkdir()
    pixels = np.arange(40 * 50 * 3, dtype=np.uint8).reshape(40, 50, 3)
    with tio.TFRecordWriter(folder / "in" / "x.tfrecord") as writer:
        for kind in ("JPEG", "PNG", "JPEG", "PNG"):
            file = io.BytesIO()
            Image.fromarray(pixels).save(file, kind)
            shape = {"height": 40, "width": 50, "channel": 3}
            boxes = np.array([0.1, 0.2, 0.8, 0.9], np.float32)
            stored = {"image": file.getvalue(), "raw": pixels.tobytes(), "boxes": boxes, **shape}
            writer.write(stored)


def decode_images(folder: Path) -> Any:
    image = tio.ImageFeature(size=(8, 8), crop=(3, 5, 30, 40))
    dataset = tio.TFRecordDataset(folder / "in", {"image": image}, batch_size=4)
    return [batch["image"].tolist() for batch in dataset]


def decode_views(folder: Path) -> Any:
    crop = tio.RandomResizedCrop(group="view")
    schema = {
        "image": tio.ImageFeature(size=(8, 8), augment=crop, jitter=tio.ColorJitter(0.4, 0.4)),
        "second": tio.ImageFeature(
            key="image", size=(6, 5), augment=tio.RandomResizedCrop(group="other")
        ),
        "mask": tio.ImageFeature(key="image", size=(9, 9), augment=crop, filter="nearest"),
        "boxes": tio.BoxFeature(group="view"),
        "raw": tio.RawFeature(
            "uint8", (None, None, 3), ["height", "width", "channel"], size=(7, 8), augment=crop
        ),
    }
    [batch] = tio.TFRecordDataset(folder / "in", schema, batch_size=4)
    masks = batch.valid["boxes"].tolist()
    return [*(batch[name].tolist() for name in schema), masks]


def write_many(folder: Path) -> None:
    with tio.TFRecordWriter(folder / "out" / "x.tfrecord", "gzip", index=True) as writer:
        for number in range(0, 100, 7):
            writer.write({"n": list(range(10 * number + 1)), "data": b"x" * 9 * number})


SLOT = _core.allocate(_core.SLOT_HEADER_BYTES + 10)
SLOT[:] = 0


def core_functions(_: Path) -> None:
    """Call functions of the core that the other programs do not call, and check the results."""
    with patch.object(test_ownership, "reuse_memory", lambda: None):
        for name, test in vars(test_ownership).items():
            if name.startswith("test_"):
                test()
    # After an earlier call of this function that failed, the slot is taken.
    _core.take_slot(SLOT)
    assert _core.lend_slot(SLOT, 10).tolist() == [0] * 10


ALLOCATING = {
    "core functions": Program(core_functions),
    "dataset": reader(all_features(tio.TFRecordDataset), many_inputs),
    "shuffled dataset": reader(
        all_features(tio.TFRecordDataset, shuffle=True, seed=2), many_inputs
    ),
    "dataset with lanes": reader(
        all_features(tio.TFRecordDataset, shuffle=LANES, seed=2), many_inputs
    ),
    "compressed dataset": reader(all_features(tio.TFRecordDataset), many_compressed_inputs),
    "shuffled compressed dataset": reader(
        all_features(tio.TFRecordDataset, shuffle=True, seed=2), many_compressed_inputs
    ),
    "stream": reader(all_features(tio.TFRecordStream), many_inputs),
    "packed rows": reader(packed_rows("list", "float32"), lambda folder: many_inputs(folder, 12)),
    "rows": reader(rows, lambda folder: many_inputs(folder, 10)),
    "images": reader(decode_images, images),
    "views of images": reader(decode_views, images),
    "writer": Program(write_many, read_records),
}

PROGRAMS = {**WRITERS, **TOOLS, **CONVERSIONS, **INDEXES, **CACHES} | {
    f"reading: {name}": program for name, program in READERS.items()
}
PROGRAMS |= {f"allocating: {name}": program for name, program in ALLOCATING.items()}
