"""Every tool, conversion and command on the same files on disk and in a store."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from typer.testing import CliRunner

import torchrec_io as tio
from tests.support.examples import example_of
from tests.support.stores import S3Server
from tests.support.tfrecord import frame
from tests.support.web import WebServer
from torchrec_io._storage.byte_source import read_bytes
from torchrec_io._storage.folders import stamps_in
from torchrec_io._storage.location import Location
from torchrec_io.cli.commands import app

RECORDS = [
    example_of(n=[number], name=[b"name-%03d" % number], data=[b"x" * number])
    for number in range(100)
]


class Places(NamedTuple):
    """The same files on disk and in a store.

    Attributes:
        local: Folder on disk.
        remote: URL of the folder in the store.
        options: Options of the store.
    """

    local: str
    remote: str
    options: dict[str, Any]


def picture(number: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8 + number, 8), (number * 20, 99, 0)).save(file, "PNG")
    return file.getvalue()


def write_sources(folder: Path) -> None:
    """Write the files that are read."""
    for shard in range(3):
        data = b"".join(map(frame, RECORDS[shard::3]))
        (folder / f"x-{shard:05d}-of-00003").write_bytes(data)
    damaged = bytearray(b"".join(map(frame, RECORDS)))
    damaged[2000] ^= 1
    (folder / "damaged.tfrecord").write_bytes(damaged)
    rows = [["n", "name"], *([str(number), f"name {number}"] for number in range(50))]
    for name, delimiter in (("rows.csv", ","), ("rows.tsv", "\t")):
        with (folder / name).open("w", newline="") as file:
            csv.writer(file, delimiter=delimiter).writerows(rows)
    lines = [json.dumps({"n": number, "tags": ["a"] * (number % 3)}) for number in range(50)]
    (folder / "rows.jsonl").write_text("\n".join(lines))
    np.savez(folder / "rows.npz", a=np.arange(20), b=np.ones((20, 3), np.float32))
    pq.write_table(pa.table({"n": range(30), "s": ["x"] * 30}), folder / "rows.parquet")
    for number in range(6):
        place = folder / "images" / ("cat" if number % 2 else "dog")
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.png").write_bytes(picture(number))
    (folder / "images" / "notes.txt").write_text("no image")
    (folder / "images" / ".hidden.png").write_text("no image")
    names = [f"{kind}/{number}.png" for number in range(6) for kind in [("dog", "cat")[number % 2]]]
    table = ["name,label", *(f"{name},{number}" for number, name in enumerate(names))]
    (folder / "labels.csv").write_text("\n".join(table))


@pytest.fixture(scope="module")
def places(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Places:
    folder = tmp_path_factory.mktemp("tools")
    write_sources(folder)
    for inside in (folder, folder / "images", folder / "images/cat", folder / "images/dog"):
        files = tmp_path_factory.mktemp("upload")
        for path in inside.iterdir():
            if path.is_file():
                (files / path.name).write_bytes(path.read_bytes())
        s3.put_files(files, f"tools/{inside.relative_to(folder)}".removesuffix("/."))
    return Places(str(folder), "s3://data/tools", s3.options())


def is_index(name: str) -> bool:
    return name.endswith(".tfidx")  # it has the time of its file


def local_files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): b"" if is_index(path.name) else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def remote_files(url: str, options: dict[str, Any]) -> dict[str, bytes]:
    folder = Location.of(url, options)
    found = {}
    for name in stamps_in(folder, is_recursive=True):
        each = folder.child(name)
        found[name] = b"" if is_index(name) else read_bytes(each.open(), 0, 1 << 30)
        assert each.stamp().size < 1 << 30
    return found


TOOLS: dict[str, Callable[..., Any]] = {
    "merge": lambda at, out, **o: tio.tools.merge(f"{at}/x-*", f"{out}/a b%é.tfrecord", **o),
    "split": lambda at, out, **o: tio.tools.split(f"{at}/x-*", f"{out}/p", [0.7, 0.3], **o),
    "reshard": lambda at, out, **o: tio.tools.reshard(
        f"{at}/x-*", f"{out}/y", max_bytes=4000, compression="gzip", **o
    ),
    "shuffle": lambda at, out, **o: tio.tools.shuffle(f"{at}/x-*", f"{out}/y", num_shards=2, **o),
    "subset": lambda at, out, **o: tio.tools.subset(f"{at}/x-*", f"{out}/s", every=3, **o),
    "compress": lambda at, out, **o: tio.tools.compress(f"{at}/x-*", out, **o),
    "decompress": lambda at, out, **o: tio.tools.decompress(f"{at}/x-*", f"{out}/", **o),
    "repair": lambda at, out, **o: tio.tools.repair(f"{at}/damaged.tfrecord", f"{out}/r", **o),
    "to_parquet": lambda at, out, **o: tio.convert.to_parquet(
        f"{at}/x-*", f"{out}/t", num_shards=2, **o
    ),
    "to_csv": lambda at, out, **o: tio.convert.to_csv(
        f"{at}/x-*", f"{out}/c", exclude=["data"], **o
    ),
    "to_webdataset": lambda at, out, **o: tio.convert.to_webdataset(
        f"{at}/x-*", f"{out}/w", max_bytes=60_000, **o
    ),
    "from_csv": lambda at, out, **o: tio.convert.from_csv(
        [f"{at}/rows.csv", f"{at}/rows.tsv"], f"{out}/c", **o
    ),
    "from_jsonl": lambda at, out, **o: tio.convert.from_jsonl(f"{at}/rows.jsonl", f"{out}/j", **o),
    "from_npz": lambda at, out, **o: tio.convert.from_npz(f"{at}/rows.npz", f"{out}/n", **o),
    "from_parquet": lambda at, out, **o: tio.convert.from_parquet(
        f"{at}/rows.parquet", f"{out}/p", num_shards=2, **o
    ),
    "from_images": lambda at, out, **o: tio.convert.from_images(f"{at}/images", f"{out}/i", **o),
    "from_images with labels": lambda at, out, **o: tio.convert.from_images(
        f"{at}/images", f"{out}/i", labels=f"{at}/labels.csv", **o
    ),
}


def facts_of(result: Any, source: str, target: str) -> str:
    """Return a result as text, without its duration and without names of folders."""
    skipped = {"seconds", "damage_map"}
    fields = {name: value for name, value in vars(result).items() if name not in skipped}
    return repr(fields).replace(target, "OUT").replace(source, "IN")


@pytest.mark.slow
@pytest.mark.parametrize("name", TOOLS)
def test_tools(places: Places, tmp_path: Path, name: str) -> None:
    out = f"s3://data/tools-out/{name}"
    local = TOOLS[name](places.local, tmp_path / "out")
    remote = TOOLS[name](places.remote, out, storage_options=places.options)
    assert remote_files(out, places.options) == local_files(tmp_path / "out")
    expected = facts_of(local, places.local, str(tmp_path / "out"))
    assert facts_of(remote, places.remote, out) == expected


def test_every_tool_is_here() -> None:
    named = {name.split(" ")[0] for name in TOOLS}
    public = {name for name in (*dir(tio.tools), *dir(tio.convert)) if name[0].islower()}
    assert public - named == {"to_files"}


def test_files_are_exported_from_a_store(places: Places, tmp_path: Path) -> None:
    tio.convert.to_files(
        f"{places.remote}/x-*", tmp_path / "out", "data", storage_options=places.options
    )
    assert len(local_files(tmp_path / "out")) == len(RECORDS)
    with pytest.raises(ValueError, match="must be a folder of this machine, got 's3://data/files'"):
        tio.convert.to_files(f"{places.local}/x-*", "s3://data/files", "data")


def test_between_stores_and_disks(places: Places, tmp_path: Path) -> None:
    url = "s3://data/tools-out/upload.tfrecord"
    merged = tio.tools.merge(f"{places.local}/x-*", url, storage_options=places.options)
    assert merged.paths == (url,)
    back = tio.tools.merge(url, f"file://{tmp_path}/back", storage_options=places.options)
    assert back.paths == (f"{tmp_path}/back",)
    assert back.file_bytes == merged.file_bytes == len((tmp_path / "back").read_bytes())


def test_urls_with_secrets(web: WebServer, tmp_path: Path) -> None:
    data = b"".join(map(frame, RECORDS))
    url = web.put("/x.tfrecord?signature=word-5f2a", data)
    done = tio.tools.merge(url, tmp_path / "merged")
    assert (done.records, "5f2a" in repr(done)) == (100, False)
    ended = run("verify", url)
    assert ended.exit_code == 0
    assert "100 records" in ended.output
    assert "5f2a" not in ended.output


# ---- the command line ----


def run(*arguments: str) -> Any:
    ended = CliRunner().invoke(app, list(arguments), prog_name="torchrec-io")
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    return ended


# Commands with IN and OUT in place of folders.


@pytest.fixture
def _environment(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**s3.environment(), "COLUMNS": "300"}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.slow
@pytest.mark.usefixtures("_environment")
@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("verify IN/x-*", "100 records"),
        ("head IN/x-00001-of-00003 --json", "name-001"),
        ("schema IN/x-*", "FixedLenFeature"),
        ("report IN/x-* -o OUT/report.html", "report.html"),
        ("convert IN/images/ OUT/i --num-shards 2", "6 records"),
    ],
)
def test_commands(places: Places, command: str, shown: str) -> None:
    command = command.replace("IN", places.remote).replace("OUT", "s3://data/commands-out")
    ended = run(*command.split(" "))
    assert ended.exit_code == 0
    assert shown in ended.output
