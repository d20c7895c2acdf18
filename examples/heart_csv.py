"""A table of patients as CSV, its header skipped, and a model that tells who is ill.

    python examples/heart_csv.py [FOLDER]

The columns are those of the public table of heart disease patients of Cleveland. The rows are made
up here. A line is a record, so a CSV file is shuffled, split and batched like any other.
"""

from __future__ import annotations

import csv
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import torchrec_io as tio

# Lowest and highest value of each column of numbers.
RANGES = {
    "age": (29, 77), "sex": (0, 1), "cp": (0, 3), "trestbps": (94, 200), "chol": (126, 564),
    "fbs": (0, 1), "restecg": (0, 2), "thalach": (71, 202), "exang": (0, 1), "oldpeak": (0, 4),
    "slope": (1, 3), "ca": (0, 3),
}  # fmt: skip
THAL = (b"normal", b"fixed", b"reversible")
# In the order of the file. An empty field has the default; without a default it is an error.
COLUMNS = {
    **{name: tio.FixedLenFeature([], "float32") for name in RANGES},
    "thal": tio.FixedLenFeature([], "string", default_value="normal"),
    "target": tio.FixedLenFeature([], "int64"),
}


def write(path: Path, rows: int) -> None:
    """Writes made-up patients; exang, oldpeak and ca say who is ill. Some fields are empty."""
    random = np.random.default_rng(1)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for _ in range(rows):
            row = {name: random.integers(*ends, endpoint=True) for name, ends in RANGES.items()}
            ill = row["exang"] + row["oldpeak"] + row["ca"] + random.normal(0, 0.3) > 4.5
            thal = THAL[random.integers(3)].decode() if random.random() < 0.95 else ""
            table.writerow([*row.values(), thal, int(ill)])


def inputs_of(batch: tio.Batch) -> Tensor:
    """Numbers from 0 to 1, and a column for each kind of thal: ``[B, 15]``."""
    numbers = [(batch[name] - low) / (high - low) for name, (low, high) in RANGES.items()]
    kinds = torch.tensor([THAL.index(kind) for kind in batch["thal"].tolist()])
    return torch.cat([torch.stack(numbers, 1), nn.functional.one_hot(kinds, 3)], 1)


def main(folder: Path) -> None:
    """Writes the table, trains on 80 % of it, and asks for 85 % on the rest."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the model is too small to gain from more
    folder.mkdir(parents=True, exist_ok=True)
    # Where indexes of texts are kept; by default in the user's cache directory.
    os.environ.setdefault("TORCHREC_IO_CACHE", str(folder))
    write(folder / "heart.csv", 600)

    table = tio.TextLineDataset(
        folder / "heart.csv", tio.csv.Schema(COLUMNS), skip_header_lines=1, batch_size=32
    )
    train, test = table.split(0.8, 0.2, seed=1)
    print(f"{table.num_records} patients: {train.num_records} train, {test.num_records} test")
    model = nn.Linear(15, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-2)
    for batch in train.replace(shuffle=True, epochs=20):
        scores = model(inputs_of(batch))[:, 0]
        loss = nn.functional.binary_cross_entropy_with_logits(scores, batch["target"].float())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    right = [(model(inputs_of(batch))[:, 0] > 0) == batch["target"].bool() for batch in test]
    accuracy = torch.cat(right).float().mean().item()
    print(f"accuracy {accuracy:.3f} on patients that the model has not seen")
    if accuracy < 0.85:
        raise SystemExit("the accuracy is below 0.85: something is wrong")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(sys.argv[1] if sys.argv[1:] else scratch))
