"""Write a customer's record with values of every kind, print it, and read it back.

    python examples/customer_record.py [FOLDER]

The names and values come from a well-known tutorial on TFRecords. The stored dtype of a value
follows from its Python type, and a list may have any length.
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
    """Write the record, print it as a message, and read it as tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "customer_1.tfrecord"
    with tio.TFRecordWriter(path, index=True) as writer:
        writer.write(CUSTOMER)

    # Read a protobuf message, to print it or for code that uses messages.
    [message] = tio.TFRecordDataset(path, tio.Example.FromString)
    print(message)
    assert list(message.features.feature["Age"].int64_list.value) == [29]

    # Read tensors. A single record has no batch dimension.
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
