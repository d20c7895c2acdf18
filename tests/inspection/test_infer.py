"""Schema.infer: findings, specs, and parsing the data with the result."""

from __future__ import annotations

import io
import math
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import torchrec_io as tio
from tests.support.inferring import (
    Values,
    example_of,
    finding,
    infer,
    rows_of,
    sequence_of,
)
from tests.support.tfrecord import write_tfrecord
from tests.support.wire import delimited, entry, example, int_feature, varint
from torchrec_io.inspection.inference import Finding

# ---- any records ----

scalars: dict[str, st.SearchStrategy[Any]] = {
    "bytes": st.binary(max_size=5) | st.sampled_from([b"text", b"BM", b"\xff\xd8\xff", b"GIF89a"]),
    "float": st.floats(width=32),
    "int64": st.integers(-(2**63), 2**63 - 1) | st.integers(0, 1),
}
NAMES = ["a", "b", "c", "\x1b[31m", "é", ""]


@st.composite
def habits(draw: st.DrawFn) -> Callable[[st.DrawFn], Values | None]:
    """What a feature is like in all records: often of one kind and number, seldom missing."""
    kinds = draw(
        st.lists(st.sampled_from(["bytes", "float", "int64"]), min_size=1, max_size=2)
        if draw(st.integers(0, 5)) == 0
        else st.sampled_from([["bytes"], ["float"], ["int64"]])
    )
    counts = draw(st.sampled_from([(1, 1), (1, 1), (3, 3), (0, 0), (0, 4), (1, 2)]))
    odd = draw(st.sampled_from([[], [], ["missing"], ["none"]]))

    def values(draw: st.DrawFn) -> Values | None:
        if odd and draw(st.integers(0, 3)) == 0:
            return None if odd == ["missing"] else ("none", [])
        kind = draw(st.sampled_from(kinds))
        return kind, draw(st.lists(scalars[kind], min_size=counts[0], max_size=counts[1]))

    return values


@st.composite
def examples(draw: st.DrawFn) -> list[dict[str, Values]]:
    features = draw(st.dictionaries(st.sampled_from(NAMES), habits(), min_size=1, max_size=4))
    records = []
    for _ in range(draw(st.integers(1, 6))):
        drawn = {name: habit(draw) for name, habit in features.items()}
        records.append({name: values for name, values in drawn.items() if values is not None})
    return records


def seen_alike(found: Finding, given: list[Values], records: int) -> None:
    """Compares a finding with the values that it is of; a list's steps make them, too."""
    real = [(kind, values) for kind, values in given if kind != "none"]
    kinds = {kind for kind, _ in real}
    expected = "mixed" if len(kinds) > 1 else next(iter(kinds), "none")
    assert (found.kind, found.records) == (expected, records)
    flat = [value for _, values in real for value in values]
    if len(kinds) == 1:
        sizes = [len(v) if isinstance(v, bytes) else v for v in flat]
        sizes = [size for size in sizes if not math.isnan(size)]
        assert found.extent == ((min(sizes), max(sizes)) if sizes else None)
        assert bool(found.formats) == any(isinstance(value, bytes) for value in flat)
    else:
        assert found.spec is None
        assert found.extent is None


def listed(column: Any) -> list[Any]:
    """The values of each record, as one flat list each."""
    return [flat(row) for row in column.tolist()]


def flat(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, list) else [value]


def same(ours: list[Any], theirs: list[Any]) -> None:
    assert repr(ours) == repr(theirs)  # nan and -0.0 as they are


