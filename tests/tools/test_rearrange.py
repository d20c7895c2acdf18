"""The tools for whole files, compared with simple models of them."""

from __future__ import annotations

import itertools
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io import CorruptRecordError, TFRecordDataset
from torchrec_io._records.index import RecordIndex
from torchrec_io._records.sequential import iter_records
from torchrec_io._storage.compression import Compression, detect_compression
from torchrec_io._storage.local import LocalFile, head_of
from torchrec_io.tools.rearrange import merge, reshard, split, subset
from torchrec_io.tools.recompress import compress, decompress
from torchrec_io.tools.report import Result
from torchrec_io.tools.shuffling import shuffle

COMPRESSIONS: st.SearchStrategy[Compression | None] = st.sampled_from([None, "gzip", "zlib"])
FILES = st.lists(
    st.tuples(st.lists(st.binary(max_size=40), max_size=9), COMPRESSIONS), min_size=1, max_size=4
)


def records_in(path: str | Path) -> list[bytes]:
    return [record for _, record in iter_records(path)]


def write_all(folder: Path, files: list[tuple[list[bytes], str | None]]) -> list[str]:
    return [
        str(write_tfrecord(folder / f"in{number}", records, compression))
        for number, (records, compression) in enumerate(files)
    ]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.t*")}


def numbered(count: int) -> list[bytes]:
    return [b"record %d" % number for number in range(count)]


# ---- comparison with models ----


