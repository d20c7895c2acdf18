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
    ``{}``
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

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # must be set before TensorFlow is imported

import tensorflow as tf
import tf_json
import tf_readers
from tf_json import Json


def from_hex(values: list[str]) -> list[bytes]:
    """Convert several values from hex to bytes."""
    return [bytes.fromhex(value) for value in values]


def answer_parse_example(request: Json) -> Json:
    """Parse a batch of serialized Examples."""
    return tf_json.parse_examples(from_hex(request["examples"]), request["spec"])


def answer_parse_single_example(request: Json) -> Json:
    """Parse one Example."""
    return tf_json.parse_single_example(bytes.fromhex(request["example"]), request["spec"])


def answer_parse_sequence_example(request: Json) -> Json:
    """Parse a batch of serialized SequenceExamples."""
    return tf_json.parse_sequence_examples(
        from_hex(request["examples"]), request["context"], request["sequence"]
    )


def answer_parse_single_sequence_example(request: Json) -> Json:
    """Parse one SequenceExample."""
    return tf_json.parse_single_sequence_example(
        bytes.fromhex(request["example"]), request["context"], request["sequence"]
    )


def answer_decode_raw(request: Json) -> Json:
    """Decode raw bytes."""
    return tf_json.decode_raw(
        from_hex(request["values"]),
        request["dtype"],
        request["little_endian"],
        request["fixed_length"],
    )


def answer_parse_tensor(request: Json) -> Json:
    """Parse a TensorProto."""
    return tf_json.parse_tensor(bytes.fromhex(request["serialized"]), request["dtype"])


def answer_decode_image(request: Json) -> Json:
    """Decode an image."""
    return tf_json.decode_image(
        bytes.fromhex(request["data"]),
        request["channels"],
        request.get("dtype", "uint8"),
        frames=request.get("frames", False),
        exact=request.get("exact", True),
    )


def answer_serialize_tensor(request: Json) -> Json:
    """Make a TensorProto."""
    return {"serialized": tf_json.serialize_tensor(request["array"]).hex()}


def answer_read_records(request: Json) -> Json:
    """Read a TFRecord file up to its end or its first error."""
    records, error = tf_json.read_records(request["path"], request["compression"])
    return {
        "records": [record.hex() for record in records],
        "error": type(error).__name__ if error else None,
        "message": error.message if error else None,
    }


def answer_write_records(request: Json) -> Json:
    """Write a TFRecord file."""
    tf_json.write_records(request["path"], from_hex(request["records"]), request["compression"])
    return {}


def answer_run(request: Json) -> Json:
    """Run a program of TensorFlow 1."""
    names = {"tf": tf.compat.v1, "__name__": "program"}
    before = os.getcwd()
    os.chdir(request["folder"])
    try:
        with contextlib.redirect_stdout(sys.stderr), tf.Graph().as_default():
            for code in request["code"]:
                exec(code, names)  # noqa: S102  # the test that asks has it from a page of ours
    except Exception:  # noqa: BLE001  # whatever it is, the test shows it
        return {"error": traceback.format_exc()}
    finally:
        os.chdir(before)
    return {"error": None}


def answer_read_by_reader(request: Json) -> Json:
    """Read files with a reader of TensorFlow 1."""
    return tf_readers.read_by_reader(request["kind"], request["paths"], request["options"])


def answer_read_by_dataset(request: Json) -> Json:
    """Read a file with tf.data."""
    return tf_readers.read_by_dataset(request["kind"], request["path"], request["options"])


def answer_decode_csv(request: Json) -> Json:
    """Decode lines of CSV separately."""
    return tf_readers.decode_csv(from_hex(request["lines"]), request["columns"], request["options"])


ANSWERS = {
    "parse_example": answer_parse_example,
    "parse_single_example": answer_parse_single_example,
    "parse_sequence_example": answer_parse_sequence_example,
    "parse_single_sequence_example": answer_parse_single_sequence_example,
    "decode_raw": answer_decode_raw,
    "parse_tensor": answer_parse_tensor,
    "decode_image": answer_decode_image,
    "serialize_tensor": answer_serialize_tensor,
    "read_records": answer_read_records,
    "write_records": answer_write_records,
    "run": answer_run,
    "read_by_reader": answer_read_by_reader,
    "read_by_dataset": answer_read_by_dataset,
    "decode_csv": answer_decode_csv,
}


def answer(request: Json) -> Json:
    """Return the answer to a request, or the answers to a list of requests."""
    if isinstance(request, list):
        return [answer(one) for one in request]
    return ANSWERS[request["op"]](request)


def main() -> None:
    """Answer requests until stdin ends."""
    # The inputs are too small for several threads.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