@given(data=st.data(), records=examples(), compression=st.sampled_from([None, "gzip", "zlib"]))
def test_the_schema_reads_the_records(
    tmp_path: Path, data: st.DataObject, records: list[dict[str, Values]], compression: str | None
) -> None:
    written = [example_of(**record) for record in records]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(records)), min_size=1, max_size=2)))
    paths = []
    for number, (start, stop) in enumerate(zip([0, *cuts], [*cuts, None], strict=True)):
        paths.append(write_tfrecord(tmp_path / str(number), written[start:stop], compression))
    names = {name for record in records for name in record}
    usable = {
        name for name in names if len({r[name][0] for r in records if name in r} - {"none"}) == 1
    }
    if not usable:
        with pytest.raises(tio.SchemaError, match="no feature"):
            tio.Schema.infer(paths)
        return
    schema = tio.Schema.infer(paths)
    assert set(schema) == usable
    assert schema.findings is not None
    assert schema.findings.keys() == names
    assert not schema.is_sequence
    for name in names:
        given = [record.get(name, ("none", [])) for record in records]
        found = finding(schema, name)
        seen_alike(found, given, len(records))
        present = [values for kind, values in given if kind != "none"]
        assert found.present == len(present)
        counts = [len(values) for values in present]
        assert found.counts == ((min(counts), max(counts)) if counts else None)
        always = len(present) == len(records) and len(set(counts)) == 1 and counts[0] > 0
        if name in usable:
            assert isinstance(schema[name], tio.FixedLenFeature) == always
    batch = tio.parse_examples(written, schema)
    for name in usable:
        same(listed(batch[name]), [record.get(name, ("none", []))[1] for record in records])
    batches = list(tio.TFRecordDataset(paths, schema, batch_size=2, num_threads=1))
    assert sum(map(rows_of, batches)) == len(records)


@st.composite
def sequences(
    draw: st.DrawFn,
) -> list[tuple[dict[str, Values], dict[str, list[Values]]]]:
    context = draw(st.dictionaries(st.sampled_from(NAMES[:3]), habits(), max_size=2))
    lists = draw(st.dictionaries(st.sampled_from(NAMES[2:]), habits(), min_size=1, max_size=3))
    optional = draw(st.booleans())
    most = draw(st.sampled_from([0, 3, 3, 3]))
    records = []
    for _ in range(draw(st.integers(1, 5))):
        drawn = {name: habit(draw) for name, habit in context.items()}
        steps: dict[str, list[Values]] = {}
        for name, habit in lists.items():
            if not (optional and draw(st.integers(0, 3)) == 0):
                some = [habit(draw) for _ in range(draw(st.integers(0, most)))]
                steps[name] = [step for step in some if step is not None]
        records.append(({n: values for n, values in drawn.items() if values is not None}, steps))
    return records


@given(records=sequences())
def test_the_schema_reads_sequences(
    tmp_path: Path, records: list[tuple[dict[str, Values], dict[str, list[Values]]]]
) -> None:
    written = [sequence_of(context, lists) for context, lists in records]
    kinds: dict[tuple[str, str], set[str]] = defaultdict(set)
    for context, lists in records:
        for name, (kind, _) in context.items():
            kinds["context", name] |= {kind} - {"none"}
        for name, steps in lists.items():
            kinds["list", name] |= {kind for kind, _ in steps} - {"none"}
    if not any(len(found) == 1 for found in kinds.values()):
        with pytest.raises(tio.SchemaError, match="no feature"):
            infer(tmp_path, written)
        return
    schema = infer(tmp_path, written)
    assert set(schema) == {name for (_, name), found in kinds.items() if len(found) == 1}
    assert schema.is_sequence == any(lists for _, lists in records)
    assert schema.findings is not None
    parse = tio.parse_sequence_examples if schema.is_sequence else tio.parse_examples
    batch = parse(written, schema)
    for name, found in schema.findings.items():
        if found.where == "context":
            given = [context.get(name, ("none", [])) for context, _ in records]
            seen_alike(found, given, len(records))
            if found.spec is not None:
                same(listed(batch[name]), [values for _, values in given])
            continue
        present = [lists[name] for _, lists in records if name in lists]
        seen_alike(found, [step for steps in present for step in steps], len(records))
        assert found.present == len(present)
        assert found.steps == (min(map(len, present)), max(map(len, present)))
        if found.spec is None:
            continue
        expected = [[values for _, values in lists.get(name, [])] for _, lists in records]
        counts = {len(step) for steps in expected for step in steps}
        regular = len(counts) == 1 and counts != {0}
        assert isinstance(found.spec, tio.FixedLenSequenceFeature) == regular
        if isinstance(found.spec, tio.FixedLenSequenceFeature):
            assert found.spec.allow_missing == (len(present) < len(records))
            steps = batch.lengths[name].tolist()
            rows = [row[:n] for row, n in zip(batch[name].tolist(), steps, strict=True)]
            same([[flat(s) for s in row] for row in rows], expected)
        else:
            same(batch[name].tolist(), expected)


