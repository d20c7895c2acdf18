"""The page about policies runs, and gives what the public code of three projects takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tests.conftest import ROOT
from tests.support.pages import run_page


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the page once, and return its variables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT / "examples")
        return run_page("train-a-policy.md", Path(tmp_path_factory.mktemp("page")), [], 7)


def test_openpi(names: dict[str, Any]) -> None:
    batch = names["for_openpi"]
    # IterableTransformedDataset of data_loader.py takes the batch apart.
    size = next(column.shape[0] for column in batch.values())
    assert size == 8
    for number in range(size):
        sample = {name: column[number] for name, column in batch.items()}
        # LiberoInputs; an image whose first dimension is 3 would be CHW.
        for image in (sample["observation/image"], sample["observation/wrist_image"]):
            assert (image.dtype, image.shape[2]) == (np.uint8, 3)
            assert image.shape[0] > 3
        assert sample["observation/state"].shape == (7,)
        assert sample["actions"].shape == (16, 7)
        assert isinstance(sample["prompt"], str)  # or TokenizePrompt takes its item()


def test_lerobot(names: dict[str, Any]) -> None:
    batch = names["for_lerobot"]
    for name in ("image_0", "image_1"):
        image = batch[f"observation.images.{name}"]
        assert (image.dtype, image.shape[:2]) == (torch.float32, (8, 3))
        assert 0.5 < float(image.max()) <= 1
    assert batch["observation.state"].shape == (8, 7)
    # The loss of ACTPolicy.forward.
    loss = batch["action"].abs() * ~batch["action_is_pad"].unsqueeze(-1)
    assert loss.shape == (8, 16, 7)
    assert batch["action_is_pad"].any()
    assert batch["task"] == ["go to the red dot"] * 8


def test_openvla(names: dict[str, Any]) -> None:
    sample = names["for_openvla"]
    # RLDSBatchTransform.__call__.
    assert Image.fromarray(sample["observation"]["image_primary"][0]).size == (24, 24)
    assert sample["action"][0].shape == (7,)
    assert sample["task"]["language_instruction"].decode().lower() == "go to the red dot"


def test_normalization(names: dict[str, Any]) -> None:
    action = names["batch"]["action"]
    assert action.dtype == torch.float32
    normalized = names["for_lerobot"]["action"]
    assert float(normalized[..., :2].abs().max()) <= 1.0001
    assert set(normalized[..., 6].unique().tolist()) <= {0.0, 1.0}
    restored = names["normalize"].denormalize(normalized)
    assert float(restored[..., :2].abs().max()) <= 0.2001
