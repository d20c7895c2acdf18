"""Answer questions about TFRecord files and Examples with TensorFlow itself.

The tests run this script with the Python of an environment that has TensorFlow, and talk to it over
its pipes: every line on stdin is a JSON request, every line on stdout the JSON answer to it. The
forms of specs and results are described in ``tf_json.py``. Requests and their answers:

``{"op": "parse_example", "examples": [hex, ...], "spec": {...}}``
    ``{"features": {...}}`` or ``{"error": message, "error_class": class name}``
``{"op": "read_records", "path": ..., "compression": "" | "GZIP" | "ZLIB"}``
    ``{"records": [hex, ...], "error": class name or null, "message": message or null}``
``{"op": "write_records", "path": ..., "records": [hex, ...], "compression": ...}``
    ``{}``

Only what TensorFlow refuses comes back as an error. A request that makes no sense ends the script
with a traceback, and so does an input that crashes TensorFlow. End of stdin ends it cleanly.
"""

from __future__ import annotations

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # must be set before TensorFlow is imported

import tensorflow as tf
from tf_json import Json, parse_examples, read_records, write_records


def answer_parse_example(request: Json) -> Json:
    """Parse a batch of serialized Examples."""
    examples = [bytes.fromhex(example) for example in request["examples"]]
    return parse_examples(examples, request["spec"])


def answer_read_records(request: Json) -> Json:
    """Read a TFRecord file up to its end or its first error."""
    records, error = read_records(request["path"], request["compression"])
    return {
        "records": [record.hex() for record in records],
        "error": type(error).__name__ if error else None,
        "message": error.message if error else None,
    }


def answer_write_records(request: Json) -> Json:
    """Write a TFRecord file."""
    records = [bytes.fromhex(record) for record in request["records"]]
    write_records(request["path"], records, request["compression"])
    return {}


ANSWERS = {
    "parse_example": answer_parse_example,
    "read_records": answer_read_records,
    "write_records": answer_write_records,
}


def main() -> None:
    """Answer requests until stdin ends."""
    # The inputs are small: more threads would only wait for each other.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(ANSWERS[request["op"]](request)), flush=True)


if __name__ == "__main__":
    main()