# ---- the rules, one by one ----


def picture(kind: str, size: tuple[int, int] = (3, 2), mode: str = "RGB") -> bytes:
    file = io.BytesIO()
    Image.new(mode, size).save(file, kind)
    return file.getvalue()


def test_numbers(tmp_path: Path) -> None:
    schema = infer(
        tmp_path,
        [
            example_of(label=[3], box=[0.5, -1.0], tokens=[1, 2], flag=[0], rare=[5], same=[1]),
            example_of(label=[-9], box=[2.5, math.nan], tokens=("int64", []), flag=[1], same=[1]),
        ],
    )
    assert schema == tio.Schema(
        {
            "box": tio.FixedLenFeature([2], "float32"),
            "flag": tio.FixedLenFeature([], "int64"),
            "label": tio.FixedLenFeature([], "int64"),
            "rare": tio.VarLenFeature("int64"),
            "same": tio.FixedLenFeature([], "int64"),
            "tokens": tio.VarLenFeature("int64"),
        }
    )
    assert list(schema) == sorted(schema)
    assert finding(schema, "label") == Finding(
        where="context",
        kind="int64",
        present=2,
        records=2,
        counts=(1, 1),
        steps=None,
        extent=(-9, 3),
        formats=(),
        spec=tio.FixedLenFeature([], "int64"),
        why="every record has 1 value",
        total=2,
    )
    assert finding(schema, "box").extent == (-1.0, 2.5)
    assert finding(schema, "box").why == "every record has 2 values"
    assert finding(schema, "tokens").why == "records have from 0 to 2 values"
    assert finding(schema, "rare").why == "1 of 2 records lacks it, and no default is known"
    for name in ("flag", "same"):
        assert finding(schema, name).why.endswith('which the dtype "bool" can also read')


def test_features_that_are_left_out(tmp_path: Path) -> None:
    odd = example(entry(b"\xff\xfe", int_feature(1)))
    schema = infer(
        tmp_path,
        [
            example_of(good=[1], mixed=[1], never=("none", [])) + odd,
            example_of(good=[2], mixed=[b"x"], empty=("float", [])),
        ],
    )
    assert list(schema) == ["empty", "good"]
    assert schema.findings is not None
    assert list(schema.findings) == ["empty", "good", "mixed", "never", "\udcff\udcfe"]
    mixed = finding(schema, "mixed")
    assert (mixed.kind, mixed.spec, mixed.present) == ("mixed", None, 2)
    assert (
        mixed.why
        == "it has bytes and int64 values in different records, and a spec reads only one kind"
    )
    never = finding(schema, "never")
    assert (never.kind, never.spec, never.present, never.counts) == ("none", None, 0, None)
    assert finding(schema, "\udcff\udcfe").why == "the name is not UTF-8"
    code = schema.to_python()
    assert f'# "mixed" is left out: {mixed.why}\n' in code
    assert '# "\\udcff\\udcfe" is left out: the name is not UTF-8\n' in code
    space: dict[str, Any] = {}
    exec(code, space)  # noqa: S102  # source that this package has made
    assert space["schema"] == schema
    assert "#" not in tio.Schema(schema).to_python()
    assert finding(schema, "\udcff\udcfe").kind == "int64"
    assert schema["empty"] == tio.VarLenFeature("float32")


def test_nothing_but_empty_lists(tmp_path: Path) -> None:
    schema = infer(tmp_path, [example_of(x=("bytes", []))] * 2)
    assert schema["x"] == tio.VarLenFeature("string")
    assert finding(schema, "x").why == "it is empty in every record"


@pytest.mark.parametrize(
    ("kinds", "formats"),
    [
        (["JPEG"], ("JPEG",)),
        (["PNG"], ("PNG",)),
        (["GIF"], ("GIF",)),
        (["BMP"], ("BMP",)),
        (["TIFF"], ("TIFF",)),
        (["WEBP"], ("WebP",)),
        (["PNG", "JPEG", "PNG"], ("PNG", "JPEG")),
    ],
)
def test_images(tmp_path: Path, kinds: list[str], formats: tuple[str, ...]) -> None:
    records = [example_of(image=[picture(kind)]) for kind in kinds]
    schema = infer(tmp_path, records)
    assert schema["image"] == tio.ImageFeature(size=(2, 3))
    found = finding(schema, "image")
    assert found.formats == formats
    assert found.why == f"every record has one image ({', '.join(formats)}; size 2 x 3)"
    assert tio.parse_examples(records, schema)["image"].shape == (len(kinds), 3, 2, 3)
    assert "#" not in schema.to_python()


