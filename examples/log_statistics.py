"""Train on digits, and log where the time of loading goes to TensorBoard.

python examples/log_statistics.py [FOLDER]
tensorboard --logdir examples/output/statistics
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

import torchrec_io as tio

EXAMPLES = Path(__file__).parent
SCHEMA = {
    "image/encoded": tio.ImageFeature(channels=1, dtype="float32", size=(8, 8)),
    "label": tio.FixedLenFeature([], "int64"),
}
EPOCHS = 3
# Log after this many steps: often enough to see changes, rarely enough to cost nothing.
LOG_STEPS = 10


def main() -> None:
    """Train, log, and print what limits the speed."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else EXAMPLES / "output" / "statistics"
    torch.manual_seed(0)
    files = EXAMPLES / "data" / "digits" / "digits-train-*"
    dataset = tio.TFRecordDataset(files, SCHEMA, batch_size=32, shuffle=True, drop_last=True)
    loader = tio.make_loader(dataset)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    step = records = 0
    with SummaryWriter(str(folder)) as writer:
        for _ in range(EPOCHS):
            for batch in loader:
                loss = nn.functional.cross_entropy(model(batch["image/encoded"]), batch["label"])
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                step += 1
                if step % LOG_STEPS == 0:
                    stats = loader.stats()
                    records += stats.records
                    log(writer, stats, step)
    print(f"{step} steps, {records} records logged")
    print(loader.describe().splitlines()[-1])


def log(writer: SummaryWriter, stats: tio.LoadingStats, step: int) -> None:
    """Log all numbers, and the share of the time that the loop waited."""
    for name, number in stats.as_dict().items():
        writer.add_scalar(f"loading/{name}", number, step)
    share = stats.waiting_for_data / stats.seconds
    writer.add_scalar("loading/share_waiting", share, step)


if __name__ == "__main__":
    main()
