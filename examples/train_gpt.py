"""Train a tiny GPT on the documentation of this project, packed into rows, and resume it.

The pages are cut into paragraphs, one document each, whose tokens are bytes. Rows of 128 tokens
hold several of them. A mask keeps them apart: with ``flex_attention`` on a GPU, where it is
compiled, and with ``scaled_dot_product_attention`` elsewhere. The run stops in the middle, and a
second one resumes with exactly the rows that are left.

    python examples/train_gpt.py [--output DIR] [--epochs N] [--device cuda]
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import torchrec_io as tio

DOCS = Path(__file__).parent.parent / "docs"
LENGTH = 128
ROWS = 16
END = 256  # the token after each document
WIDTH = 96

# Query, key and value to what is attended to.
Attend: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]


def write_documents(path: Path) -> None:
    """Write the paragraphs of all pages, one record each."""
    with tio.TFRecordWriter(path) as writer:
        for page in sorted(DOCS.rglob("*.md")):
            for paragraph in re.split(r"\n\s*\n", page.read_text("utf-8")):
                if paragraph.strip():
                    writer.write({"tokens": list(paragraph.strip().encode())})


def make_dataset(path: Path, epochs: int) -> tio.TFRecordDataset:
    """Return the dataset of packed rows."""
    return tio.TFRecordDataset(
        path,
        {"tokens": tio.VarLenFeature("int64")},
        pack=tio.Pack(LENGTH, "tokens", separator=END, pad_id=END, labels="next"),
        batch_size=ROWS,
        shuffle=True,
        seed=1,
        epochs=epochs,
        drop_last=True,
    )


def attention_of(batch: tio.Batch) -> Attend:
    """Return the attention of rows in which documents do not see each other."""
    seg = batch["segment_ids"]
    if seg.device.type != "cuda":  # where flex_attention is not compiled, it is slow
        mask = (seg[:, None, :, None] == seg[:, None, None, :]).tril()
        return lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    blocks = create_block_mask(
        lambda b, h, q, k: (seg[b, q] == seg[b, k]) & (q >= k),  # noqa: ARG005
        len(seg),
        None,
        LENGTH,
        LENGTH,
        device="cuda",
    )
    return lambda q, k, v: _compiled_flex(q, k, v, block_mask=blocks)


_compiled_flex: Any = torch.compile(flex_attention, dynamic=False)


class Block(nn.Module):
    """Attention and a feed-forward layer."""

    def __init__(self, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor, attend: Attend) -> Tensor:
        """Return the hidden states ``[B, length, WIDTH]`` after this block."""
        parts = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1))
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        x = x + self.out(attend(q, k, v).transpose(1, 2).flatten(2))
        hidden: Tensor = x + self.feed(self.norms[1](x))
        return hidden


class Gpt(nn.Module):
    """A GPT of two blocks, for bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(END + 1, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, END + 1))

    def forward(self, batch: tio.Batch) -> Tensor:
        """Return the logits ``[B, length, END + 1]`` of packed rows."""
        x = self.tokens(batch["tokens"]) + self.places(batch["position_ids"])
        attend = attention_of(batch)
        for block in self.blocks:
            x = block(x, attend)
        logits: Tensor = self.head(x)
        return logits


def train(path: Path, saved: Path, epochs: int, device: str, stop_after: int | None) -> list[float]:
    """Train until the end, or until the step ``stop_after``, and save; return the losses.

    If there is a saved run, it is continued.
    """
    torch.manual_seed(0)
    model = Gpt().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    dataset = make_dataset(path, epochs)
    loader = tio.make_loader(dataset, device=device)
    losses: list[float] = []
    if saved.exists():
        state = torch.load(saved, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["loader"])
        losses = state["losses"]
    for batch in loader:
        logits, labels = model(batch), batch["labels"]
        loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(float(loss.detach()))
        if len(losses) == stop_after:
            break
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "loader": loader.state_dict(),
            "losses": losses,
        },
        saved,
    )
    return losses


def main() -> None:
    """Train, stop, resume, and say what was learned."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="folder of the data and the saved run")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.output or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        path, saved = folder / "docs.tfrecord", folder / "run.pt"
        write_documents(path)
        saved.unlink(missing_ok=True)
        dataset = make_dataset(path, args.epochs)
        steps = len(dataset)
        print(f"{dataset.num_records} documents in {steps} steps of {ROWS} rows of {LENGTH} tokens")
        begin = time.perf_counter()
        half = train(path, saved, args.epochs, args.device, steps // 2)
        losses = train(path, saved, args.epochs, args.device, None)
        assert losses[: len(half)] == half
        assert len(losses) == steps
        print(f"stopped after {len(half)} steps and resumed: {len(losses)} steps in all")
        print(f"loss {losses[0]:.2f} to {sum(losses[-10:]) / 10:.2f}", end="")
        print(f" in {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