def test_images_of_different_sizes(tmp_path: Path) -> None:
    """They get the median height and width, so that they make a batch."""
    sizes = [(3, 9), (4, 8), (5, 7), (5, 7), (2000, 6)]  # width and height
    records = [example_of(image=[picture("PNG", size)], label=[1]) for size in sizes]
    schema = infer(tmp_path, records)
    assert schema["image"] == tio.ImageFeature(size=(7, 5))
    assert finding(schema, "image").why == "every record has one image (PNG; 4 sizes, 3 to 2,000)"
    line = '        "image": tio.ImageFeature(size=[7, 5]),  # 4 sizes, 3 to 2,000\n'
    assert line in schema.to_python()
    (tmp_path / "parts").mkdir()
    for number, record in enumerate(records):  # each is a piece of its own
        write_tfrecord(tmp_path / "parts" / f"{number}.tfrecord", [record])
    assert tio.Schema.infer(tmp_path / "parts").findings == schema.findings
    assert tio.parse_examples(records, schema)["image"].shape == (5, 3, 7, 5)


@pytest.mark.parametrize(
    ("records", "spec", "why"),
    [
        ([[picture("PNG")], None], tio.VarLenFeature("string"), "needs one image in every record"),
        ([[picture("PNG")] * 2], tio.FixedLenFeature([2], "string"), "needs one image"),
        (
            [[picture("PNG")], [b"x"]],
            tio.FixedLenFeature([], "string"),
            "needs one image in every record",
        ),
        (
            [[picture("PNG")], [b""]],
            tio.FixedLenFeature([], "string"),
            "needs one image in every record",
        ),
        (
            [[picture("PNG")], [picture("PNG")[:20]]],
            tio.FixedLenFeature([], "string"),
            "damaged or too large",
        ),
        (
            [[picture("BMP")[:2] + b"\xff" * 60]],
            tio.FixedLenFeature([], "string"),
            "damaged or too large",
        ),
        ([[picture("PNG", (10_000, 7_000), "1")]], tio.FixedLenFeature([], "string"), "too large"),
    ],
    ids=["missing", "two", "text", "empty", "cut", "damaged", "huge"],
)
def test_images_that_stay_bytes(
    tmp_path: Path, records: list[Any], spec: tio.FixedLenFeature, why: str
) -> None:
    written = [example_of(**({} if values is None else {"x": values})) for values in records]
    schema = infer(tmp_path, written)
    assert schema["x"] == spec
    assert why in finding(schema, "x").why
    assert rows_of(tio.parse_examples(written, schema)) == len(written)


def tensor_proto(dtype: int, sizes: list[int], values: bytes) -> bytes:
    shape = b"".join(delimited(2, b"\x08" + varint(size)) for size in sizes)
    return b"\x08" + varint(dtype) + delimited(2, shape) + values


@pytest.mark.parametrize(
    ("value", "look"),
    [
        (b"", "empty"),
        (b"plain", "UTF-8 text"),
        ("Rédemption\n\t".encode(), "UTF-8 text"),
        (b"BMW is no bitmap", "UTF-8 text"),
        (b"\x00\x01", "bytes"),
        (b"a\x00", "bytes"),
        (b"\xe9", "bytes"),
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"RIFF\xff\0\0\0WAVE", "WAV"),
        (b"RIFF\xff\0\0\0NONE", "bytes"),
        (tensor_proto(1, [2], delimited(4, bytes(8))), "serialized tensor"),
        (tensor_proto(9, [], delimited(10, b"\x05")), "serialized tensor"),
        (tensor_proto(7, [0], b""), "serialized tensor"),
        (tensor_proto(1, [2], delimited(1, bytes(8))), "bytes"),
        (tensor_proto(1, [2], delimited(4, bytes(8)))[:-1], "bytes"),
        (b"\x08\x01", "bytes"),
        (b"\x08\x01\x22\x01\x00\x12\x00", "bytes"),
        (b"\x08\x01\x12\x02\x0a\x00", "bytes"),
        (b"\x08", "bytes"),
    ],
)
def test_formats_of_bytes(tmp_path: Path, value: bytes, look: str) -> None:
    schema = infer(tmp_path, [example_of(x=[value])])
    found = finding(schema, "x")
    assert found.formats == (look,)
    assert found.extent == (len(value), len(value))
    assert schema["x"] == tio.FixedLenFeature([], "string")
    assert ("SerializedTensorFeature" in found.why) == (look == "serialized tensor")


