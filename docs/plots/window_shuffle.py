"""Draw window_shuffle.png and print the tables of docs/shuffling.md, all computed from the orders.

python docs/plots/window_shuffle.py [picture]
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from pathlib import Path

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from torchrec_io._order.lanes import Blocks
from torchrec_io._order.plan import EpochPlan
from torchrec_io._order.selection import Span
from torchrec_io._order.shuffle import Shuffle, ShuffleChoice, lanes_of, records_at

Numbers = npt.NDArray[np.int64]

PICTURE = Path(__file__).with_suffix(".png")
NUM_RECORDS = 1_000_000
RECORDS_OF_LABEL = 1_000  # stored label by label
BATCH_SIZE = 256
NUM_BATCHES = NUM_RECORDS // BATCH_SIZE
WINDOW = 10_000
BLOCKS = Shuffle(block=1_000, window=16_000)
SEED, EPOCH = 1, 0

CHOICES: dict[str, ShuffleChoice] = {
    "`False`": False,
    "`1_000`": 1_000,
    "`10_000`": WINDOW,
    "`40_000`": 40_000,
    "`100_000`": 100_000,
    "`Shuffle(block=1_000, window=16_000)`": BLOCKS,
    "`Shuffle(block=100, window=16_000)`": Shuffle(block=100, window=16_000),
    "`Shuffle(block=1_000, window=2_000, lanes=64)`": Shuffle(block=1_000, window=2_000, lanes=64),
    "`True`": True,
}

# Shuffles of several ranks, each with a batch of BATCH_SIZE records.
WORLD_SIZE = 8
OF_RANKS: dict[str, ShuffleChoice] = {
    "`Shuffle(block=1_000, window=16_000)`": BLOCKS,
    "`Shuffle(block=1_000, window=16_000, lanes=8)`": Shuffle(block=1_000, window=16_000, lanes=8),
    "`Shuffle(block=1_000, window=2_000, lanes=64)`": Shuffle(block=1_000, window=2_000, lanes=64),
    "`Shuffle(block=100, window=2_000, lanes=64)`": Shuffle(block=100, window=2_000, lanes=64),
    "`True`": True,
}


def order_of(shuffle: ShuffleChoice, positions: Numbers | None = None) -> Numbers:
    """Return the records at positions of an epoch; by default at all positions."""
    if positions is None:
        positions = np.arange(NUM_RECORDS)
    return records_at(positions, NUM_RECORDS, shuffle, SEED, EPOCH)


def order_of_buffer(size: int) -> Numbers:
    """Return the order of ``tf.data.Dataset.shuffle(size)``, which buffers records."""
    buffer = list(range(size))
    picks = np.random.default_rng(SEED).integers(0, size, NUM_RECORDS - size).tolist()
    order = []
    for record, pick in enumerate(picks, start=size):
        order.append(buffer[pick])
        buffer[pick] = record
    rest = np.random.default_rng(SEED + 1).permutation(buffer)
    return np.concatenate((np.array(order), rest))


# ---- numbers ----


def batches_of(order: Numbers) -> Numbers:
    """Return the records of full batches, each batch sorted."""
    return np.sort(order[: NUM_BATCHES * BATCH_SIZE].reshape(NUM_BATCHES, BATCH_SIZE), axis=1)


def labels_in_a_batch(batches: Numbers) -> float:
    """Return the mean number of different labels in a batch."""
    labels = batches // RECORDS_OF_LABEL
    return float(1 + (np.diff(labels, axis=1) != 0).sum(axis=1).mean())


def neighbours_in_a_batch(batches: Numbers) -> float:
    """Return the share of records whose next record in the file is in the same batch."""
    return float((np.diff(batches, axis=1) == 1).mean())


def blocks_of(records: Numbers, shuffle: Shuffle) -> Numbers:
    """Return the block of each record."""
    assert shuffle.block is not None
    if shuffle.lanes is None:
        return records // shuffle.block
    whole = Span(0, NUM_RECORDS, NUM_RECORDS)
    return Blocks(whole, shuffle.block, shuffle.lanes).block_of(records)


def block_reads(batches: Numbers, shuffle: Shuffle) -> float:
    """Return the mean number of block reads for a batch, if the last used blocks stay in memory."""
    assert shuffle.window is not None
    assert shuffle.block is not None
    keep = (-(-shuffle.window // shuffle.block) + 3) * (shuffle.lanes or 1)
    held: OrderedDict[int, None] = OrderedDict()
    reads = 0
    for batch in batches:
        blocks = np.unique(blocks_of(batch, shuffle)).tolist()
        for block in sorted(blocks, key=lambda block: block not in held):
            reads += block not in held
            held[block] = None
            held.move_to_end(block)
            if len(held) > keep:
                held.popitem(last=False)
    return reads / len(batches)


def table() -> str:
    """Return the table of docs/shuffling.md."""
    lines = [
        "| Shuffle | Moved, mean | Moved, max. | Labels per batch | Neighbours | Reads per batch |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    orders = {name: order_of(shuffle) for name, shuffle in CHOICES.items()}
    orders["`tf.data`, buffer of 10,000"] = order_of_buffer(WINDOW)
    for name, order in orders.items():
        moved = np.abs(order - np.arange(NUM_RECORDS))
        batches = batches_of(order)
        shuffle = CHOICES.get(name)
        if isinstance(shuffle, Shuffle):
            reads = block_reads(batches, shuffle)
        else:
            reads = 1 + float((np.diff(batches, axis=1) != 1).sum(axis=1).mean())
        if name not in CHOICES:
            reads = 1  # it reads from front to back
        lines.append(
            f"| {name} | {moved.mean():,.0f} | {moved.max():,} | {labels_in_a_batch(batches):.1f} "
            f"| {100 * neighbours_in_a_batch(batches):.3g} % | {reads:.3g} |"
        )
    return "\n".join(lines)


def read_by_a_rank(records: Numbers, shuffle: ShuffleChoice) -> float:
    """Return the part of all records that a rank reads for its own ones."""
    if not isinstance(shuffle, Shuffle):
        return len(records) / NUM_RECORDS
    used = np.unique(blocks_of(records, shuffle))
    return float(np.isin(blocks_of(np.arange(NUM_RECORDS), shuffle), used).mean())


def table_of_ranks() -> str:
    """Return the table of docs/shuffling.md for several ranks."""
    lines = [
        "| Shuffle | Labels per batch of a rank | Labels per global batch | Read by a rank |",
        "| --- | ---: | ---: | ---: |",
    ]
    step = WORLD_SIZE * BATCH_SIZE
    for name, shuffle in OF_RANKS.items():
        lanes = lanes_of(shuffle)
        plan = EpochPlan(NUM_RECORDS, BATCH_SIZE, world_size=WORLD_SIZE, lanes=lanes)
        order = order_of(shuffle)
        steps = np.sort(order[: NUM_RECORDS // step * step].reshape(-1, step), axis=1)
        own = order[np.concatenate(list(plan.batches()))]
        batches = np.sort(own[: len(steps) * BATCH_SIZE].reshape(-1, BATCH_SIZE), axis=1)
        lines.append(
            f"| {name} | {labels_in_a_batch(batches):.1f} | {labels_in_a_batch(steps):.1f} "
            f"| {100 * read_by_a_rank(own, shuffle):.3g} % |"
        )
    return "\n".join(lines)


# ---- picture ----


def draw_order(axes: Axes, title: str, shuffle: ShuffleChoice) -> None:
    """Plot the record at each position of an epoch."""
    positions = np.sort(np.random.default_rng(0).integers(0, NUM_RECORDS, 3_000))
    axes.plot(positions, order_of(shuffle, positions), ".", markersize=1.2)
    axes.set(title=title, xlabel="position in the epoch")
    ticks = [0, NUM_RECORDS // 2, NUM_RECORDS]
    axes.set_xticks(ticks, ["0", "500,000", "1,000,000"])
    axes.set_yticks(ticks, ["0", "0.5 M", "1 M"])


def draw_moves(axes: Axes) -> None:
    """Plot how far records move, in windows."""
    orders = {"shuffle=10_000": order_of(WINDOW), "tf.data's buffer": order_of_buffer(WINDOW)}
    bins = np.linspace(-2, 5, 141)
    for name, order in orders.items():
        moved = (np.arange(NUM_RECORDS) - order) / WINDOW
        axes.hist(moved, bins.tolist(), density=True, histtype="step", label=name)
    axes.set(title="how far records move", ylabel="density")
    axes.set(xlabel="earlier  <  windows of 10,000  >  later", xlim=(bins[0], bins[-1]))
    axes.legend()


def draw_labels(axes: Axes) -> None:
    """Plot the number of labels in a batch by the size of the window."""
    windows = np.unique(np.geomspace(BATCH_SIZE, NUM_RECORDS, 25).astype(int)).tolist()
    some = np.random.default_rng(0).integers(0, NUM_BATCHES, 100)
    positions = (some[:, None] * BATCH_SIZE + np.arange(BATCH_SIZE)).ravel()

    def labels(shuffle: ShuffleChoice) -> float:
        return labels_in_a_batch(np.sort(order_of(shuffle, positions).reshape(100, -1), axis=1))

    axes.loglog(windows, [labels(window) for window in windows], label="shuffle=window")
    for block, style in ((1_000, "--"), (100, "-")):
        found = [labels(Shuffle(block=block, window=window)) for window in windows]
        axes.loglog(windows, found, style, label=f"Shuffle(block={block:_}, window)")
    axes.axhline(labels(True), color="black", linestyle=":", label="shuffle=True")
    axes.set(title="labels in a batch of 256", xlabel="window", ylabel="labels")
    axes.legend()


def draw(picture: Path) -> None:
    """Draw the picture of docs/shuffling.md."""
    mpl.use("agg")
    figure, axes = plt.subplot_mosaic("WWBBUU;MMMLLL", figsize=(10, 6.6), layout="constrained")
    draw_order(axes["W"], "shuffle=10_000", WINDOW)
    draw_order(axes["B"], "Shuffle(block=1_000, window=16_000)", BLOCKS)
    draw_order(axes["U"], "shuffle=True", True)
    axes["W"].set_ylabel("record")
    draw_moves(axes["M"])
    draw_labels(axes["L"])
    figure.savefig(picture, dpi=80)
    plt.close(figure)


if __name__ == "__main__":
    print(table())
    print()
    print(table_of_ranks())
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
