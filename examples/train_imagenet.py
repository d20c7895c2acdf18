"""Train a small ResNet on JPEGs in TFRecord files, in one process or several.

    python examples/train_imagenet.py
    torchrun --nproc-per-node=2 examples/train_imagenet.py

Stop it with Ctrl-C, and continue with --resume, also with another number of processes. Training
continues in the middle of the epoch: no image is missed or repeated.

The files have the names and features of ImageNet's. If there are none, imagenet_files.py makes
2,000 small images in 8 classes. To train on ImageNet itself, name the folder of its files:

    python examples/train_imagenet.py --data FOLDER --classes 1000 --size 224 --batch-size 256
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from imagenet_files import CLASSES, FOLDER, make_missing_files  # type: ignore[import-not-found]
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import torchrec_io as tio
from torchrec_io._loading.loader import Loader

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
REPORT_STEPS = 10  # steps between two reports of the progress
SAVE_STEPS = 100  # steps between two checkpoints


# ---- data ----


def make_missing_data(folder: Path) -> None:
    """Make the files that do not exist in the first process, while the others wait."""
    if is_first():
        make_missing_files(folder)
    if dist.is_initialized():
        dist.barrier()


def make_datasets(args: argparse.Namespace) -> tuple[tio.TFRecordDataset, tio.TFRecordDataset]:
    """Return the datasets for training and validation; each process reads its share of them."""
    ranks = dist.get_world_size() if dist.is_initialized() else 1
    if args.batch_size % ranks:
        raise SystemExit(f"--batch-size must be a multiple of {ranks}, the number of processes")
    batch_size = args.batch_size // ranks
    # Decoding, cropping, resizing, mirroring and normalizing are one pass in native code.
    image = functools.partial(
        tio.ImageFeature, size=(args.size, args.size), dtype=args.dtype, mean=MEAN, std=STD
    )
    augmented = image(augment=tio.RandomResizedCrop())
    center = image(resize="cover", short_side=args.size * 8 // 7)  # 256 for 224
    label = tio.FixedLenFeature([], "int64")
    # A training step waits for all ranks, so all need the same number of steps: "drop" leaves out
    # fewer images than there are ranks. In validation, every image counts once.
    train = tio.TFRecordDataset(
        args.data / "train-*",
        {"image/encoded": augmented, "image/class/label": label},
        batch_size=batch_size,
        shuffle=True,
        seed=args.seed,
        uneven="drop",
    )
    validation = tio.TFRecordDataset(
        args.data / "validation-*",
        {"image/encoded": center, "image/class/label": label},
        batch_size=batch_size,
        uneven="keep",
    )
    return train, validation


# ---- model ----


class Block(nn.Module):
    """Two convolutions with a connection around them, for input ``[B, inputs, H, W]``.

    Args:
        inputs: Number of channels of the input.
        outputs: Number of channels of the output.
        stride: Factor by which the output is smaller than the input.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.around = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        """Return ``[B, outputs, H / stride, W / stride]``."""
        return torch.relu(self.body(images) + self.around(images))


