"""Server that answers requests about TFRecord files and Examples with TensorFlow.

The tests run this script with the Python of an environment that has TensorFlow, and use its pipes:
every line on stdin is a JSON request, every line on stdout its JSON answer. A line may
also be a list of requests; the answer is then a list of answers. ``tf_json.py`` describes the forms
of specs, results, refusals and arrays. Requests and their answers:

``{"op": "parse_example", "examples": [hex, ...], "spec": {...}}``
    a result or a refusal
``{"op": "parse_single_example", "example": hex, "spec": {...}}``
    a result or a refusal
``{"op": "parse_sequence_example", "examples": [hex, ...], "context": {...}, "sequence": {...}}``
    a result with lengths, or a refusal
``{"op": "parse_single_sequence_example", "example": hex, "context": {...}, "sequence": {...}}``
    a result or a refusal
``{"op": "decode_raw", "values": [hex, ...], "dtype": ..., "little_endian": ...,
"fixed_length": number or null}``
    an array or a refusal
``{"op": "parse_tensor", "serialized": hex, "dtype": ...}``
    an array or a refusal
``{"op": "decode_image", "data": hex, "channels": number, "dtype": ..., "frames": bool,
"exact": bool}``
    an array or a refusal; optional are dtype, frames (whether to decode all) and exact (whether
    JPEGs are decoded with the exact transform, which is the default here)
``{"op": "serialize_tensor", "array": {...}}``
    ``{"serialized": hex}``
``{"op": "read_records", "path": ..., "compression": "" | "GZIP" | "ZLIB"}``
    ``{"records": [hex, ...], "error": class name or null, "message": message or null}``
``{"op": "write_records", "path": ..., "records": [hex, ...], "compression": ...}``
    ``null``
``{"op": "run", "folder": ..., "code": [source, ...]}``
    ``{"error": traceback or null}`` of TensorFlow 1 code, run there as a program, with ``tf``
``{"op": "read_by_reader", "kind": "lines" | "fixed" | "whole", "paths": [...], "options": {...}}``
    ``{"pairs": [[key, hex], ...]}``
``{"op": "read_by_dataset", "kind": "lines" | "fixed", "path": ..., "options": {...}}``
    ``{"records": [hex, ...], "error": class name or null}``
``{"op": "decode_csv", "lines": [hex, ...], "columns": [[dtype, default or null], ...],
"options": {...}}``
    ``{"lines": [{"values": [hex, ...]} or {} for a refusal, ...]}``

Only errors of TensorFlow are returned. An invalid request ends the script with a traceback, and so
does an input that crashes TensorFlow. The script exits cleanly at the end of stdin.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # must be set before TensorFlow is imported

import tensorflow as tf
import tf_json
import tf_readers
from tf_json import Json

# Members of requests that are bytes, or a list of bytes, in hex.
BYTES = {"data", "example", "examples", "lines", "records", "serialized", "values"}


def read_records(path: str, compression: str) -> Json:
    """Read a TFRecord file up to its end or its first error."""
    records, error = tf_json.read_records(path, compression)
    return {
        "records": [record.hex() for record in records],
        "error": type(error).__name__ if error else None,
        "message": error.message if error else None,
    }


def run(folder: str, code: list[str]) -> Json:
    """Run a program of TensorFlow 1."""
    names = {"tf": tf.compat.v1, "__name__": "program"}
    before = os.getcwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(sys.stderr), tf.Graph().as_default():
            for part in code:
                exec(part, names)  # noqa: S102  # the test that asks has it from a page of ours
    except Exception:  # noqa: BLE001  # whatever it is, the test shows it
        return {"error": traceback.format_exc()}
    finally:
        os.chdir(before)
    return {"error": None}


# The other members of a request are the arguments of the function.
ANSWERS: dict[str, Callable[..., Json]] = {
    "parse_example": tf_json.parse_examples,
    "parse_single_example": tf_json.parse_single_example,
    "parse_sequence_example": tf_json.parse_sequence_examples,
    "parse_single_sequence_example": tf_json.parse_single_sequence_example,
    "decode_raw": tf_json.decode_raw,
    "parse_tensor": tf_json.parse_tensor,
    "decode_image": tf_json.decode_image,
    "serialize_tensor": tf_json.serialize_tensor,
    "read_records": read_records,
    "write_records": tf_json.write_records,
    "run": run,
    "read_by_reader": tf_readers.read_by_reader,
    "read_by_dataset": tf_readers.read_by_dataset,
    "decode_csv": tf_readers.decode_csv,
}


def answer(request: Json) -> Json:
    """Return the answer to a request, or the answers to a list of requests."""
    if isinstance(request, list):
        return [answer(one) for one in request]
    arguments = {
        name: tf_json.map_nested(bytes.fromhex, value) if name in BYTES else value
        for name, value in request.items()
    }
    return ANSWERS[arguments.pop("op")](**arguments)


def main() -> None:
    """Answer requests until stdin ends."""
    # The inputs are too small for several threads.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
