"""A customer's record with values of every kind: written, looked at, and read back.

    python examples/customer_record.py [FOLDER]

The names and values are those of a well-known tutorial on TFRecords. A value's kind follows from
its Python type, and a list may have any length.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch

import torchrec_io as tio

CUSTOMER = {
    "Age": 29,  # int64
    "Movie": ["The Shawshank Redemption", "Fight Club"],  # bytes, as UTF-8
    "Movie Ratings": [9.0, 9.7],  # float32
    "Suggestion": "Inception",
    "Suggestion Purchased": 1.0,
    "Purchase Price": 9.99,
}
SCHEMA = {
    "Age": tio.FixedLenFeature([], "int64"),
    "Movie": tio.VarLenFeature("string"),
    "Movie Ratings": tio.VarLenFeature("float32"),
    "Suggestion": tio.FixedLenFeature([], "string"),
    "Suggestion Purchased": tio.FixedLenFeature([], "float32"),
    "Purchase Price": tio.FixedLenFeature([], "float32"),
}


def main(folder: Path) -> None:
    """Writes the record, prints it as a message, and reads it as tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "customer_1.tfrecord"
    with tio.TFRecordWriter(path, index=True) as writer:
        writer.write(CUSTOMER)

    # As the protobuf message: for a look, or for code that has messages already.
    [message] = tio.TFRecordDataset(path, tio.Example.FromString)
    print(message)
    assert list(message.features.feature["Age"].int64_list.value) == [29]

    # As tensors: a record has no batch dimension.
    [customer] = tio.TFRecordDataset(path, SCHEMA)
    for name, value in customer.items():
        print(f"{name}: {value.tolist() if isinstance(value, tio.BytesArray) else value}")
    assert customer["Age"] == 29
    assert customer["Movie"].tolist() == [b"The Shawshank Redemption", b"Fight Club"]
    assert torch.equal(customer["Movie Ratings"], torch.tensor([9.0, 9.7]))
    assert customer["Suggestion"] == b"Inception"
    assert torch.equal(customer["Purchase Price"], torch.tensor(9.99))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(sys.argv[1] if sys.argv[1:] else scratch))
