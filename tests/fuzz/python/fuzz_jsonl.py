"""Conversion of JSON lines, compared with Python's json module.

Input: options (1 byte), a file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

import torchrec_io as tio
from tests.fuzz.python.converted import convert
from tests.fuzz.python.inputs import cut_options

_SKIP = 1


def check(data: bytes) -> None:
    (bits,), file = cut_options(data, 1)
    found = convert(
        tio.convert.from_jsonl, file, "data.jsonl", on_error="skip" if bits & _SKIP else "raise"
    )
    if found is None or found.errors:
        return
    lines = file.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    objects = [json.loads(line) for line in lines if line and not line.isspace()]
    assert len(objects) == len(found.records), "another number of records"
    for record, value in zip(found.records, objects, strict=True):
        # A member that has only empty lists is left out.
        wanted = {
            name: member
            for name, member in value.items()
            if member is not None and (member != [] or name in record)
        }
        assert set(record) == set(wanted), "other features"
        for name, member in wanted.items():
            _require_same(*record[name], member if isinstance(member, list) else [member])


def _require_same(kind: str | None, values: list[Any], wanted: list[Any]) -> None:
    if kind is None:
        assert wanted == []
    elif kind == "bytes_list":
        assert values == [text.encode() for text in wanted]
    elif kind == "int64_list":
        assert values == wanted
    else:
        with np.errstate(over="ignore"):
            np.testing.assert_equal(values, np.array(wanted, np.float64).astype(np.float32))
        infinite = [math.isinf(value) for value in values]
        assert infinite == [math.isinf(value) for value in wanted], "a number became infinite"


def seeds() -> Iterator[bytes]:
    files = [
        b'{"a": 1, "b": "text", "c": [1.5, 2], "d": true, "e": null, "f": []}\n{"a": -2}\n',
        b'\xef\xbb\xbf{"a": 9223372036854775807}\n\n  \n{"a": 0}',
        b'{"a": 9223372036854775808}\n',
        b'{"a": 1e39, "b": 1e-50}\n{"b": 2}\n',
        b'{"a": {"b": 1}}\n{"a": [[1]]}\n{"a": [1, "x"]}\n[1]\n{"a": 1, "a": 2}\n',
        b'{"\\u00e9": "\\ud83d\\ude00", "b": "\\ud800"}\n',
        b'{"a": NaN}\n{"a": -Infinity}\n',
        b'{"a": "x"}\n{"a": 1}\n',
    ]
    for file in files:
        for bits in range(2):
            yield bytes([bits]) + file
