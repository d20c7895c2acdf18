"""Train a small policy by behaviour cloning on the data of two unlike robots.

Both datasets are RLDS directories that TensorFlow Datasets wrote. Their features have the names of
BridgeData V2 and of RT-1, so presets know them. A sample has two frames, and the next eight
actions, normalized by statistics. The run stops in the middle, and a second one resumes it.

    python examples/train_policy.py [--output DIR] [--epochs N]
    torchrun --nproc-per-node=2 examples/train_policy.py
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import torchrec_io as tio

DATA = Path(__file__).parent / "data" / "robots"
HORIZON = 8
WIDTH = 64
STOP_AFTER = 65  # steps; in the middle of an epoch
IMAGE = tio.SequenceFeature(tio.ImageFeature(size=(24, 24), dtype="float32"))
OFFSETS = {"observation": (-1, 0), "action": range(HORIZON)}

# The preset of each dataset, and functions for the rules that presets cannot apply to single steps.
ROBOTS: dict[str, tuple[str, dict[str, Callable[[Tensor], Tensor]]]] = {
    "arm": ("bridge_orig", {"binarize": lambda gripper: (gripper > 0.5).float()}),
    "gantry": ("fractal20220817_data", {"absolute": lambda gripper: (1 - gripper) / 2}),
}
TRAIN, TEST = "train[:80%]", "train[80%:]"  # of the episodes


def read(name: str, split: str) -> tio.TFRecordDataset:
    """Return samples of a robot in the form of both: an image, a state and the next actions."""
    preset = tio.presets.oxe(ROBOTS[name][0])
    camera = preset.cameras["primary"]
    others = dict.fromkeys(preset.cameras.values())  # are not read
    features: Any = {**others, camera: IMAGE}
    episodes = tio.TFRecordDataset.from_tfds(DATA / name, split, features=features)
    trained = tio.TFRecordDataset.from_tfds(DATA / name, TRAIN)
    normalized = {
        feature: stats.by("mean", "std", mask=preset.mask if feature == "steps/action" else None)
        for feature, stats in tio.statistics(trained.steps(), ["steps/action"]).items()
        if "gripper" not in feature  # is 0 or 1, and stays so
    }

    def to_one_form(sample: tio.Sample) -> dict[str, Tensor]:
        return {
            "image": sample["steps"]["observation"][camera.rpartition("/")[2]],
            "state": preset.concat(sample, "state"),
            "action": preset.concat(sample, "action", ROBOTS[name][1]),
        }

    steps = episodes.steps(OFFSETS, outside="repeat")
    schema = episodes.schema.normalized(normalized)
    return steps.replace(schema=schema, transform=to_one_form, shuffle=True, seed=1)


class Policy(nn.Module):
    """A transformer whose inputs are patches of two frames, two states, and a token per action."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 6, 6)
        self.state = nn.Linear(8, WIDTH)
        self.places = nn.Parameter(torch.randn(2 * 16 + 2 + HORIZON, WIDTH) * 0.1)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, 0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(WIDTH, 7)

    def forward(self, image: Tensor, state: Tensor) -> Tensor:
        """Return actions ``[B, HORIZON, 7]``.

        Args:
            image: float32 ``[B, 2, 3, 24, 24]``, from 0 to 1.
            state: float32 ``[B, 2, 8]``.
        """
        patches = self.patches(image.flatten(0, 1)).flatten(2).mT.reshape(len(image), -1, WIDTH)
        empty = patches.new_zeros(len(image), HORIZON, WIDTH)
        tokens = torch.cat([patches, self.state(state), empty], 1) + self.places
        actions: Tensor = self.head(self.encoder(tokens)[:, -HORIZON:])
        return actions


def error(model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
    """Return the mean squared error of motions, in units of their standard deviation, and of grips.

    The last number of an action is 1 for an open gripper, and 0 for a closed one.
    """
    return nn.functional.mse_loss(model(batch["image"], batch["state"]), batch["action"])


def train(saved: Path, epochs: int, stop_after: int | None) -> tuple[nn.Module, int]:
    """Train until the end, or until a step; return the model and the number of steps.

    If there is a saved run, it is continued.
    """
    torch.manual_seed(0)
    model: nn.Module = Policy()
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    robots = [read(name, TRAIN) for name in ROBOTS]
    mixed = tio.mix(
        robots,
        weights=[robot.num_records for robot in robots],
        stop="each_once",
        source="robot",
        batch_size=16,
        epochs=epochs,
        uneven="drop",
    )
    loader = tio.make_loader(mixed)
    done = 0
    if saved.exists():
        state = torch.load(saved, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["loader"])
        done = state["steps"]
    if dist.is_initialized():
        model = DistributedDataParallel(model)
    for batch in loader:
        loss = error(model, batch)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        done += 1
        if done == stop_after:
            break
    policy: nn.Module = getattr(model, "module", model)
    if not dist.is_initialized() or dist.get_rank() == 0:
        torch.save(
            {
                "model": policy.state_dict(),
                "optimizer": optimizer.state_dict(),
                "loader": loader.state_dict(),
                "steps": done,
            },
            saved,
        )
    if dist.is_initialized():
        dist.barrier()
    return policy, done


@torch.no_grad()
def test(model: nn.Module) -> dict[str, tuple[float, float]]:
    """Return the errors of the policy, and of one that does not move, by robot."""
    found = {}
    for name in ROBOTS:
        batch = next(iter(DataLoader(read(name, TEST), batch_size=1000)))
        motion = batch["action"][..., :6]
        missed = model(batch["image"], batch["state"])[..., :6] - motion
        found[name] = float(missed.square().mean()), float(motion.square().mean())
    return found


def run(folder: Path, epochs: int) -> None:
    """Train, stop, resume, and compare with a policy that does not move."""
    saved = folder / "policy.pt"
    _, stopped = train(saved, epochs, STOP_AFTER)
    model, steps = train(saved, epochs, None)
    results = test(model)
    if not dist.is_initialized() or dist.get_rank() == 0:
        print(f"stopped after {stopped} steps and resumed: {steps} steps in all")
        for name, (found, still) in results.items():
            print(f"{name}: mean squared error {found:.3f}, without motion {still:.3f}")
    if any(found > still / 2 for found, still in results.values()):
        raise SystemExit("the policy has not learned: something is wrong")


def main() -> None:
    """Parse the command line; join the processes that torchrun has started."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="folder of the saved run")
    parser.add_argument("--epochs", type=int, default=20)
    args = parser.parse_args()
    torch.set_num_threads(1)  # more would only wait for each other: the model is tiny
    if dist.is_torchelastic_launched():
        dist.init_process_group("gloo")
    with tempfile.TemporaryDirectory() as temporary:
        shared = [temporary]
        if dist.is_initialized():
            dist.broadcast_object_list(shared)  # all ranks use the folder of rank 0
        run(args.output or Path(shared[0]), args.epochs)
        if dist.is_initialized():
            dist.barrier()
            dist.destroy_process_group()


if __name__ == "__main__":
    main()
