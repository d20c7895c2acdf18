"""Write TFRecord files with TensorFlow, and the values that TensorFlow parses from them.

The committed files in ``golden/`` were written by TensorFlow 2.21.0. Run this script with the
Python of an environment that has ``tensorflow-cpu``; it gives the same bytes every time. The form
of the JSON files is described in ``README.md`` beside this script, that of specs and results in
``tests/interop/tf_json.py``. What the files hold is in ``golden_cases/``.

Every case is one on which TensorFlow and protobuf agree: ``check_protobuf_agrees`` makes sure of
it. The exceptions are the cases named ``refused/...``.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # must be set before TensorFlow is imported

import tensorflow as tf

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent / "interop")]

import tf_json  # noqa: E402  # found there
from tf_json import Json  # noqa: E402

from tests.data.golden_cases import (  # noqa: E402
    arrays,
    composite,
    drawn,
    examples,
    framing,
    refused,
    sequences,
    wire,
)
from tests.data.golden_cases.build import Case  # noqa: E402
from tests.interop import tf_oracle  # noqa: E402

OUT = HERE / "golden"


def write_file(
    files: dict[str, Json], name: str, records: Sequence[bytes], compression: str = ""
) -> None:
    """Write one TFRecord file and note what is in it."""
    path = str(OUT / name)
    tf_json.write_records(path, records, compression)
    read, error = tf_json.read_records(path, compression)
    if error is not None or read != list(records):
        raise AssertionError(f"{name}: TensorFlow does not read back what it wrote")
    files[name] = {"compression": compression, "records": [record.hex() for record in records]}


def ask(case: Case, records: Sequence[bytes]) -> Json:
    """TensorFlow's answer to a case."""
    if case.sequence is None:
        if case.single:
            return tf_json.parse_single_example(*records, case.spec)
        return tf_json.parse_examples(records, case.spec)
    if case.single:
        return tf_json.parse_single_sequence_example(*records, case.spec, case.sequence)
    return tf_json.parse_sequence_examples(records, case.spec, case.sequence)


def without_message(answer: Json) -> Json:
    """An answer, of a refusal only its class: the messages are long and TensorFlow's own."""
    return {"error_class": answer["error_class"]} if "error" in answer else answer


def check_protobuf_agrees(case: Case, records: Sequence[bytes], answer: Json) -> None:
    """TensorFlow must give the same answer to what protobuf makes of the records."""
    message_class = tf.train.Example if case.sequence is None else tf.train.SequenceExample
    messages = [message_class.FromString(record) for record in records]
    rewritten = [message.SerializeToString(deterministic=True) for message in messages]
    if json.dumps(ask(case, rewritten)) != json.dumps(answer):
        raise AssertionError(f"{case.name}: TensorFlow and protobuf read this differently")


def answer_case(case: Case, files: dict[str, Json]) -> Json:
    """The JSON entry of a case, with TensorFlow's answer."""
    stored = [bytes.fromhex(record) for record in files[case.file]["records"]]
    records = stored if case.records is None else [stored[n] for n in case.records]
    answer = ask(case, records)
    if ("error" in answer) != case.name.startswith("refused/"):
        raise AssertionError(f"{case.name}: {answer}")
    if "error" not in answer:
        check_protobuf_agrees(case, records, answer)
    entry = {"name": case.name, "file": case.file, "records": case.records, "spec": case.spec}
    if case.sequence is not None:
        entry["sequence"] = case.sequence
    if case.single:
        entry["single"] = True
    return {**entry, "result": without_message(answer)}


def example_cases() -> list[Case]:
    """All cases of Examples, then those of SequenceExamples."""
    return [
        *examples.regular_cases(),
        *examples.missing_cases(),
        *examples.varlen_cases(),
        *examples.values_cases(),
        *examples.keys_cases(),
        *examples.many_cases(),
        *wire.wire_cases(),
        *refused.refused_cases(),
        *composite.steps_cases(),
        *composite.sparse_cases(),
        *composite.ragged_cases(),
        *sequences.sequence_cases(),
    ]


def write_files() -> dict[str, Json]:
    """Write all TFRecord files."""
    files: dict[str, Json] = {}
    for name, records, compression in framing.framing_files():
        write_file(files, name, records, compression)
    for name, records in {
        "regular": examples.regular_records(),
        "missing": examples.missing_records(),
        "varlen": examples.varlen_records(),
        "values": examples.values_records(),
        "keys": examples.keys_records(),
        "many": examples.many_records(),
        "wire": list(wire.wire_records().values()),
        "wire_empty": list(wire.wire_empty_records().values()),
        "refused": list(refused.refused_records().values()),
        "steps": composite.steps_records(),
        "sparse": composite.sparse_records(),
        "ragged": composite.ragged_records(),
        "sequence": sequences.sequence_records(),
    }.items():
        write_file(files, f"{name}.tfrecord", records)
    return files


# ---- questions whose records stand beside them ----


def answered(questions: Iterable[Json]) -> list[Json]:
    """Questions with TensorFlow's answers."""
    return [
        {"question": question, "result": without_message(tf_oracle.answer(question))}
        for question in questions
    ]


def array_questions() -> list[Json]:
    """Questions about raw bytes and serialized tensors."""
    rng = random.Random(3)
    serialized = []
    for question in arrays.tensor_questions(rng):
        made = tf_oracle.answer(question)["serialized"]
        dtype = question["array"]["dtype"]
        serialized.append({"op": "parse_tensor", "serialized": made, "dtype": dtype})
    odd = arrays.odd_tensor_questions(rng, 120)
    return [*arrays.raw_questions(rng), *serialized, *odd]


# ---- JSON ----


def compact(item: Json) -> str:
    """An item without spaces."""
    return json.dumps(item, separators=(",", ":"))


def json_lines(items: Sequence[str]) -> str:
    """The items of a JSON array or object, one a line."""
    return ",\n".join("  " + item for item in items)


def write_json(name: str, **sections: Json) -> None:
    """Write a JSON file with one line for each file, case or question, to keep changes readable."""
    parts = [f'"tensorflow": {json.dumps(tf.__version__)}']
    for section, items in sections.items():
        if isinstance(items, dict):
            lines = [f"{json.dumps(key)}: {compact(items[key])}" for key in items]
            parts.append(f'"{section}": {{\n{json_lines(lines)}\n}}')
        else:
            parts.append(f'"{section}": [\n{json_lines([compact(i) for i in items])}\n]')
    text = "{\n" + ",\n".join(parts) + "\n}\n"
    json.loads(text)
    (OUT / name).write_text(text)


def main() -> None:
    """Write all files."""
    # With one thread an error always names the first bad Example of a batch.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    OUT.mkdir(exist_ok=True)
    files = write_files()
    cases = [answer_case(case, files) for case in example_cases()]
    write_json("golden.json", files=files, cases=cases)
    of_examples = answered(drawn.drawn_examples(random.Random(1), 105))
    of_sequences = answered(drawn.drawn_sequences(random.Random(2), 78))
    write_json("drawn.json", examples=of_examples, sequences=of_sequences)
    of_arrays = answered(array_questions())
    write_json("arrays.json", arrays=of_arrays)
    questions = len(of_examples) + len(of_sequences) + len(of_arrays)
    print(f"{len(files)} files, {len(cases)} cases, {questions} questions")


if __name__ == "__main__":
    main()
