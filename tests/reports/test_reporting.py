"""Reports of files, compared with what is in them."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import torchrec_io as tio
from tests.conftest import TESTS
from tests.support.example_lists import ExampleListWithContext
from tests.support.examples import example_of
from tests.support.images import encoded, noise
from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io.reports.content import FeatureReport, NumberSummary


def feature_of(report: tio.Report, name: str) -> FeatureReport:
    return next(feature for feature in report.features if feature.name == name)


def made(values: dict[str, Any]) -> bytes:
    return example_of(**values)


def write(folder: Path, *files: list[bytes], compression: str | None = None) -> str:
    for number, records in enumerate(files):
        path = folder / f"data-{number:05}-of-{len(files):05}.tfrecord"
        write_tfrecord(path, records, compression)
    return str(folder / "data-*")


# ---- totals ----


@pytest.mark.parametrize("compression", [None, "gzip", "zlib"])
def test_totals(tmp_path: Path, compression: str | None) -> None:
    files = [[example_of(x=[i] * (i % 7)) for i in range(size)] for size in (30, 0, 200)]
    report = tio.report(write(tmp_path, *files, compression=compression))
    assert report.records == report.inspected == 230
    assert report.is_exact
    assert report.ok
    assert [file.records for file in report.files] == [30, 0, 200]
    assert {file.compression for file in report.files} == {compression}
    sizes = [len(record) for file in files for record in file]
    assert report.record_bytes == sum(sizes)
    assert report.record_sizes.minimum == min(sizes)
    assert report.record_sizes.mean == pytest.approx(np.mean(sizes))
    assert report.file_bytes == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert report.kind == "tf.train.Example"
    assert repr(report) == "Report('data', 230 records in 3 files)"


@pytest.mark.parametrize("content", [b"", b"this is no TFRecord file, but some text"])
def test_files_without_records(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    report = tio.report(tmp_path / "x")
    assert (report.records, report.features, report.loop) == (0, (), "")
    assert report.kind == "no records"
    assert report.ok is (content == b"")
    assert "There are no records" in report.to_html()


# ---- features ----

VALUES = st.fixed_dictionaries(
    {},
    optional={
        "ints": st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3), max_size=4),
        "floats": st.lists(st.floats(width=32), max_size=4),
        "texts": st.lists(st.sampled_from(["a", "b", "ü", ""]).map(str.encode), max_size=4),
        "bytes": st.lists(st.binary(max_size=200), max_size=3),
    },
)


def check_numbers(found: NumberSummary, values: npt.NDArray[Any]) -> None:
    """That these are the statistics of the values."""
    assert found.count == len(values)
    assert found.nan == np.isnan(values).sum()
    assert found.positive_infinity == (values == np.inf).sum()
    assert found.negative_infinity == (values == -np.inf).sum()
    assert found.zeros == (values == 0).sum()
    assert found.rank_error == 0
    finite = np.sort(values[np.isfinite(values)])
    if not len(finite):
        assert (found.minimum, found.maximum, found.mean, found.std) == (None,) * 4
        assert (found.quantiles, found.histogram) == ({}, None)
        return
    assert (found.minimum, found.maximum) == (finite[0].item(), finite[-1].item())
    assert type(found.maximum) is type(finite[0].item())
    numbers = finite.astype(np.float64)
    scale = max(1.0, float(np.abs(numbers).max()))
    assert found.mean == pytest.approx(numbers.mean(), abs=1e-9 * scale)
    assert found.std == pytest.approx(numbers.std(), abs=1e-6 * scale)
    for rank, value in found.quantiles.items():
        assert float(value) in numbers
        # At most this share of the values is smaller, and at least this share is not larger.
        assert (numbers < value).mean() <= rank <= (numbers <= float(value)).mean() + 1e-12
    histogram = found.histogram
    if histogram is None:
        return
    assert sum(histogram.counts) + histogram.below + histogram.above == len(finite)
    if len(histogram.counts) > 1:
        edges = np.array(histogram.edges)
        inside = numbers[(numbers >= edges[0]) & (numbers <= edges[-1])]
        assert list(histogram.counts) == np.histogram(inside, edges)[0].tolist()


@given(st.lists(VALUES, min_size=1, max_size=40), st.integers(0, 40), st.sampled_from([1, 2]))
def test_features_of_any_records(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], cut: int, jobs: int
) -> None:
    kinds = {"ints": "int64", "floats": "float", "texts": "bytes", "bytes": "bytes"}
    rows = [{name: values for name, values in row.items() if values} for row in rows]
    records = [tio.encode_example(row, kinds=kinds) for row in rows]
    folder = tmp_path_factory.mktemp("data")
    report = tio.report(write(folder, records[:cut], records[cut:]), jobs=jobs)
    assert report.records == len(rows)
    if not any(rows):
        return
    names = {name for row in rows for name in row}
    assert {feature.name for feature in report.features} == names
    for feature in report.features:
        columns = [row.get(feature.name, []) for row in rows]
        values = [value for column in columns for value in column]
        assert feature.owners == len(rows)
        assert feature.present == sum(map(bool, columns))
        assert feature.counts is not None
        assert feature.counts.count == len(rows)
        assert feature.counts.maximum == max(map(len, columns))
        if feature.numbers is not None:
            check_numbers(feature.numbers, np.array(values))
        if feature.lengths is not None:
            assert feature.lengths.count == len(values)
            assert feature.lengths.maximum == max(map(len, values))
        if feature.values is not None:
            expected = Counter(values)
            assert feature.values.distinct == len(expected)
            listed = sum(top.count for top in feature.values.top)
            assert listed + feature.values.others == len(values)
            assert [top.count for top in feature.values.top] == sorted(
                expected.values(), reverse=True
            )[:10]


@pytest.mark.parametrize("kind", ["normal", "integers", "skewed"])
def test_many_values_have_quantiles_within_the_stated_error(tmp_path: Path, kind: str) -> None:
    random = np.random.default_rng(7)
    made: dict[str, npt.NDArray[Any]] = {
        "normal": random.normal(size=200_000).astype(np.float32),
        "integers": random.integers(0, 1000, 200_000),
        "skewed": np.exp(random.normal(0, 3, 200_000)).astype(np.float32),
    }
    values = made[kind]
    records = [tio.encode_example({"x": part}) for part in np.array_split(values, 50)]
    found = feature_of(tio.report(write(tmp_path, records)), "x").numbers
    assert found is not None
    assert 0 < found.rank_error < 0.005
    ordered = np.sort(values)
    for rank, value in found.quantiles.items():
        low = np.searchsorted(ordered, value, "left") / len(ordered)
        high = np.searchsorted(ordered, value, "right") / len(ordered)
        assert low - 2 * found.rank_error <= rank <= high + 2 * found.rank_error
    assert found.histogram is not None
    assert found.histogram.is_logarithmic is (kind == "skewed")
    assert sum(found.histogram.counts) + found.histogram.below + found.histogram.above == 200_000


def test_a_sample_is_like_all(tmp_path: Path) -> None:
    records = [example_of(x=[i], turn=[i % 10]) for i in range(20_000)]
    paths = write(tmp_path, *[records[at : at + 2000] for at in range(0, 20_000, 2000)])
    report = tio.report(paths, max_records=1000)
    assert report.records == 20_000
    assert not report.is_exact
    assert 900 <= report.inspected <= 1000
    x = feature_of(report, "x")
    assert x.numbers is not None
    assert x.numbers.quantiles[0.5] == pytest.approx(10_000, rel=0.02)
    assert x.numbers.maximum is not None
    assert x.numbers.maximum > 19_900
    # Values that take turns are all met, though the distances are a multiple of their number.
    turn = feature_of(report, "turn").values
    assert turn is not None
    assert {top.value for top in turn.top} == set(range(10))
    assert max(top.count for top in turn.top) < 150
    # The same records are chosen each time.
    assert feature_of(tio.report(paths, max_records=1000), "turn").values == turn
    assert "a sample: 1,000 of 20,000 records" in report.to_html()


def test_no_more_than_256_mib_are_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchrec_io.reports.record_choice._MOST_BYTES", 100_000)
    records = [example_of(x=[b"x" * 500]) for _ in range(1000)]
    assert 150 < tio.report(write(tmp_path, records)).inspected < 200
    assert tio.report(write(tmp_path, records), max_records=None).inspected == 1000


def test_remarks_and_left_out_features(tmp_path: Path) -> None:
    records = [
        example_of(
            same=[7], id=[i], bad=[float("nan"), float("inf")], kinds=[1] if i % 2 else [1.5]
        )
        for i in range(50)
    ]
    report = tio.report(write(tmp_path, records))
    assert "constant" in feature_of(report, "same").remarks
    assert "all different" in feature_of(report, "id").remarks
    assert feature_of(report, "bad").remarks == ("has NaN", "has infinities")
    kinds = feature_of(report, "kinds")
    assert (kinds.role, kinds.kind, kinds.spec) == ("unread", "mixed", "")
    assert "Left out of the schema" in report.to_html()
    assert '# "kinds" is left out: it has float and int64 values' in report.schema_python
    assert '"kinds":' not in report.schema_python


# ---- labels ----


def test_names_of_classes_from_the_records(tmp_path: Path) -> None:
    names = [b"cat", b"dog"]
    records = [
        made({"image/class/label": [i % 2], "image/class/text": [names[i % 2]]}) for i in range(100)
    ]
    report = tio.report(write(tmp_path, records))
    assert report.label == "image/class/label"
    values = feature_of(report, "image/class/label").values
    assert values is not None
    assert [(top.value, top.name) for top in values.top] == [(0, "cat"), (1, "dog")]
    assert report.label_order is not None


def test_names_of_classes_from_a_conversion(tmp_path: Path) -> None:
    for name in ("bee", "wasp"):
        (tmp_path / "in" / name).mkdir(parents=True)
        for number in range(4):
            Image.fromarray(noise(8, 9, seed=number)).save(tmp_path / "in" / name / f"{number}.png")
    tio.convert.from_images(tmp_path / "in", tmp_path / "out", num_shards=2, index=False)
    report = tio.report(tmp_path / "out-*-of-*")
    values = feature_of(report, "image/class/label").values
    assert values is not None
    assert [top.name for top in values.top] == ["bee", "wasp"]


def test_names_of_classes_and_label_of_tfds() -> None:
    report = tio.report(TESTS / "data" / "tfds" / "labels" / "1.0.0")
    assert report.label == "label"
    names = {}
    for feature in report.features:
        assert feature.role == "class"
        assert feature.values is not None
        names[feature.name] = {top.value: top.name for top in feature.values.top}
    assert names["label"][0] == "zero"
    assert names["listed"] == names["listed"] | {-1: None, 0: "ant"}
    assert any("from_tfds" in note for note in report.notes)


def test_a_label_can_be_given(tmp_path: Path) -> None:
    records = [example_of(label=[i % 2], group=[i // 50], text=[b"t"]) for i in range(200)]
    paths = write(tmp_path, records[:100], records[100:])
    report = tio.report(paths)
    assert report.label_order is not None
    assert not report.label_order.is_sorted
    report = tio.report(paths, label="group")
    assert report.label_order is not None
    assert report.label_order.is_sorted
    assert "shuffle=True" in report.loop
    with pytest.raises(ValueError, match=r"label must be the name of a feature \('group', 'label'"):
        tio.report(paths, label="nothing")


def test_invalid_arguments(tmp_path: Path) -> None:
    paths = write(tmp_path, [example_of(x=[1])])
    with pytest.raises(ValueError, match="max_records must be a positive integer, got 0"):
        tio.report(paths, max_records=0)
    with pytest.raises(ValueError, match="jobs must be a positive integer, got 0"):
        tio.report(paths, jobs=0)
    with pytest.raises(FileNotFoundError):
        tio.report(tmp_path / "nothing")


# ---- kinds of records ----


def test_sequence_examples(tmp_path: Path) -> None:
    records = [
        tio.encode_sequence_example(
            context={"id": i}, sequence={"tokens": [[t, t] for t in range(1 + i % 5)]}
        )
        for i in range(40)
    ]
    report = tio.report(write(tmp_path, records))
    assert report.kind == "tf.train.SequenceExample"
    tokens = feature_of(report, "tokens")
    assert tokens.part == "sequence"
    assert tokens.steps is not None
    assert (tokens.steps.minimum, tokens.steps.maximum) == (1, 5)
    assert tokens.counts is not None
    assert (tokens.counts.minimum, tokens.counts.maximum) == (2, 2)
    assert tokens.numbers is not None
    assert tokens.numbers.count == sum(2 * (1 + i % 5) for i in range(40))
    assert feature_of(report, "id").part == "context"
    run_loop(report)


@given(
    st.lists(
        st.tuples(
            st.lists(st.lists(st.integers(-9, 9), max_size=3), max_size=4),
            st.lists(st.binary(max_size=4), max_size=3),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_features_of_any_sequences(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[list[list[int]], list[bytes]]]
) -> None:
    records = [
        tio.encode_sequence_example(
            context={"name": name},
            sequence={"steps": steps},
            kinds={"name": "bytes", "steps": "int64"},
        )
        for steps, name in rows
    ]
    report = tio.report(write(tmp_path_factory.mktemp("data"), records))
    assert report.unfit == 0
    for feature in report.features:
        if feature.name == "steps" and feature.role != "unread":
            lists = [step for steps, _ in rows for step in steps]
            assert feature.steps is not None
            assert feature.steps.count == len(rows)
            assert feature.steps.maximum == max(len(steps) for steps, _ in rows)
            assert feature.counts is not None
            assert feature.counts.count == len(lists)
            values = [value for step in lists for value in step]
            assert feature.numbers is not None
            assert feature.numbers.count == len(values)
            assert feature.values is not None
            assert feature.values.distinct == len(set(values))
            assert feature.present == sum(bool(steps) for steps, _ in rows)


def test_ranking_lists(tmp_path: Path) -> None:
    records = []
    for i in range(30):
        message = ExampleListWithContext()
        message.context.MergeFromString(example_of(query=[b"q%d" % i]))
        for j in range(1 + i % 4):
            message.examples.add().MergeFromString(example_of(relevance=[j], f1=[float(j)]))
        records.append(message.SerializeToString())
    report = tio.report(write(tmp_path, records))
    assert report.kind == "ExampleListWithContext (ELWC)"
    [structure] = report.structures
    assert (structure.kind, structure.records) == ("lists", 30)
    assert (structure.sizes.minimum, structure.sizes.maximum) == (1, 4)
    relevance = feature_of(report, "relevance")
    assert relevance.part == "examples"
    assert relevance.owners == sum(1 + i % 4 for i in range(30))
    assert feature_of(report, "query").part == "context"
    assert "Lists of examples" in report.to_html()
    run_loop(report)


def test_episodes(tmp_path: Path) -> None:
    records = [
        made(
            {
                "steps/is_first": [1] + [0] * (i % 6 + 1),
                "steps/reward": [0.5] * (i % 6 + 2),
                "episode": [i],
            }
        )
        for i in range(60)
    ]
    report = tio.report(write(tmp_path, records))
    [structure] = report.structures
    assert (structure.kind, structure.group) == ("episodes", "steps")
    assert (structure.sizes.minimum, structure.sizes.maximum) == (2, 7)
    assert structure.features == ("steps/is_first", "steps/reward")
    assert "Episodes" in report.to_html()


@pytest.mark.parametrize(
    ("records", "kind"),
    [
        ([b"a line of text", b"another line of text"], "plain text"),
        ([bytes(range(128, 200)), bytes(range(130, 222))], "bytes of unknown meaning"),
    ],
)
def test_records_without_features(tmp_path: Path, records: list[bytes], kind: str) -> None:
    report = tio.report(write(tmp_path, records))
    assert report.kind == kind
    assert report.features == ()
    [other] = report.others
    assert (other.kind, other.count) == (kind, 2)
    assert len(other.samples) == 2
    assert (report.schema_python, report.schema_json) == ("", "")
    assert report.inspected == 2
    run_loop(report)


def test_records_of_several_kinds(tmp_path: Path) -> None:
    records = [example_of(x=[i]) for i in range(5)] + [b"a line of text"] * 9
    report = tio.report(write(tmp_path, records))
    assert report.kind == "tf.train.Example"
    assert report.unfit == 9
    assert report.inspected == 14
    assert any("could not be parsed" in note for note in report.notes)
    [x] = report.features
    assert x.present == 5
    assert [(other.kind, other.count) for other in report.others] == [("plain text", 9)]
    report = tio.report(write(tmp_path, records + [b"a line of text"] * 90))
    assert report.kind == "plain text"


def test_blank_names_are_named(tmp_path: Path) -> None:
    records = [example_of(**{"": [1], " ": [2], "\n": [3]})] * 3
    page = tio.report(write(tmp_path, records)).to_html()
    assert page.count("(blank name)") >= 4
    assert r"\n" in page


@pytest.mark.slow
def test_real_files_of_all_kinds(wild: Any) -> None:
    paths = [path for path in wild.path.rglob("*") if path.is_file() and path.stat().st_size < 2e6]
    kinds = set()
    for path in sorted(paths):
        if path.suffix in (".md", ".json", ".idx"):
            continue
        report = tio.report(path, max_records=50)
        kinds.add(report.kind)
        json.loads(report.to_json())
        assert report.to_html()
    assert len(kinds) > 4


# ---- damage ----


def test_damage(tmp_path: Path) -> None:
    records = [example_of(x=[i]) for i in range(300)]
    paths = write(tmp_path, records[:100], records[100:200], records[200:])
    first, _, last = sorted(tmp_path.iterdir())
    content = bytearray(first.read_bytes())
    content[50 * len(frame(records[0])) + 14] ^= 1
    first.write_bytes(content)
    last.write_bytes(last.read_bytes()[: 60 * len(frame(records[200])) + 5])
    report = tio.report(paths)
    assert not report.ok
    assert [file.is_valid for file in report.files] == [False, True, False]
    assert report.files[0].damaged == 1
    assert report.files[0].damage.index(True) == pytest.approx(60, abs=2)
    assert report.files[2].lost == "the file ends inside the header of a record"
    assert report.records == 100 + 100 + 60
    assert report.inspected == 259
    numbers = feature_of(report, "x").numbers
    assert numbers is not None
    assert numbers.count == 259
    assert 'on_error="skip"' in report.loop
    run_loop(report)
    assert "1 damaged record" in report.to_html()


# ---- duplicates ----


@pytest.mark.parametrize("most", [None, 500])
def test_duplicates(tmp_path: Path, most: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if most is not None:
        monkeypatch.setattr("torchrec_io.reports.duplicates.MOST_EXACT", most)
    records = [example_of(x=[i % 900]) for i in range(1000)]
    report = tio.report(
        write(tmp_path, records[:500], records[500:]), max_records=10, duplicates=True
    )
    found = report.duplicates
    assert found is not None
    assert found.records == 1000
    assert report.is_exact
    assert found.is_exact is (most is None)
    if most is None:
        assert found.distinct == 900
        assert len(found.examples) == 10
        for group in found.examples:
            (path, number), (other, same) = group
            assert number == same + 100 - 500
            assert path.endswith("data-00000-of-00002.tfrecord")
            assert other.endswith("data-00001-of-00002.tfrecord")
    else:
        assert abs(found.distinct - 900) < 30
    assert tio.report(tmp_path).duplicates is None


# ---- images ----


def test_images(tmp_path: Path) -> None:
    kinds = ["PNG", "JPEG"]
    records = [
        example_of(image=[encoded(noise(20, 30, seed=i), kinds[i % 2])], label=[i % 3])
        for i in range(60)
    ]
    records.append(example_of(image=[encoded(noise(99, 7))], label=[0]))
    records.append(example_of(image=[b"\xff\xd8\xff broken"], label=[1]))
    report = tio.report(write(tmp_path, records))
    images = feature_of(report, "image").images
    assert images is not None
    assert images.count == 62
    assert images.unreadable == 1
    assert images.formats == {"PNG": 31, "JPEG": 31}
    assert images.sizes[0] == (30, 20, 60)
    assert images.distinct_sizes == 2
    notes = " ".join(thumbnail.note for thumbnail in images.thumbnails)
    assert "largest" in notes
    assert "smallest" in notes
    assert [each.record for each in images.thumbnails if each.is_broken] == [61]
    for thumbnail in images.thumbnails:
        assert thumbnail.label == str([0, 1][thumbnail.record == 61] if thumbnail.record > 59
                                      else thumbnail.record % 3)  # fmt: skip
        if thumbnail.uri is not None:
            assert thumbnail.uri.startswith("data:image/")


EDGES = [f"image/object/bbox/{edge}" for edge in ("xmin", "ymin", "xmax", "ymax")]


def test_boxes_of_objects(tmp_path: Path) -> None:
    """Only boxes within the image that have an area are drawn, and only over the image."""
    nan = float("nan")
    stored = [
        [(0.25, 0.5, 0.75, 1.0), (0.0, 0.0, 1.0001, 0.5)],
        [(0.5, 0.1, 0.5, 0.2), (0.1, 0.6, 0.2, 0.4), (nan, 0.0, 1.0, 1.0), (-0.1, 0.0, 1.0, 1.0)],
        [(10.0, 20.0, 90.0, 80.0)],  # pixels
        [],
        [(0.01, 0.01, 0.99, 0.99)] * 150,
    ]
    records = []
    for boxes in stored:
        values: dict[str, Any] = {
            name: [box[at] for box in boxes] for at, name in enumerate(EDGES) if boxes
        }
        values["image/encoded"] = [encoded(noise(60, 90), "JPEG")]
        values["image/object/mask"] = [encoded(noise(6, 9))]
        records.append(made(values))
    values[EDGES[3]] = [0.5]  # one edge of the last 149 boxes is missing
    report = tio.report(write(tmp_path, [*records, made(values)]))
    images, masks = (
        feature_of(report, f"image/{each}").images for each in ("encoded", "object/mask")
    )
    assert images is not None
    found = [(each.stored_boxes, len(each.boxes)) for each in images.thumbnails]
    assert found == [(2, 2), (4, 0), (1, 0), (0, 0), (150, 100), (150, 1)]
    assert images.thumbnails[0].boxes[0] == (0.25, 0.5, 0.75, 1.0)
    assert masks is not None
    assert not any(each.stored_boxes for each in masks.thumbnails)
    page = report.to_html()
    assert page.count('<rect x="22.50" y="30.00" width="45.00" height="30.00"></rect>') == 1
    assert "4 boxes, 0 drawn" in page
    assert "Boxes that reach out of the image" in page


def test_captions_of_images_are_short(tmp_path: Path) -> None:
    """What all images have in common is not repeated, and files are numbers."""
    records = [example_of(image=[encoded(noise(20, 30))], label=[5]) for _ in range(2)]
    page = tio.report(write(tmp_path, records, records)).to_html()
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", page, re.DOTALL)
    texts = [" ".join(re.sub(r"<.*?>", " ", each).split()) for each in captions]
    assert texts == [f"5 record {record}, file {file}" for file in (1, 2) for record in (0, 1)]
    assert "4 PNG images, 30\u00d720 pixels." in page


# ---- texts ----


def test_texts_that_are_nearly_all_different_are_shown_as_samples(tmp_path: Path) -> None:
    records = [
        example_of(
            caption=[b"caption %d" % (i % 90)], color=[b"red", b"blue"][i % 2 : i % 2 + 1],
            few=[b"%d" % min(i, 9)], key=[b"\xff\x00" + bytes([i])],
        )
        for i in range(100)
    ]  # fmt: skip
    report = tio.report(write(tmp_path, records))
    captions = feature_of(report, "caption").samples
    assert len(captions) == 5
    assert {*captions} <= {f"caption {i}" for i in range(90)}
    assert feature_of(report, "key").samples[0].startswith(r"\xff\x00")
    assert not feature_of(report, "color").samples
    assert not feature_of(report, "few").samples
    page = report.to_html()
    assert "Some of 90 different values" in page
    assert "Most frequent" not in page
    assert captions[0] in page


# ---- text to copy ----


def run_loop(report: tio.Report) -> None:
    """Run the training loop of a report, and count its batches."""
    source = report.loop.replace("    ...", "    batches.append(batch)")
    assert source != report.loop
    names: dict[str, Any] = {"batches": []}
    exec(compile(source, "loop", "exec"), names)  # noqa: S102  # our own code
    assert names["batches"]


def test_the_schema_and_the_loop_run(tmp_path: Path) -> None:
    records = [
        example_of(
            image=[encoded(noise(20 + i % 2, 30), "PNG")],
            label=[i % 3],
            text=[b"t"],
            v=[1] * (i % 4),
        )
        for i in range(150)
    ]
    folder = tmp_path / 'a "folder" [of] files'
    folder.mkdir()
    report = tio.report([write(folder, records[:70], records[70:]).replace("[of]", "[[]of]")])
    run_loop(report)
    names: dict[str, Any] = {}
    exec(compile(report.schema_python, "schema", "exec"), names)  # noqa: S102  # our own code
    assert names["schema"] == tio.Schema.from_json(report.schema_json)
    assert 'labels = batch["label"]' in report.loop


def test_presets_are_named(tmp_path: Path) -> None:
    records = [
        made(
            {
                "image/encoded": [encoded(noise(8, 8), "JPEG")],
                "image/class/label": [i],
                "image/class/synset": [b"n01440764"],
                "image/class/text": [b"tench"],
            }
        )
        for i in range(4)
    ]
    report = tio.report(write(tmp_path, records))
    assert any("tio.presets.imagenet" in note for note in report.notes)
    assert "tio.presets.imagenet" in report.schema_python


# ---- outputs ----


def test_json_has_everything_but_pictures(tmp_path: Path) -> None:
    records = [example_of(image=[encoded(noise(8, 8))], x=[float("inf")]) for _ in range(5)]
    report = tio.report(write(tmp_path, records))
    found = json.loads(report.to_json(indent=1))
    assert found["records"] == 5
    assert found["ok"] is True
    [image, x] = found["features"]
    assert "uri" not in image["images"]["thumbnails"][0]
    assert x["numbers"]["positive_infinity"] == 5
    assert x["numbers"]["mean"] is None
    assert found["files"][0]["path"] == report.files[0].path


def test_pages_are_saved_whole_and_not_over_others(tmp_path: Path) -> None:
    report = tio.report(write(tmp_path, [example_of(x=[1])]))
    page = tmp_path / "out" / "report.html"
    report.save(page)
    assert page.read_text("utf-8") == report.to_html()
    page.write_text("other")
    with pytest.raises(FileExistsError, match="the output exists"):
        report.save(page)
    assert page.read_text() == "other"
    report.save(page, force=True)
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")
    assert [path.name for path in page.parent.iterdir()] == ["report.html"]


def test_notebooks_show_the_page_in_a_frame(tmp_path: Path) -> None:
    report = tio.report(write(tmp_path, [example_of(x=[1], text=[b'"><script>'])]))
    shown = report._repr_html_()
    assert shown.startswith("<iframe sandbox ")
    assert shown.count("<") == 2  # the frame and its end
    assert shown.count('"') == 6  # those of three attributes


@pytest.mark.parametrize("name", ["datasketches", "jinja2"])
def test_missing_packages_are_named(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(
        ImportError, match=rf"the package {name}: pip install torchrec-io\[report\]"
    ):
        tio.report(write(tmp_path, [example_of(x=[1])]))


class _Sizes(tio.tools.Watcher):
    """Watcher that counts bytes."""

    def __init__(self) -> None:
        self.totals: list[int] = []
        self.done = 0

    def started(self, total: int) -> None:
        self.totals.append(total)

    def advanced(self, size: int, records: int) -> None:
        del records
        self.done += size


def test_progress_counts_all_bytes(tmp_path: Path) -> None:
    sizes = _Sizes()
    paths = write(tmp_path, [example_of(x=[i]) for i in range(500)])
    tio.report(paths, watcher=sizes, jobs=2)
    # The file is indexed, then its records are read.
    size = Path(tmp_path, "data-00000-of-00001.tfrecord").stat().st_size
    assert sizes.done == sizes.totals[-1] == 2 * size


# ---- sets of files ----


def write_sets(folder: Path) -> None:
    """Write sets for validation, testing and training, in order of the names."""
    sizes = {"test": 30, "train": 200, "val": 50}
    for value, (name, size) in enumerate(sizes.items()):
        for shard in range(2):
            own = {f"only_{name}": [1]}
            records = [example_of(x=[value], label=[i % 3], **own) for i in range(shard, size, 2)]
            write_tfrecord(folder / f"{name}-{shard:05}-of-00002.tfrecord", records)


@pytest.mark.parametrize("paths", ["", "*", "*-*-of-?????.tfrecord", None])
def test_each_set_is_reported_by_itself(tmp_path: Path, paths: str | None) -> None:
    write_sets(tmp_path)
    report = tio.report(tmp_path.iterdir() if paths is None else tmp_path / paths)
    reports = [report, *report.other_sets]
    assert [each.title for each in reports] == ["train", "test", "val"]
    assert [each.records for each in reports] == [200, 30, 50]
    assert [len(each.files) for each in reports] == [2, 2, 2]
    for each, value in zip(reports, (1, 0, 2), strict=True):
        numbers = feature_of(each, "x").numbers
        assert numbers is not None
        assert (numbers.minimum, numbers.maximum) == (value, value)
        assert {each.name for each in each.features} == {"x", "label", f"only_{each.title}"}
        source = f'    "{tmp_path}/{each.title}-*-of-00002.tfrecord",\n'
        assert source in each.loop
        namespace: dict[str, Any] = {}
        exec(each.loop, namespace)  # noqa: S102
        assert sum(len(batch["x"]) for batch in namespace["loader"]) == each.records
    found = report.to_dict()
    assert [other["records"] for other in found["other_sets"]] == [30, 50]


def test_a_page_of_several_sets(tmp_path: Path) -> None:
    write_sets(tmp_path)
    page = tio.report(tmp_path, duplicates=True).to_html()
    assert [text for text in ("train", "test", "val") if f'class="name">{text}</bdi></h1>' in page]
    identifiers = re.findall(r' id="([^"]*)"', page)
    assert len(identifiers) == len(set(identifiers))
    assert set(re.findall(r'href="#([^"]*)"', page)) <= set(identifiers)
    assert set(re.findall(r'aria-labelledby="([^"]*)"', page)) <= set(identifiers)
    assert [page.count(f'<a href="#{at}top">') for at in ("", "set-2-", "set-3-")] == [1, 1, 1]
    assert [page.count(f"only_{name}</bdi>") for name in ("train", "test", "val")] == [2, 2, 2]


def test_a_page_shows_the_first_sets(tmp_path: Path) -> None:
    report = tio.report(write(tmp_path, [example_of(x=[1])]))
    page = dataclasses.replace(report, other_sets=(report,) * 60).to_html()
    assert page.count("<h1>") == 50
    assert "The first 50 sets are shown below." in page


def test_damage_of_another_set(tmp_path: Path) -> None:
    write_sets(tmp_path)
    path = tmp_path / "val-00001-of-00002.tfrecord"
    path.write_bytes(path.read_bytes()[:-3])
    report = tio.report(tmp_path)
    assert not report.ok
    assert report.damaged_files == ()
    assert [other.ok for other in report.other_sets] == [True, False]
    with pytest.raises(ValueError, match="would overwrite the input"):
        report.save(path, force=True)


def test_titles_of_sets_differ(tmp_path: Path) -> None:
    records = [example_of(x=[1])]
    write_tfrecord(tmp_path / "a-00000-of-00001.tfrecord", records)
    write_tfrecord(tmp_path / "a-00000-of-00001.tfrecord.gz", records, "gzip")
    report = tio.report(tmp_path)
    assert [report.title, report.other_sets[0].title] == [
        "a-00000-of-00001.tfrecord", "a-00000-of-00001.tfrecord.gz",
    ]  # fmt: skip
    (tmp_path / "b").mkdir()
    (tmp_path / "a-00000-of-00001.tfrecord.gz").rename(tmp_path / "b" / "a-00000-of-00001.tfrecord")
    report = tio.report([tmp_path / "b", tmp_path])
    assert [report.title, report.other_sets[0].title] == ["b/a", "a"]


def test_code_reads_no_other_files(tmp_path: Path) -> None:
    """A pattern that would match files of the folder that were not given is not used."""
    for number in range(12):
        for name in ("train", "extra"):
            write_tfrecord(tmp_path / f"{name}{number}.tfrecord", [example_of(x=[number])])
    assert f'"{tmp_path}/train*.tfrecord",' in tio.report(tmp_path / "train*").loop
    for path in tmp_path.glob("extra*"):
        path.rename(tmp_path / f"train_{path.name}")
    paths = [tmp_path / f"train{number}.tfrecord" for number in range(12)]
    assert all(f'        "{path}",\n' in tio.report(paths).loop for path in paths)


def test_progress_while_a_large_file_is_indexed(tmp_path: Path) -> None:
    class Steps(_Sizes):
        """Watcher that keeps the bytes known and done at each call."""

        def __init__(self) -> None:
            super().__init__()
            self.seen: list[tuple[int, int]] = []

        def advanced(self, size: int, records: int) -> None:
            super().advanced(size, records)
            self.seen.append((self.totals[-1], self.done))

    write_tfrecord(tmp_path / "x.tfrecord", [example_of(x=[b"x" * 1000])] * 40_000)
    steps = Steps()
    tio.report(tmp_path / "x.tfrecord", max_records=10, watcher=steps)
    size = (tmp_path / "x.tfrecord").stat().st_size
    assert steps.totals[0] == size < steps.totals[1]
    assert any(total == size and 0 < done < size for total, done in steps.seen)


def test_progress_of_several_sets(tmp_path: Path) -> None:
    write_sets(tmp_path)
    sizes = _Sizes()
    tio.report(tmp_path, watcher=sizes)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert sizes.totals == [size, 2 * size]
    assert sizes.done == 2 * size
