"""Train on digits with Ray Train, stop in the middle of an epoch, and resume with other workers.

python examples/train_ray.py [--workers 2 3] [--epochs 3]

Each number of workers is a run. All but the last one stop after some steps, and the next one
continues from the last checkpoint. Every epoch reads each record once, whoever reads it.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import ray
import ray.train
import ray.train.torch
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import torchrec_io as tio

DATA = Path(__file__).resolve().parent / "data" / "digits"
SCHEMA = {
    "image/encoded": tio.ImageFeature(channels=1, dtype="float32", size=(8, 8)),
    "label": tio.FixedLenFeature([], "int64"),
}
GLOBAL_BATCH = 48  # records of a step of all workers together
CHECKPOINT_STEPS = 10


class Run:
    """The state of training in one worker: what a checkpoint holds."""

    def __init__(self) -> None:
        workers = dist.get_world_size()
        # The dataset gets its rank and the number of ranks from torch.distributed.
        self.dataset = tio.TFRecordDataset(
            DATA / "digits-train-*",
            SCHEMA,
            batch_size=GLOBAL_BATCH // workers,
            shuffle=True,
            with_key=True,
        )
        self.loader = tio.make_loader(self.dataset)
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
        self.model: Any = ray.train.torch.prepare_model(model) if workers > 1 else model
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=5e-3)
        self.epoch = 0
        self.keys: list[str] = []  # of the records that all workers have read in this epoch

    def parts(self) -> dict[str, Any]:
        """Return everything that has a state."""
        model = self.model
        plain = model.module if isinstance(model, DistributedDataParallel) else model
        return {"model": plain, "optimizer": self.optimizer, "loader": self.loader}

    def load(self, checkpoint: ray.train.Checkpoint) -> None:
        """Continue from a checkpoint of any number of workers."""
        with checkpoint.as_directory() as folder:
            state = torch.load(Path(folder) / "state.pt")
        self.epoch, self.keys = state["epoch"], state["keys"]
        for name, part in self.parts().items():
            part.load_state_dict(state[name])

    def save(self, **metrics: float) -> None:
        """Report a checkpoint. The state of one worker is good for all of them."""
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if dist.get_rank() == 0:
                state = {name: part.state_dict() for name, part in self.parts().items()}
                state |= {"epoch": self.epoch, "keys": self.keys}
                torch.save(state, Path(folder) / "state.pt")
                checkpoint = ray.train.Checkpoint.from_directory(folder)
            ray.train.report({"epoch": self.epoch, **metrics}, checkpoint=checkpoint)

    def step(self, keys: list[str], batch: tio.Batch) -> None:
        """Train on a batch."""
        all_keys: list[list[str]] = [[] for _ in range(dist.get_world_size())]
        dist.all_gather_object(all_keys, keys)
        for part in all_keys:
            self.keys += part
        logits = self.model(batch["image/encoded"])
        loss = nn.functional.cross_entropy(logits, batch["label"], reduction="sum")
        # DDP averages over workers, whose parts of the last step differ in size.
        loss = loss * len(all_keys) / sum(map(len, all_keys))
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def check_epoch(self) -> None:
        """Check that the epoch had each record once, also if several runs read it."""
        expected = self.dataset.num_records
        if not len(self.keys) == len(set(self.keys)) == expected:
            raise SystemExit(f"{len(self.keys)} records instead of {expected}")
        self.keys = []

    @torch.no_grad()
    def accuracy(self) -> float:
        """Return the accuracy on the test digits, each of which is read by one worker."""
        test = tio.TFRecordDataset(DATA / "digits-test-*", SCHEMA, batch_size=256)
        right = torch.zeros(2)
        for batch in tio.make_loader(test):
            hits = self.model(batch["image/encoded"]).argmax(1) == batch["label"]
            right += torch.tensor([hits.sum(), len(hits)])
        dist.all_reduce(right)
        return float(right[0] / right[1])


def train(config: dict[str, Any]) -> None:
    """Train in a worker."""
    run = Run()
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        run.load(checkpoint)
    steps = 0
    for epoch in range(run.epoch, config["epochs"]):
        run.epoch = epoch
        run.loader.set_epoch(epoch)
        for keys, batch in run.loader:
            run.step(keys, batch)
            steps += 1
            if steps % CHECKPOINT_STEPS == 0:
                run.save(steps=steps)
            if steps == config["stop_after"]:
                return
        run.check_epoch()
    run.save(steps=steps, accuracy=run.accuracy())


def main() -> None:
    """Train in several runs, and print the result of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 3], metavar="N")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--stop-after", type=int, default=44, metavar="STEPS")
    parser.add_argument("--storage", help="folder of checkpoints that all machines share")
    parser.add_argument(
        "--address", default="local", help="address of a Ray cluster; local starts one here"
    )
    args = parser.parse_args()
    ray.init(args.address, log_to_driver=False)
    with tempfile.TemporaryDirectory() as folder:
        metrics: dict[str, Any] = {}
        for number, workers in enumerate(args.workers):
            stop_after = args.stop_after if number + 1 < len(args.workers) else None
            result = ray.train.torch.TorchTrainer(
                train,
                train_loop_config={"epochs": args.epochs, "stop_after": stop_after},
                # Parts of a CPU, so that this runs on a small machine.
                scaling_config=ray.train.ScalingConfig(
                    num_workers=workers, resources_per_worker={"CPU": 0.5}
                ),
                # A run of the same name continues from its last checkpoint.
                run_config=ray.train.RunConfig(name="digits", storage_path=args.storage or folder),
            ).fit()
            metrics = result.metrics or {}
            print(f"{workers} workers: epoch {metrics['epoch']}, {metrics['steps']} steps")
    ray.shutdown()
    print(f"test accuracy {metrics['accuracy']:.4f}")


if __name__ == "__main__":
    main()
