"""Tables that become TFRecord files and tables again keep their values and types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import torchrec_io as tio
from tests.support.examples import example_of
from tests.support.tfrecord import write_tfrecord

TEXT = (
    "id,count,price,name,zip,note\n"
    '1,,2.5,"a ""b"", c",02134,\n'
    "2,7,,x\u00a0y,00501,\U0001f468\u200d\U0001f469\n"
    '-3,8,0.1,"two\nlines",99999x,\n'
)
COLUMNS = {
    "id": (pa.int64(), [1, 2, -3]),
    "count": (pa.int64(), [None, 7, 8]),
    "price": (pa.float32(), [2.5, None, 0.1]),
    "name": (pa.string(), ['a "b", c', "x\u00a0y", "two\nlines"]),
    "zip": (pa.string(), ["02134", "00501", "99999x"]),
    "note": (pa.string(), [None, "\U0001f468\u200d\U0001f469", None]),
}
TABLE = pa.table({name: pa.array(values, kind) for name, (kind, values) in COLUMNS.items()})


def read(path: str) -> Any:
    table = pq.read_table(path).replace_schema_metadata()
    return table.select(TABLE.schema.names)


def test_csv_to_parquet_and_csv(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(TEXT)
    done = tio.convert.from_csv(tmp_path / "in.csv", tmp_path / "a")
    [parquet] = tio.convert.to_parquet(done.paths, tmp_path / "b").paths
    assert read(parquet).equals(TABLE)
    [csv] = tio.convert.to_csv(done.paths, tmp_path / "c").paths
    assert csv == str(tmp_path / "c.csv")
    again = tio.convert.from_csv(csv, tmp_path / "d")
    assert again.schema == done.schema
    [second] = tio.convert.to_parquet(again.paths, tmp_path / "e").paths
    assert read(second).equals(TABLE)
    [third] = tio.convert.to_csv(done.paths, tmp_path / "f", schema=done.schema).paths
    assert pyarrow.csv.read_csv(third).num_rows == 3
    assert Path(third).read_text().startswith('"id","count",')


@pytest.mark.parametrize("values", [[1, None, -3], [0.1, None, 2.5], [b"x", None, b"y"]])
def test_a_single_column_with_missing_values(tmp_path: Path, values: list[Any]) -> None:
    """No record is lost, although readers of CSV skip empty lines."""
    rows = [{} if value is None else {"x": value} for value in [*values, None]]
    source = write_tfrecord(
        tmp_path / "a", [example_of(**{n: [v] for n, v in row.items()}) for row in rows]
    )
    [csv] = tio.convert.to_csv(source, tmp_path / "b").paths
    done = tio.convert.from_csv(csv, tmp_path / "c")
    assert done.counts == (4,)
    [parquet] = tio.convert.to_parquet(source, tmp_path / "d").paths
    [again] = tio.convert.to_parquet(done.paths, tmp_path / "e").paths
    assert pq.read_table(again).equals(pq.read_table(parquet))


def test_parquet_and_json_lines_to_parquet(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "in.parquet")
    done = tio.convert.from_parquet(tmp_path / "in.parquet", tmp_path / "a")
    [parquet] = tio.convert.to_parquet(done.paths, tmp_path / "b").paths
    assert read(parquet).equals(TABLE)
    lines = '{"day": "2020-01-01", "n": 1}\n{"day": "2021-01-01 00:00:00", "n": null}\n'
    (tmp_path / "in.jsonl").write_text(lines)
    done = tio.convert.from_jsonl(tmp_path / "in.jsonl", tmp_path / "c")
    [parquet] = tio.convert.to_parquet(done.paths, tmp_path / "d").paths
    assert pq.read_schema(parquet).field("day").type == pa.string()
    assert pq.read_table(parquet).to_pylist() == [
        {"day": "2020-01-01", "n": 1},
        {"day": "2021-01-01 00:00:00", "n": None},
    ]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_columns_are_left_out_and_cast(tmp_path: Path, kind: str) -> None:
    table = pa.table({"id": [1, 2], "text": ["3", "4"], "x": [0.5, 1.0], "other": ["a", "b"]})
    path = tmp_path / f"in.{kind}"
    if kind == "csv":
        pyarrow.csv.write_csv(table, path)
    elif kind == "parquet":
        pq.write_table(table, path)
    else:
        path.write_text("".join(f"{row}\n".replace("'", '"') for row in table.to_pylist()))
    convert = getattr(tio.convert, f"from_{kind}")
    options: Any = {"types": {"id": "string", "text": "float32"}}
    done = convert(path, tmp_path / "a", exclude=["other"], **options)
    kept = convert(path, tmp_path / "b", include=["x", "text", "id"], **options)
    assert Path(kept.paths[0]).read_bytes() == Path(done.paths[0]).read_bytes()
    rows = [dict(row) for row in tio.TFRecordDataset(done.paths, done.schema)]
    assert rows == [{"id": b"1", "text": 3.0, "x": 0.5}, {"id": b"2", "text": 4.0, "x": 1.0}]
    for option in ("include", "exclude"):
        with pytest.raises(ValueError, match=f"{option} has 'y', which is not a column"):
            convert(path, tmp_path / "c", **{option: ["y"]})
    with pytest.raises(tio.ConversionError, match="'a' does not fit in int64") as caught:
        convert(path, tmp_path / "c", types={"other": "int64"})
    assert (caught.value.feature, caught.value.path) == ("other", str(path))


def test_features_are_left_out(tmp_path: Path) -> None:
    records = [example_of(a=[1], b=[b"\xff"], c=[1, 2]), example_of(a=[2], b=[b"x"], c=[])]
    path = write_tfrecord(tmp_path / "in", records)
    done = tio.convert.to_csv(path, tmp_path / "a", include=["a"])
    assert Path(done.paths[0]).read_text() == '"a"\n1\n2\n'
    assert done.left_out == {"b": 2, "c": 1}
    mixed = write_tfrecord(tmp_path / "mixed", [*records, example_of(a=[3], b=[1])])
    done = tio.convert.to_csv(mixed, tmp_path / "m", exclude=["b", "c"])
    assert Path(done.paths[0]).read_text() == '"a"\n1\n2\n3\n'
    with pytest.raises(tio.SchemaError, match="CSV cannot store several values") as caught:
        tio.convert.to_csv(path, tmp_path / "b")
    assert caught.value.feature == "c"
    with pytest.raises(tio.DecodeError, match="the value is not UTF-8 text") as error:
        tio.convert.to_csv(path, tmp_path / "b", exclude=["c"])
    assert (error.value.record, error.value.feature) == (0, "b")
    schema = {"a": tio.VarLenFeature("int64"), "c": tio.VarLenFeature("int64")}
    done = tio.convert.to_csv(path, tmp_path / "b", schema=schema, on_error="skip")
    assert [error.reason for error in done.errors] == ["the record has several values"]
    assert Path(done.paths[0]).read_text() == '"a","c"\n2,\n'