def make_model(classes: int) -> nn.Module:
    """Return a ResNet with 300,000 weights for images ``[B, 3, H, W]`` of any size."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        Block(32, 32, 1),
        Block(32, 64, 2),
        Block(64, 128, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, classes),
    )


# ---- training ----


@dataclass
class Run:
    """A training run.

    Attributes:
        model: The model.
        trained: The model as it is trained: with several processes, it averages their gradients.
        optimizer: The optimizer.
        loader: Loader of the training data.
        checkpoint: File of the checkpoint.
        epochs: Number of epochs.
        autocast: Dtype of the model's computation.
        step: Number of steps that are done.
    """

    model: nn.Module
    trained: nn.Module
    optimizer: torch.optim.Optimizer
    loader: Loader
    checkpoint: Path
    epochs: int
    autocast: torch.dtype
    step: int = 0

    @property
    def device(self) -> torch.device:
        """Device of the model and of the batches."""
        return next(self.model.parameters()).device

    @property
    def total_steps(self) -> int:
        """Number of steps of all epochs."""
        return self.epochs * len(self.loader)

    def save(self) -> None:
        """Save the model, the optimizer and the position in the data, in the first process.

        All processes have done the same steps, so its position is valid for all of them.
        """
        if is_first():
            content = {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "loader": self.loader.state_dict(),
                "step": self.step,
            }
            self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
            new = self.checkpoint.with_suffix(".new")
            torch.save(content, new)
            os.replace(new, self.checkpoint)  # a kill while saving leaves the old checkpoint

    def load(self) -> None:
        """Continue where the checkpoint was saved."""
        if not self.checkpoint.exists():
            raise SystemExit(f"there is no checkpoint {self.checkpoint}: start without --resume")
        content = torch.load(self.checkpoint, map_location=self.device)
        self.model.load_state_dict(content["model"])
        self.optimizer.load_state_dict(content["optimizer"])
        self.loader.load_state_dict(content["loader"])
        self.step = content["step"]


def is_first() -> bool:
    """Return whether this is the only process, or the first of several."""
    return not dist.is_initialized() or dist.get_rank() == 0


def sum_of_ranks(numbers: list[float], device: torch.device) -> list[float]:
    """Return the sum of each number over all processes."""
    total = torch.tensor(numbers, device=device)
    if dist.is_initialized():
        dist.all_reduce(total)
    sums: list[float] = total.tolist()
    return sums


def learning_rate(done: float) -> float:
    """Return the learning rate after a share of the steps, from 0 to 1: it rises, then falls."""
    return 4e-3 * min(1.0, 10 * done + 0.1) * (1 + math.cos(math.pi * done)) / 2


def predict(model: nn.Module, batch: tio.Batch, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the logits ``[B, classes]`` and the labels ``[B]`` from 0."""
    images, labels = batch["image/encoded"], batch["image/class/label"] - 1
    with torch.autocast(images.device.type, dtype, enabled=dtype != torch.float32):
        logits = model(images)
    return logits.float(), labels


def train_step(run: Run, batch: tio.Batch) -> Tensor:
    """Train on one batch, and return the loss."""
    for group in run.optimizer.param_groups:
        group["lr"] = learning_rate(run.step / run.total_steps)
    loss = nn.functional.cross_entropy(*predict(run.trained, batch, run.autocast))
    run.optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    run.optimizer.step()
    run.step += 1
    return loss.detach()


def train_epoch(run: Run, signals: list[int]) -> bool:
    """Train to the end of the epoch, or until a process has received a signal.

    The processes share their signals when they report, so that all stop after the same step.

    Returns:
        Whether a signal was received.
    """
    steps = len(run.loader)
    run.trained.train()
    run.loader.stats()  # drop the time between epochs
    losses: list[Tensor] = []
    for batch in run.loader:
        losses.append(train_step(run, batch))
        if run.step % SAVE_STEPS == 0:
            run.save()
        if len(losses) == REPORT_STEPS or run.step % steps == 0:
            if report(run, torch.stack(losses).mean().item(), len(signals)):
                return True
            losses.clear()
    return False


def report(run: Run, loss: float, signals: int) -> bool:
    """Print the progress of all processes, and return whether one of them received a signal.

    Args:
        run: The training run.
        loss: Mean loss of the steps since the last report.
        signals: Number of signals that this process has received.
    """
    stats = run.loader.stats()  # since the last report
    numbers = [1, loss, stats.records, stats.seconds, stats.waiting_for_data, signals]
    ranks, loss, images, seconds, waited, signals_of_all = sum_of_ranks(numbers, run.device)
    if is_first():
        epoch, step = divmod(run.step - 1, len(run.loader))
        line = (
            f"epoch {epoch + 1:2}/{run.epochs}  step {step + 1:4}/{len(run.loader)}  "
            f"loss {loss / ranks:.3f}  {images * ranks / seconds:7,.0f} images/s  "
            f"waited {waited / seconds:4.0%}"
        )
        # In a terminal, the next report overwrites this one.
        is_last = step + 1 == len(run.loader) or signals_of_all > 0
        print(line, end="\r" if sys.stdout.isatty() and not is_last else "\n", flush=True)
    return signals_of_all > 0


