"""Train on digits with several processes, each of which reads its own part of the records.

torchrun --nproc-per-node=2 examples/train_ddp.py
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import torchrec_io as tio

DATA = Path(__file__).parent / "data" / "digits"
SCHEMA = {
    "image/encoded": tio.ImageFeature(channels=1, dtype="float32", size=(8, 8)),
    "label": tio.FixedLenFeature([], "int64"),
}


def check_parts(keys: list[str], num_records: int) -> int:
    """Check that the ranks read each record once, and return how many they read twice as padding.

    Fewer than ``world_size`` records are repeated, so that all ranks get equally many.
    """
    parts: list[list[str]] = [[] for _ in range(dist.get_world_size())]
    dist.all_gather_object(parts, keys)
    repeated = sum(map(len, parts)) - num_records
    equal = len(set(map(len, parts))) == 1
    if len(set().union(*parts)) != num_records or repeated >= len(parts) or not equal:
        raise SystemExit(f"records are missing, or parts differ in size: {[*map(len, parts)]}")
    return repeated


def accuracy(model: nn.Module) -> float:
    """Return the accuracy on the test digits, each of which is read by one rank."""
    test = tio.TFRecordDataset(DATA / "digits-test-*", SCHEMA, batch_size=256)
    right = torch.zeros(2)
    for batch in DataLoader(test, batch_size=None):
        hits = model(batch["image/encoded"]).argmax(1) == batch["label"]
        right += torch.tensor([hits.sum(), len(hits)])
    dist.all_reduce(right)
    return float(right[0] / right[1])


def main() -> None:
    """Train, and check the records and the accuracy."""
    if not dist.is_torchelastic_launched():
        raise SystemExit(
            "start this with torchrun, which runs several processes:\n"
            "torchrun --nproc-per-node=2 examples/train_ddp.py"
        )
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    # The dataset gets its rank from torch.distributed. A step waits for all ranks, so all need
    # the same number of steps: "pad" repeats a few records, "drop" would leave a few out.
    train = tio.TFRecordDataset(
        DATA / "digits-train-*", SCHEMA, batch_size=32, shuffle=True, uneven="pad", with_key=True
    )
    loader = DataLoader(train, batch_size=None, num_workers=1, persistent_workers=True)
    model = DistributedDataParallel(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for epoch in range(12):
        train.set_epoch(epoch)  # the same on every rank: they share one order
        keys: list[str] = []
        for some_keys, batch in loader:
            loss = nn.functional.cross_entropy(model(batch["image/encoded"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            keys += some_keys
        repeated = check_parts(keys, train.num_records)
    got = accuracy(model.module)
    if dist.get_rank() == 0:
        work = f"{dist.get_world_size()} ranks of {len(train)} steps: {train.num_records} records"
        print(f"{work}, {repeated} of them repeated; test accuracy {got:.4f}")
    dist.destroy_process_group()
    if got < 0.9:
        raise SystemExit("the accuracy is below 0.9: something is wrong")


if __name__ == "__main__":
    main()