def test_formats_are_listed_most_frequent_first(tmp_path: Path) -> None:
    schema = infer(tmp_path, [example_of(x=[b"\xff", b"a", b"b", b"c", b"", b""])])
    assert finding(schema, "x").formats == ("UTF-8 text", "empty", "bytes")


def test_feature_lists(tmp_path: Path) -> None:
    records = [
        sequence_of(
            {"id": [7]},
            {"boxes": [[0.5, 1.0]] * 3, "words": [[b"a"], [b"b", b"c"]], "rare": [[1]], "no": []},
        ),
        sequence_of({"id": [8]}, {"boxes": [[0.0, 2.0]], "words": []}),
    ]
    schema = infer(tmp_path, records)
    assert schema == tio.Schema(
        context={"id": tio.FixedLenFeature([], "int64")},
        sequence={
            "boxes": tio.FixedLenSequenceFeature([2], "float32"),
            "rare": tio.FixedLenSequenceFeature([], "int64", allow_missing=True),
            "words": tio.VarLenFeature("string"),
        },
    )
    assert finding(schema, "boxes") == Finding(
        where="list",
        kind="float",
        present=2,
        records=2,
        counts=(2, 2),
        steps=(1, 3),
        extent=(0.0, 2.0),
        formats=(),
        spec=schema["boxes"],
        why="every step has 2 values",
        total=2,
    )
    rare = "every step has 1 value, and 1 of 2 records lacks it"
    assert finding(schema, "rare").why.startswith(rare)
    assert finding(schema, "words").why == "steps have from 1 to 2 values"
    assert finding(schema, "no").why == "no record has values for it"


def test_images_in_feature_lists_stay_bytes(tmp_path: Path) -> None:
    schema = infer(tmp_path, [sequence_of({}, {"frames": [[picture("PNG")]]})])
    assert schema["frames"] == tio.FixedLenSequenceFeature([], "string")
    assert finding(schema, "frames").why.endswith("so the values stay bytes")


def test_a_context_feature_and_a_list_of_one_name(tmp_path: Path) -> None:
    record = sequence_of({"x": [1], "y": ("none", [])}, {"x": [[2, 3]], "y": [[4]]})
    schema = infer(tmp_path, [record])
    assert schema == tio.Schema(
        context={"x": tio.FixedLenFeature([], "int64")},
        sequence={"y": tio.FixedLenSequenceFeature([], "int64")},
    )
    assert "the feature list of this name is left out" in finding(schema, "x").why
    assert "the context feature of this name is left out" in finding(schema, "y").why
    comment = "# the feature list of this name is left out: key= can read it under another name\n"
    assert f'"x": tio.FixedLenFeature([], "int64"),  {comment}' in schema.to_python()
    batch = tio.parse_sequence_examples([record], schema)
    assert batch["x"].tolist() == [1]
    assert batch["y"].tolist() == [[4]]


def test_examples_among_sequences(tmp_path: Path) -> None:
    records = [example_of(id=[1]), sequence_of({"id": [2]}, {"steps": [[5]]})]
    schema = infer(tmp_path, records)
    assert schema == tio.Schema(
        context={"id": tio.FixedLenFeature([], "int64")},
        sequence={"steps": tio.FixedLenSequenceFeature([], "int64", allow_missing=True)},
    )
    assert rows_of(tio.parse_sequence_examples(records, schema)) == 2


def test_sequences_without_lists_are_examples(tmp_path: Path) -> None:
    schema = infer(tmp_path, [sequence_of({"id": [1]}, {})])
    assert schema == tio.Schema({"id": tio.FixedLenFeature([], "int64")})