@torch.no_grad()
def evaluate(run: Run, validation: Loader) -> float:
    """Return the accuracy on the validation images, each of which is read by one process."""
    if dist.is_initialized():
        for buffer in run.model.buffers():  # each process has normalized its own batches
            dist.broadcast(buffer, 0)
    run.model.eval()
    right = count = 0
    for batch in validation:
        logits, labels = predict(run.model, batch, run.autocast)
        right += int((logits.argmax(1) == labels).sum())
        count += len(labels)
    hits, images = sum_of_ranks([right, count], run.device)
    return hits / images


@contextmanager
def collected_signals() -> Iterator[list[int]]:
    """Collect Ctrl-C and SIGTERM in a list, so that a step and its checkpoint are completed."""
    received: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {each: signal.signal(each, lambda got, _: received.append(got)) for each in numbers}
    try:
        yield received
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def train(run: Run, validation: Loader) -> None:
    """Train the epochs that are left. Save a checkpoint after each, and when stopped."""
    if run.step >= run.total_steps:
        raise SystemExit(f"the checkpoint is at the end: add --epochs with more than {run.epochs}")
    with collected_signals() as signals:
        while run.step < run.total_steps:
            is_stopped = train_epoch(run, signals)
            run.save()
            epoch, left = divmod(run.step, len(run.loader))
            if left == 0:
                accuracy = evaluate(run, validation)
                if is_first():
                    print(f"epoch {epoch:2}/{run.epochs}  validation accuracy {accuracy:.3f}")
            if is_stopped:
                text = f"stopped after step {run.step}; add --resume to continue"
                raise SystemExit(text if is_first() else 1)
    if is_first():
        print(run.loader.describe().splitlines()[-1])


# ---- program ----


class HelpFormatter(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    """Help that keeps the lines of the description, and shows the default of each option."""


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    option = functools.partial(parser.add_argument, metavar="N", type=int)
    option(
        "--data",
        metavar="FOLDER",
        type=Path,
        default=FOLDER,
        help="folder of the files train-* and validation-*",
    )
    option(
        "--checkpoint",
        metavar="FILE",
        type=Path,
        default=FOLDER.with_suffix(".pt"),
        help="file to save checkpoints in",
    )
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoint")
    option("--epochs", default=5, help="number of epochs")
    option("--batch-size", default=64, help="images in a step, of all processes together")
    option("--size", default=64, help="height and width of the images that the model gets")
    option("--classes", default=CLASSES, help="number of classes; labels start at 1")
    option("--seed", default=0, help="seed of the weights, of the order and of the crops")
    parser.add_argument(
        "--dtype",
        choices=("float32", "bfloat16"),
        default="float32",
        help="dtype of the images and of the computation",
    )
    return parser.parse_args(arguments)


def choose_device() -> torch.device:
    """Return the GPU of this process, or the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device


def main(arguments: list[str] | None = None) -> None:
    """Train, print the progress and the accuracy, and save checkpoints."""
    args = parse_arguments(arguments)
    device = choose_device()
    is_distributed = dist.is_torchelastic_launched()  # by torchrun
    if is_distributed:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        make_missing_data(args.data)
        train_data, validation_data = make_datasets(args)
        torch.manual_seed(args.seed)
        model = make_model(args.classes).to(device)
        # With a GPU, batches are in page-locked memory, and are copied during computation.
        run = Run(
            model=model,
            trained=DistributedDataParallel(model) if is_distributed else model,
            optimizer=torch.optim.AdamW(model.parameters(), weight_decay=0.05),
            loader=tio.make_loader(train_data, device=device),
            checkpoint=args.checkpoint,
            epochs=args.epochs,
            autocast=getattr(torch, args.dtype),
        )
        if args.resume:
            run.load()
        train(run, tio.make_loader(validation_data, device=device))
    finally:
        if is_distributed:
            dist.destroy_process_group()


if __name__ == "__main__":
    main()
