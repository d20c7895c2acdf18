"""Train an RNN on padded batches of SequenceExamples of different lengths.

    python examples/sequences_rnn.py [FOLDER]

The context of a record holds its length. Its feature lists hold one token and one label per step.
The label of a step is the previous token, so the model needs memory.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import torchrec_io as tio

RECORDS, LONGEST, TOKENS = 600, 12, 8
SCHEMA = tio.Schema(
    context={"length": tio.FixedLenFeature([], "int64")},
    sequence={
        # [B, T], where T is the longest sequence of the batch; shorter ones are padded with 0.
        "tokens": tio.FixedLenSequenceFeature([], "int64"),
        "labels": tio.FixedLenSequenceFeature([], "int64"),
    },
)


def write(path: Path) -> None:
    """Write sequences of 1 to 12 tokens."""
    random = np.random.default_rng(1)
    with tio.TFRecordWriter(path, index=True) as writer:
        for _ in range(RECORDS):
            tokens = random.integers(1, TOKENS, random.integers(1, LONGEST + 1))
            labels = np.concatenate([[0], tokens[:-1]])
            context = {"length": len(tokens)}
            steps = {"tokens": tokens, "labels": labels}
            writer.write(tio.encode_sequence_example(context, steps))


class Tagger(nn.Module):
    """A model that predicts a label for each step."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, 16)
        self.rnn = nn.GRU(16, 32, batch_first=True)
        self.output = nn.Linear(32, TOKENS)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return scores ``[B, T, TOKENS]``. Padding steps are not computed."""
        packed = pack_padded_sequence(
            self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False
        )
        states, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        scores: Tensor = self.output(states)
        return scores


def main(folder: Path) -> None:
    """Write the sequences, train for four epochs, and require a loss below 0.1."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the model is too small to benefit from more threads
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "sequences.tfrecord")
    dataset = tio.TFRecordDataset(
        folder / "sequences.tfrecord", SCHEMA, batch_size=32, shuffle=True, seed=1, epochs=4
    )
    model = Tagger()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2)
    for step, batch in enumerate(dataset):
        tokens, labels, lengths = batch["tokens"], batch["labels"], batch.lengths["tokens"]
        assert torch.equal(lengths, batch["length"])
        is_token = torch.arange(tokens.shape[1]) < lengths[:, None]  # [B, T], False for padding
        loss = nn.functional.cross_entropy(model(tokens, lengths)[is_token], labels[is_token])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step:3}  {list(tokens.shape)} tokens padded  loss {loss.item():.4f}")
    print(f"loss at the end {loss.item():.4f}")
    if loss.item() > 0.1:
        raise SystemExit("the loss is above 0.1: something is wrong")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(sys.argv[1] if sys.argv[1:] else scratch))
