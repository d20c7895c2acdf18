"""Have TFDS say which records many splits are, and which it refuses.

``tfds_splits.json`` was made with tensorflow-datasets 4.9.10: run this script with the Python of an
environment that has it; it writes to another file if one is named. Slices that end before they
begin are left out: TFDS takes them for what nobody means.

``lengths`` are datasets: of each split the records of its shards. ``cases`` are ``[dataset, split,
answer]``, or of parts of equal size ``[dataset, [split, n, drop_remainder], [answer of each]]``. An
answer is null for a refusal, or ``[split, shard, records skipped, records taken]`` of each shard.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds
from tensorflow_datasets.core import naming, splits, subsplits_utils

HERE = Path(__file__).parent

LENGTHS = {
    "small": {"train": [4], "test": [3]},
    "shards": {"train": [7, 11, 0, 5, 8], "validation": [2, 2], "test-b_1": [1, 1, 1]},
    "large": {"train": [1000, 999, 1000], "all_of_it": [12345]},
    "empty": {"train": [10], "test": [0]},
}
WRITTEN = [
    "train", "all", "test", "train+test", "train + test", "train+train", "all+train", "nothing",
    "train[:]", "train[]", "train[", "train[5]", "train[5%]", "train[1:2:3]", "train[a:]", "",
    "+", "train+", " train", "train ", "train[ 1:]", "all[:50%]", "train[:1.5]", "train[1_0:]",
    "train[:101%]", "train[-101%:]", "train[:100%]", "train[-100%:]", "train[0:0]", "train[:0]",
    "train[0%:0%]", "train[:-0]", "train[4:]", "train[5:]", "train[-5:]", "train[-4:]",
    "train[3:4]", "train[:50%]", "train[50%:]", "train[:12.5%]", "train[12.5%:37.5%]",
    "train[.5%:]", "train[:-5%]", "train[-5%:]", "train[-99.5%:]", "train[1e1:]",
    "train[10%:2]", "train[1:50%]", "train[1.2.3%:]", "train[0shard]", "train[1shard]",
    "train[-1shard]", "train[-2shard]", "train[5shard]", "train[:1shard]", "train[1shard:]",
    "train[-1shard:]", "train[:-1shard]", "train[:0shard]", "train[2shard:4shard]",
    "train[1shard:9shard]", "train[2shard:2shard]", "train[-9shard:]", "train[:-9shard]",
    "train[1shard:2]", "train[:1.5shard]", "train[1shard:50%]", "train[:2]+train[-2:]",
    "train[2:]+train[:2]", "train[:0]+test", "train[:0]+train[2:2]", "test[:1]+train",
    "train[:50%]+test[:50%]", "train[1shard]+train[0shard]", "test-b_1", "test-b_1[1:]",
    "all_of_it[:33%]", "validation[1shard:]+test-b_1[-1:]", "train:all", "train[:5%%]",
]  # fmt: skip


def drawn(count: int) -> Iterator[tuple[str, str]]:
    """Slices of each dataset, at random."""
    rng = random.Random(7)
    for _ in range(count):
        dataset = rng.choice(list(LENGTHS))
        terms = []
        for _ in range(rng.choice([1, 1, 1, 2])):
            split = rng.choice(list(LENGTHS[dataset]))
            unit = rng.choice(["", "%", "shard"])
            shards = LENGTHS[dataset][split]
            most = {"": sum(shards), "%": 100, "shard": len(shards)}[unit]
            bounds = [
                "" if rng.random() < 0.2 else f"{rng.randint(-most, most)}{unit}" for _ in range(2)
            ]
            terms.append(f"{split}[{':'.join(bounds)}]")
        yield dataset, "+".join(terms)


def infos_of(lengths: dict[str, list[int]]) -> splits.SplitDict:
    """What TFDS has of a dataset's splits."""
    template = naming.ShardedFileTemplate(
        data_dir="/data", dataset_name="d", filetype_suffix="tfrecord"
    )
    return splits.SplitDict(
        [
            splits.SplitInfo(name=name, shard_lengths=of, num_bytes=0, filename_template=template)
            for name, of in lengths.items()
        ]
    )


def answer(infos: splits.SplitDict, split: Any) -> list[list[Any]] | None:
    """The pieces of shards that TFDS would read."""
    try:
        found = infos[split].file_instructions
    except (ValueError, KeyError, NotImplementedError):
        return None
    pieces = []
    for piece in found:
        name = naming.FilenameInfo.from_str(piece.filename)
        pieces.append([name.split, name.shard_index, piece.skip, piece.take])
    # Its reader refuses what is empty: "corresponds to no data".
    return pieces or None


def runs_backwards(infos: splits.SplitDict, split: str) -> bool:
    """Whether a slice ends before it begins."""
    try:
        spec = splits.AbstractSplit.from_spec(split)
        found = spec.to_absolute(dict(infos.items()))
    except (ValueError, KeyError, NotImplementedError):
        return False
    sizes = {name: info.num_examples for name, info in infos.items()}
    return any(
        (one.from_ or 0) > (sizes[one.splitname] if one.to is None else one.to) for one in found
    )


def main() -> None:
    """Writes the file."""
    asked = [(dataset, split) for dataset in LENGTHS for split in WRITTEN]
    asked += drawn(260)
    cases: list[list[Any]] = []
    for dataset, split in dict.fromkeys(asked):
        infos = infos_of(LENGTHS[dataset])
        if not runs_backwards(infos, split):
            cases.append([dataset, split, answer(infos, split)])
    for dataset, split in [
        ("small", "train"), ("shards", "train"), ("shards", "train[1:]+validation"),
        ("shards", "all"), ("large", "train[10%:]"), ("large", "train+all_of_it[-100:]"),
    ]:  # fmt: skip
        for n in (1, 2, 3, 7):
            for drop in (False, True):
                parts = subsplits_utils.even_splits(split, n, drop_remainder=drop)
                infos = infos_of(LENGTHS[dataset])
                cases.append([dataset, [split, n, drop], [answer(infos, part) for part in parts]])
    lines = [json.dumps(case, separators=(",", ":")) for case in cases]
    head = json.dumps({"tensorflow_datasets": tfds.__version__, "lengths": LENGTHS})
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "tfds_splits.json"
    out.write_text(head[:-1] + ',\n"cases": [\n' + ",\n".join(lines) + "\n]}\n")


if __name__ == "__main__":
    main()
