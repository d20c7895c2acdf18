"""Train on digits with Hugging Face Accelerate, in one process or several.

python examples/train_accelerate.py
torchrun --nproc-per-node=2 examples/train_accelerate.py

Interrupt it, or let it stop with ``--stop-after 30``, and continue with ``--resume``: it goes on
after the last saved step, and no record is missed or repeated.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from train_digits import DATA, SCHEMA, make_model  # type: ignore[import-not-found]

import torchrec_io as tio


def main() -> None:
    """Train, and print the accuracy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output" / "state")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--stop-after", type=int, metavar="STEPS")
    parser.add_argument("--resume", action="store_true", help="continue after the last saved step")
    args = parser.parse_args()
    accelerator = Accelerator(cpu=True)
    set_seed(0)

    # make_loader needs no prepare: each process reads its own share, on its device. A step waits
    # for all processes, so all need the same number of steps.
    train = tio.TFRecordDataset(
        DATA / "digits-train-*", SCHEMA, batch_size=32, shuffle=True, uneven="drop"
    )
    test = tio.TFRecordDataset(DATA / "digits-test-*", SCHEMA, batch_size=256, uneven="keep")
    loader = tio.make_loader(train, device=accelerator.device)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    model, optimizer = accelerator.prepare(model, optimizer)
    accelerator.register_for_checkpointing(loader, schedule)
    if args.resume:
        accelerator.load_state(str(args.output))

    steps = 0
    for epoch in range(schedule.last_epoch, args.epochs):
        loader.set_epoch(epoch)
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch["image/encoded"]), batch["label"])
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            steps += 1
            if steps == args.stop_after:
                accelerator.save_state(str(args.output))
                accelerator.print(f"stopped after {steps} steps")
                accelerator.end_training()
                return
        schedule.step()
        accelerator.save_state(str(args.output))

    model.eval()
    right = torch.zeros(2)
    for batch in tio.make_loader(test, device=accelerator.device):
        hits = model(batch["image/encoded"]).argmax(1) == batch["label"]
        right += torch.tensor([hits.sum(), len(hits)])
    right = accelerator.reduce(right)
    accelerator.print(f"processes: {accelerator.num_processes}, {steps} steps")
    accelerator.print(f"test accuracy {right[0] / right[1]:.4f}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