@given(files=FILES, compression=COMPRESSIONS)
def test_merging_joins_records(
    files: list[tuple[list[bytes], str | None]], compression: Compression | None
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        out = folder / "new" / "all.tfrecord"
        done = merge(write_all(folder, files), out, compression=compression)
        expected = [record for records, _ in files for record in records]
        assert records_in(out) == expected
        assert detect_compression(head_of(LocalFile(out))) == compression
        assert len(RecordIndex.load(out)) == done.records == len(expected)
        assert done.paths == (str(out),)


@given(files=FILES, num_shards=st.integers(1, 5), compression=COMPRESSIONS)
def test_records_go_to_shards_in_turn(
    files: list[tuple[list[bytes], str | None]], num_shards: int, compression: Compression | None
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = write_all(folder, files)
        done = reshard(paths, folder / "out", num_shards=num_shards, compression=compression)
        records = [record for each, _ in files for record in each]
        assert [records_in(path) for path in done.paths] == [
            records[number::num_shards] for number in range(num_shards)
        ]
        assert done.paths[0] == str(folder / f"out-00000-of-{num_shards:05d}")


@given(files=FILES, seed=st.integers(-(2**70), 2**70))
def test_shuffle_equals_that_of_a_dataset(
    files: list[tuple[list[bytes], str | None]], seed: int
) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr("torchrec_io.tools.shuffling._BUCKET_BYTES", 100)
        folder = Path(name)
        paths = write_all(folder, files)
        done = shuffle(paths, folder / "out", num_shards=2, seed=seed)
        order = list(TFRecordDataset(paths, shuffle=True, seed=seed))
        assert [records_in(path) for path in done.paths] == [order[::2], order[1::2]]
        assert done.records == len(order)
        assert not list(folder.glob(".*"))


def test_shuffle_of_small_records_uses_little_memory(tmp_path: Path) -> None:
    count = 40_000
    path = write_tfrecord(tmp_path / "in", [b"%d" % number for number in range(count)])
    RecordIndex.build(path).save()
    tracemalloc.start()
    try:
        shuffle(path, tmp_path / "out", num_shards=1, index=False)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 150 * count  # an object per record would take 300 bytes


@given(
    counts=st.lists(st.integers(0, 12), min_size=1, max_size=3),
    seed=st.integers(-5, 5),
    fractions=st.sampled_from([[0.6, 0.2, 0.2], [0.5, 0.5], [1.0], [0.1, 0.2, 0.3, 0.4]]),
)
def test_parts_equal_those_of_a_dataset(
    counts: list[int], seed: int, fractions: list[float]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files: list[tuple[list[bytes], str | None]] = [
            ([b"%d of %d" % (i, number) for i in range(count)], None)
            for number, count in enumerate(counts)
        ]
        paths = write_all(folder, files)
        done = split(paths, folder / "out", fractions, seed=seed)
        parts = TFRecordDataset(paths).split(*fractions, seed=seed)
        assert [records_in(path) for path in done.paths] == [list(part) for part in parts]
        assert done.counts == tuple(map(len, parts))


@given(count=st.integers(1, 40), every=st.integers(1, 50))
def test_every_nth_record(count: int, every: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = write_tfrecord(Path(name, "in"), numbered(count))
        subset(path, Path(name, "out"), every=every)
        assert records_in(Path(name, "out")) == numbered(count)[::every]


@pytest.mark.parametrize(
    ("records", "expected"),
    [("[:10]", slice(10)), ("[10%:20%]", slice(4, 8)), ("[-5:]", slice(-5, None))],
)
def test_slices(tmp_path: Path, records: str, expected: slice) -> None:
    paths = [write_tfrecord(tmp_path / "a", numbered(40)[:15]), tmp_path / "b"]
    write_tfrecord(paths[1], numbered(40)[15:], "gzip")
    done = subset(paths, tmp_path / "out", records=records)
    assert records_in(tmp_path / "out") == numbered(40)[expected]
    assert done.records == len(numbered(40)[expected])


def test_sample_is_the_first_part_of_a_split(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "in", numbered(40))
    subset(path, tmp_path / "out", sample=0.1, seed=3)
    assert records_in(tmp_path / "out") == list(TFRecordDataset(path).split(0.1, 0.9, seed=3)[0])


@pytest.mark.parametrize(
    ("compression", "before"), [("gzip", "zlib"), ("zlib", "gzip"), ("zstd", None)]
)
def test_compress_and_decompress(
    tmp_path: Path, compression: Compression, before: str | None
) -> None:
    paths = [write_tfrecord(tmp_path / f"{n}.tfrecord", numbered(n), before) for n in (0, 3, 900)]
    packed = compress(paths, tmp_path / "packed", compression, jobs=2)
    suffix = {"gzip": ".gz", "zlib": ".zz", "zstd": ".zst"}[compression]
    assert [Path(path).name for path in packed.paths] == [f"{p.name}{suffix}" for p in paths]
    assert {detect_compression(head_of(LocalFile(path))) for path in packed.paths[1:]} == {
        compression
    }
    assert packed.records == 903
    again = decompress(packed.paths, tmp_path / "again", jobs=2)
    assert [Path(path).name for path in again.paths] == [path.name for path in paths]
    for number, path in zip((0, 3, 900), again.paths, strict=True):
        assert Path(path).read_bytes() == b"".join(map(frame, numbered(number)))
        assert len(RecordIndex.load(path)) == number


def test_shards_up_to_a_size_keep_the_order(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "in", numbered(50))
    done = reshard(path, tmp_path / "out", max_bytes=200)
    assert len(done.paths) > 3
    assert all(Path(path).stat().st_size <= 200 for path in done.paths)
    assert [record for path in done.paths for record in records_in(path)] == numbered(50)


# ---- number of jobs ----

OPERATIONS: dict[str, Callable[..., Result]] = {
    "merge": lambda paths, out, **how: merge(paths, out / "all.tfrecord", **how),
    "split": lambda paths, out, **how: split(paths, out / "x", [0.5, 0.3, 0.2], **how),
    "reshard": lambda paths, out, **how: reshard(paths, out / "x.t", num_shards=3, **how),
    "shuffle": lambda paths, out, **how: shuffle(paths, out / "x.t", num_shards=3, **how),
    "subset": lambda paths, out, **how: subset(paths, out / "x.tfrecord", every=1, **how),
    "compress": compress,
    "decompress": decompress,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_output_does_not_depend_on_jobs(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchrec_io.tools.record_files.BLOCK_BYTES", 500)
    paths = [write_tfrecord(tmp_path / f"{n}.tfrecord", numbered(n)) for n in (100, 0, 300)]
    found = []
    for jobs in (1, 2):
        out = tmp_path / f"out{jobs}"
        done = OPERATIONS[name](paths, out, jobs=jobs, index=False)
        found.append(contents(out))
        assert sorted(found[-1]) == sorted(str(Path(p).relative_to(out)) for p in done.paths)
    assert found[0] == found[1]
    assert sum(len(records_in(tmp_path / "out1" / file)) for file in found[0]) == 400


# ---- damage ----


@pytest.fixture
def damaged(tmp_path: Path) -> list[Path]:
    """Write two files of 5 records: one with record 1 damaged, one with the length of record 3."""
    one = bytearray(b"".join(map(frame, numbered(5))))
    one[24 + 12] ^= 1
    other = bytearray(b"".join(map(frame, numbered(5))))
    other[3 * 24] ^= 1
    for name, data in (("one.tfrecord", one), ("other.tfrecord", other)):
        (tmp_path / name).write_bytes(data)
    return [tmp_path / "one.tfrecord", tmp_path / "other.tfrecord"]


@pytest.mark.parametrize(
    ("name", "jobs"), [*zip(OPERATIONS, itertools.cycle([1, 2]), strict=False)]
)
def test_damage_is_an_error_and_leaves_nothing(
    tmp_path: Path, damaged: list[Path], name: str, jobs: int
) -> None:
    out = tmp_path / "out"
    for path in damaged:
        with pytest.raises(CorruptRecordError) as caught:
            OPERATIONS[name]([path], out, jobs=jobs)
        assert caught.value.path == str(path)
        assert not out.exists() or not list(out.iterdir())


@pytest.mark.parametrize(
    ("name", "jobs"), [*zip(OPERATIONS, itertools.cycle([2, 1]), strict=False)]
)
def test_skipped_damage_is_counted(
    tmp_path: Path, damaged: list[Path], name: str, jobs: int
) -> None:
    out = tmp_path / "out"
    done = OPERATIONS[name](damaged, out, jobs=jobs, on_error="skip")
    assert done.skipped == len(done.errors)
    found = {Path(str(e.path)).name: (e.record, e.offset, e.reason) for e in done.errors}
    assert found["other.tfrecord"][:2] == (3, 72)
    assert found["other.tfrecord"][2].endswith("; the rest of the file is lost")
    assert found["one.tfrecord"][:2] == (1, 24)
    kept = [record for path in done.paths for record in records_in(path)]
    assert done.records == len(kept)
    assert sorted(kept) == sorted([*numbered(5)[:1], *numbered(5)[2:], *numbered(5)[:3]])


# ---- invalid arguments ----


@pytest.mark.parametrize("name", [name for name in OPERATIONS if not name.endswith("compress")])
def test_inputs_are_not_overwritten(tmp_path: Path, name: str) -> None:
    path = write_tfrecord(tmp_path / "a", numbered(9))
    source = OPERATIONS[name]([path], tmp_path, index=False).paths[0]
    before = contents(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(ValueError, match="overwrite the input"):
        OPERATIONS[name]([source], tmp_path / "link")
    assert contents(tmp_path) == before


def test_compressed_inputs_are_not_overwritten(tmp_path: Path) -> None:
    packed = write_tfrecord(tmp_path / "a.gz", numbered(9), "gzip")
    plain = write_tfrecord(tmp_path / "b", numbered(9))
    for call, path in ((compress, packed), (decompress, plain)):
        with pytest.raises(ValueError, match="overwrite the input"):
            call(path, tmp_path)
        assert records_in(path) == numbered(9)


def test_shards_of_unknown_number_do_not_overwrite_inputs(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "x-00000-of-00001", numbered(9))
    for call in (reshard, shuffle):
        with pytest.raises(ValueError, match="could overwrite the input"):
            call(path, tmp_path / "x", max_bytes=100)


@pytest.mark.parametrize("name", ["", "new/", "new/.."])
def test_shards_need_a_file_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = write_tfrecord(tmp_path / "in", numbered(9))
    monkeypatch.chdir(tmp_path)
    for call in (reshard, shuffle):
        with pytest.raises(ValueError, match="is a folder"):
            call(path, name, num_shards=1)
    assert list(tmp_path.iterdir()) == [path]


def test_two_outputs_of_the_same_name(tmp_path: Path) -> None:
    paths = [tmp_path / "a" / "x", tmp_path / "b" / "x"]
    for path in paths:
        path.parent.mkdir()
        write_tfrecord(path, [])
    with pytest.raises(ValueError, match=r"2 files would be written to .*out/x.gz'"):
        compress(paths, tmp_path / "out")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"every": 1, "sample": 0.5},
        {"every": 0},
        {"sample": 1.0},
        {"sample": 0.0},
        {"records": ":3"},
    ],
)
def test_invalid_selections_of_records(tmp_path: Path, options: dict[str, object]) -> None:
    path = write_tfrecord(tmp_path / "in", numbered(5))
    with pytest.raises(ValueError, match=r"exactly one|positive integer|between 0 and 1|slice"):
        subset(path, tmp_path / "out", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("names", [["a"], ["a", "a"], ["a", "../b"]])
def test_invalid_names_of_parts(tmp_path: Path, names: list[str]) -> None:
    path = write_tfrecord(tmp_path / "in", numbered(5))
    with pytest.raises(ValueError, match=r"names|file name"):
        split(path, tmp_path / "out", [0.5, 0.5], names=names)
