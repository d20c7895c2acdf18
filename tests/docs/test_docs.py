"""Names in the docs exist: files, tests, links and functions."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import torchrec_io as tio
from tests.conftest import ROOT, TESTS
from tests.presets.published import write_imagenet
from tests.support.datasets import write_files
from tests.support.images import encoded, smooth, write_images
from tests.support.pages import headings_of, links_of, public_names, run_page, texts_of_package
from tests.support.tfds_golden import GOLDEN
from torchrec_io._schema.dtypes import DTYPES, stored_dtype
from torchrec_io.cli.commands import app
from torchrec_io.convert.labels import IMAGE_SUFFIXES


def page(name: str) -> str:
    """Return the text of a page of the docs."""
    return (ROOT / "docs" / name).read_text("utf-8")


def test_every_table_of_differences_has_tests() -> None:
    sections = page("differences.md").split("\n## ")[1:]
    assert sum(section.count("\n| ") for section in sections) > 70
    for section in sections:
        [tests] = re.findall(r"^Tests: (.*?)\.$", section, re.MULTILINE | re.DOTALL)
        for test in re.findall("`(.*?)`", tests):
            assert (TESTS / test).is_file(), test


def test_links_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    links = [(page, link) for page in pages for link in links_of(page)]
    assert len(links) > 20
    for page, link in links:
        file, _, heading = link.partition("#")
        target = page.parent / file if file else page
        assert target.exists(), (page, link)
        assert not heading or heading in headings_of(target), (page, link)


def test_the_page_of_formats(tmp_path: Path) -> None:
    names = run_page("formats.md", tmp_path, [], 5)
    assert names["people"].skipped == 1
    assert len(names["labels"]) == 1  # of the last of three images


def test_the_page_of_presets(tmp_path: Path) -> None:
    path = str(write_imagenet(tmp_path / "images"))
    names = run_page("presets.md", tmp_path, [], 6, [path])
    text = page("presets.md")
    # The output of the command line, as the page shows it.
    for line in names["found"].to_python().replace("[6, 8]", "[375, 500]").splitlines():
        assert f"    {line}\n" in text or not line or "'image/" in line
    assert f"    tio.presets.imagenet reads these records: {names['found'].why}.\n" in text
    for name in set(public_names(tio.presets)) - {"Preset"}:
        assert f"`{name}`" in text


def test_the_page_of_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_page("bad-input.md", tmp_path, [5, 8, 11], 3)
    assert len(tio.TFRecordDataset("right.tfrecord")) == 24
    assert names["skipping"].skipped == 2


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("../README.md", [[[4, 3, 224, 224], [4]]]),
        ("index.md", [[[4, 3, 224, 224], [4], [4, 3]]] * 10),
    ],
)
def test_first_examples_run(
    name: str, expected: list[list[list[int]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    image = encoded(smooth(224, 224, seed=1), "JPEG", quality=90)
    record = {"image/encoded": image, "label": 1, "tokens": [1, 2, 3]}
    (tmp_path / "data").mkdir()
    with tio.ShardedWriter("data/train", num_shards=2) as writer:
        for _ in range(4):
            writer.write(record)
    [example] = python_in(page(name))
    assert 'device="cuda"' in example
    steps = []
    names = {"train": lambda *columns: steps.append([list(each.shape) for each in columns])}
    here = example.replace("cuda", "cuda" if torch.cuda.is_available() else "cpu")
    exec(compile(here, name, "exec"), names)  # noqa: S102  # our own page
    assert steps == expected


def test_every_spec_is_in_its_table() -> None:
    [table] = re.findall(
        r"^\| Spec \| Stored values.*\n((?:\|.*\n)+)", page("schemas.md"), re.MULTILINE
    )
    named = re.findall(r"^\| \[?`(\w+)\(", table, re.MULTILINE)
    assert sorted(named) == sorted(n for n in public_names(tio) if n.endswith("Feature"))


def test_every_dtype_is_in_its_table() -> None:
    [table] = re.findall(
        r"^\| Stored as \| Dtypes.*\n((?:\|.*\n)+)", page("schemas.md"), re.MULTILINE
    )
    rows = [row.split("|")[1:3] for row in table.splitlines()[1:]]
    listed = {
        name: stored.strip().replace("bytes", "string")
        for stored, names in rows
        for name in re.findall(r"`(\w+)`", names)
    }
    assert listed == {name: stored_dtype(name) for name in DTYPES}


def test_queues_python_runs(tmp_path: Path) -> None:
    names = run_page("queues.md", tmp_path, [9, 4, 11], 8)
    # What the blocks have no room to say.
    assert names["key"] == f"{names['paths'][-1]}:{offset_of_last(tmp_path)}"
    assert names["tokens"].shape[0] == 4
    assert names["epochs"].num_records == 24


def test_order_table_of_uneven_ranks(tmp_path: Path) -> None:
    text = page("order.md")
    rows = re.findall(r'^\| `"(keep|drop|pad)"` \| (.*) \| ([\d, ]+) \|$', text, re.MULTILINE)
    assert len(rows) == 3
    paths = write_files(tmp_path, [6, 5])
    schema = {"id": tio.FixedLenFeature([], "int64")}
    for uneven, batches, lengths in rows:
        for rank, (cell, length) in enumerate(
            zip(batches.split(" | "), lengths.split(", "), strict=True)
        ):
            dataset = tio.TFRecordDataset(
                paths, schema, batch_size=2, uneven=uneven, rank=rank, world_size=4
            )
            ids = [" ".join(map(str, batch["id"].tolist())) for batch in dataset]
            assert re.findall("`(.*?)`", cell) == ids
            assert len(dataset) == int(length)


def test_gpu_python_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_page("gpu.md", tmp_path, [9, 4, 11], 7)
    text = page("gpu.md")
    if not torch.cuda.is_available():
        *printed, bottleneck = capsys.readouterr().out.splitlines()
        assert all(f"    {line}\n" in text for line in printed)
        assert len(printed) == 5
        assert bottleneck.startswith("the training loop waits ")


def test_statistics_python_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_page("statistics.md", tmp_path, [9, 4, 11], 2)
    assert "\nthe training loop waits " in capsys.readouterr().out


def test_statistics_it_explains_all_numbers() -> None:
    text = page("statistics.md")
    for name in tio.LoadingStats().as_dict():
        assert re.search(rf"^\| .*`{name}`.* \|", text, re.MULTILINE), name


def test_normalizing_python_runs(tmp_path: Path) -> None:
    names = run_page("normalizing.md", tmp_path, [1], 2)
    assert names["stats"]["steps/action"].count == 36


def test_writing_python_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    names = run_page("writing.md", tmp_path / "data", [], 7)
    assert "data/train-00000-of-00004" in capsys.readouterr().out
    assert names["shard"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("data", "even.tfrecord", "kinds.tfrecord", "rewards.tfrecord"),
        *("small.tfrecord.gz", "small.tfrecord.gz.tfidx"),
        *("train.tfrecord", "train.tfrecord.tfidx"),
    ]


def test_tfds_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").symlink_to(GOLDEN)
    names = run_page("tfds.md", tmp_path, [1], 6)
    assert names["rest"].num_records == 12


def test_every_connector_is_in_its_table() -> None:
    text = page("tfds.md")
    [table] = re.findall(r"^\| TFDS connector \|.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    columns = [row.split("|")[1] for row in table.splitlines()[1:]]
    named = set(re.findall(r"`(\w+)", " ".join(columns)))
    connectors = {
        *("Scalar", "Tensor", "Text", "ClassLabel", "Image", "LabeledImage", "BBoxFeature"),
        *("Audio", "Video", "Sequence", "Dataset", "Translation"),
        "TranslationVariableLanguages",
    }
    assert named >= connectors


def test_converting_python_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page("converting.md", tmp_path, [1], 8)
    assert capsys.readouterr().out.count("skipped: more.csv: row ") == 2


def test_converting_functions_are_there() -> None:
    names = re.findall(r"^\| .* \| `tio\.convert\.(\w+)` \|", page("converting.md"), re.MULTILINE)
    assert sorted(names) == [name for name in public_names(tio.convert) if name.startswith("from_")]


def test_converting_suffixes_are_those_looked_for() -> None:
    [sentence] = re.findall(
        r"Files that do not end in (.*?), and", page("converting.md"), re.DOTALL
    )
    assert tuple(re.findall(r"`(\.\w+)`", sentence)) == IMAGE_SUFFIXES


def test_record_files_commands_are_there() -> None:
    text = page("record-files.md")
    rows = re.findall(r"^\| `torchrec-io (\w+) [^`]*` \| `tio\.\w+\.(\w+)` \|", text, re.MULTILINE)
    assert len(rows) == 12
    commands = {c.name or getattr(c.callback, "__name__", "") for c in app.registered_commands}
    assert {name for name, _ in rows} <= commands
    assert {name for _, name in rows} <= {*public_names(tio.tools), *public_names(tio.convert)}


def test_images_python_runs(tmp_path: Path) -> None:
    images = [
        encoded(smooth(70 + 3 * n, 200 - 5 * n, seed=n), "JPEG", quality=90) for n in range(24)
    ]
    path = write_images(tmp_path / "images", images)
    names = run_page("images.md", tmp_path, [], 11, [path])
    box = names["halves"].augment(30, 50, np.random.default_rng(1))
    assert box[2:4] == (30, 30)
    assert box.left in (0, 20)


def test_images_every_argument_is_explained() -> None:
    text = page("images.md")
    for field in dataclasses.fields(tio.ImageFeature):
        assert re.search(rf"\b{field.name}\b", text), field.name


@pytest.mark.parametrize(
    ("page", "column", "count"), [("resuming.md", 1, 10), ("streams.md", 2, 10)]
)
def test_messages_are_those_of_the_package(page: str, column: int, count: int) -> None:
    text = (ROOT / "docs" / page).read_text("utf-8")
    table = re.split(r"^\| (?:Message|Not possible) \|.*\n", text, flags=re.MULTILINE)[1]
    rows = [row.split("|") for row in table.splitlines()[1:] if row.startswith("|")]
    assert len(rows) == count
    constants = texts_of_package()
    for row in rows:
        message = re.findall("`(.*?)`", row[column])[-1]
        assert any(message in constant for constant in constants), message


def python_in(text: str) -> list[str]:
    """Return the blocks of Python in a page."""
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def offset_of_last(folder: Path) -> int:
    path = max(folder.glob("data-*"))
    return int(tio.RecordIndex.build(path).offsets[-1])
