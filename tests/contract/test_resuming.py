"""Every kind of dataset resumes at each step, under each loader and with other numbers of ranks."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from torchdata.stateful_dataloader import StatefulDataLoader

import torchrec_io as tio
from tests.support.cover import pairs
from tests.support.datasets import open_records, record, write_files
from tests.support.states import rest_of, states_of, through_json
from tests.support.tfrecord import write_tfrecord

# torchdata 0.11 causes this warning when it creates a loader.
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")

SIZES = [17, 0, 11, 19]
COUNT = sum(SIZES)
BAD = {*range(3), 9, *range(20, 26), 31, COUNT - 2, COUNT - 1}  # records that cannot be parsed

_BLOCKS = tio.Shuffle(block=4, window=9)
_LANES = tio.Shuffle(block=4, window=9, lanes=12)
_WEIGHTS = [number % 4 for number in range(COUNT)]
_DRAWS = tio.Shuffle(weights=_WEIGHTS)
_FEWER_DRAWS = tio.Shuffle(weights=_WEIGHTS, num_samples=30, replacement=False)
_SKIPPED: dict[str, Any] = {"on_error": "skip", "batch_size": 4}
_BY_LENGTH: dict[str, Any] = {"batch_tokens": 12, "length_key": [n % 5 for n in range(COUNT)]}
_RAMP = tio.Ramp({0: 3, 2: 7, 12: 4})
_LIMITS = tio.Ramp({0: 6, 3: 9, 13: 8})
_PACKED: dict[str, Any] = {"batch_size": 2, "on_error": "skip", "shuffle": True}

# Options of datasets of sound records, whose position is one number for all processes.
COUNTED: dict[str, dict[str, Any]] = {
    "stored": {"batch_size": 4, "epochs": 3},
    "one batch": {"batch_size": COUNT, "num_threads": 3},
    "shuffled": {"batch_size": 4, "shuffle": True, "epochs": 2},
    "window": {"batch_size": 7, "shuffle": 10, "drop_last": True, "epochs": 2},
    "blocks": {"batch_size": 4, "shuffle": _BLOCKS, "num_threads": 3},
    "lanes": {"batch_size": 12, "shuffle": _LANES},
    "draws": {"batch_size": 4, "shuffle": _DRAWS, "num_threads": 3},
    "draws without replacement": {"batch_size": 4, "shuffle": _FEWER_DRAWS, "epochs": 2},
    "balanced": {"batch_size": 7, "shuffle": tio.Shuffle(balance="id", num_samples=50)},
    "by length": {**_BY_LENGTH, "shuffle": True},
    "draws by length": {**_BY_LENGTH, "shuffle": _DRAWS},
    "packed": {**_PACKED, "pack": tio.Pack(8, key="tokens", window=20)},
    "packed chunks": {**_PACKED, "pack": tio.Pack(8, key="tokens", mode="chunk"), "epochs": 2},
    "packed draws": {**_PACKED, "pack": tio.Pack(8, key="tokens"), "shuffle": _DRAWS},
    "ramp": {"batch_size": _RAMP, "shuffle": True, "epochs": 2},
    "ramp of rows": {**_PACKED, "pack": tio.Pack(8, key="tokens", window=20), "batch_size": _RAMP},
    "ramp of tokens": {**_BY_LENGTH, "batch_tokens": _LIMITS, "shuffle": True, "epochs": 2},
    "ramp of lengths": {**_PACKED, "pack": tio.Pack(_LIMITS, key="tokens", window=20)},
    "ramp of chunks": {**_PACKED, "pack": tio.Pack(_LIMITS, key="tokens", mode="chunk")},
    "virtual": {"batch_size": 4, "shuffle": _BLOCKS, "steps_per_epoch": 5, "epochs": 3},
    "virtual with a ramp": {"batch_size": _RAMP, "steps_per_epoch": 5, "epochs": 3},
    "mixed": {"stop": "first_exhausted"},
    "mixed virtual": {"stop": "endless", "steps_per_epoch": 7},
    "mixed to the end": {"stop": "each_once"},
    "mixed with source": {"stop": "each_once", "source": "part"},
    "mixed, all exhausted": {"stop": "all_exhausted", "epochs": 2},
    "mixed, repeated": {"repeat": [1, 3]},
    "mixed, changing": {"stop": "each_once", "weights": {0: [1, 0], 9: [1, 3], 30: [1, 1]}},
    "mixed again": {"stop": "first_exhausted", "again": True},
    "mixed, continued": {"stop": "each_once", "continued": True, "epochs": 2},
}
_MIXED = [name for name in COUNTED if name.startswith("mixed") and name != "mixed virtual"]
# Those whose position is known only to the process that reads.
OF_PROCESSES: dict[str, dict[str, Any]] = {
    "samples": {"shuffle": True, "epochs": 2},
    "virtual samples": {"shuffle": True, "steps_per_epoch": 13, "epochs": 4},
    "samples of lanes": {"shuffle": _LANES},
    "samples of draws": {"shuffle": _DRAWS},
    "stream": {"stream": True, "batch_size": 4},
    "shuffled stream": {"stream": True, "shuffle": 8, "epochs": 2},
}
# Datasets of which some records cannot be parsed.
LOSING: dict[str, dict[str, Any]] = {
    "skipping": {**_SKIPPED, "epochs": 2},
    "skipping, shuffled": {**_SKIPPED, "shuffle": True, "num_threads": 3},
    "skipping draws": {**_SKIPPED, "shuffle": _DRAWS},
    "skipping, whole batches": {**_SKIPPED, "drop_last": True},
    "skipping with a ramp": {**_SKIPPED, "batch_size": _RAMP, "epochs": 2},
    "skipping virtual": {**_SKIPPED, "shuffle": True, "steps_per_epoch": 5},
    "skipping samples": {"on_error": "skip", "shuffle": True},
    "skipping by length": {**_SKIPPED, **_BY_LENGTH, "shuffle": True},
    "skipping in a stream": {**_SKIPPED, "stream": True, "shuffle": 8},
    "repeating": {**_SKIPPED, "uneven": "pad", "shuffle": True, "rank": 1, "world_size": 2},
    "repeating draws": {**_SKIPPED, "uneven": "pad", "shuffle": _DRAWS, "rank": 0, "world_size": 2},
    "repeating samples": {"on_error": "skip", "uneven": "drop", "rank": 0, "world_size": 2},
    "repeating by length": {**_SKIPPED, **_BY_LENGTH, "uneven": "drop", "rank": 1, "world_size": 2},
}
KINDS = {**COUNTED, **OF_PROCESSES, **LOSING}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, list[str]]:
    """Return intact files, and one with records that cannot be parsed."""
    folder = tmp_path_factory.mktemp("resuming")
    bad = [b"\xff" if number in BAD else record(number) for number in range(COUNT)]
    paths = [str(write_tfrecord(folder / "bad", bad))]
    return {False: write_files(folder, SIZES), True: paths}


def open_kind(files: dict[bool, list[str]], name: str, **layout: Any) -> Any:
    """Return a dataset. ``layout`` are options of ranks."""
    options = {"seed": 5, "uneven": "keep", **KINDS[name], **layout}
    paths = files[name in LOSING]
    if not {"stop", "repeat"} & options.keys():
        return open_records(paths, **options)
    own: dict[str, Any] = {"transform": unchanged} if "source" in options else {}
    parts = [open_records(some, shuffle=True, **own) for some in (paths[0], paths[2:])]
    if options.pop("again", False):
        parts = [tio.mix(parts, weights=[1, 1], stop="each_once"), parts[1]]
    if "repeat" not in options:
        options = {"weights": [3, 1], **options}
    is_continued = options.pop("continued", False)
    mixed = tio.mix(parts, **{"batch_size": 4, **options})
    if is_continued:
        before = tio.mix(parts[::-1], weights=[1, 1], batch_size=4, rank=0, world_size=1)
        next(itertools.islice(before, 2, None))
        mixed.load_state_dict(before.state_dict(), weights="new")
    return mixed


def unchanged(sample: tio.Sample) -> tio.Sample:
    return sample


def content(item: Any) -> Any:
    return item["id"].tolist(), item["tokens"].tolist()


def contents(items: Any) -> list[Any]:
    return [content(item) for item in items]


@pytest.mark.parametrize("name", KINDS)
def test_at_each_step_in_one_process(files: dict[bool, list[str]], name: str) -> None:
    dataset = open_kind(files, name)
    whole, following = contents(dataset), contents(dataset)
    assert len(whole) > 1 or name == "one batch"
    for taken, state in states_of(open_kind(files, name)):
        other = open_kind(files, name)
        other.load_state_dict(state)
        # Records at the end that are lost may be left, and nothing else.
        rest = contents(other) or contents(other)
        assert rest == rest_of(whole, following, taken)
        if taken < len(whole):
            assert contents(other) == following
            other.load_state_dict(state)
            assert through_json(other.state_dict()) == state
            next(iter(other))
            dataset.load_state_dict(other.state_dict())  # of a resumed iteration
            assert (contents(dataset) or contents(dataset)) == rest_of(whole, following, taken + 1)


LOADERS = ["make_loader", "StatefulDataLoader"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind", "workers"), pairs([*KINDS], LOADERS, [0, 2]))
def test_in_loaders(files: dict[bool, list[str]], name: str, kind: str, workers: int) -> None:
    def load(workers: int = workers) -> Any:
        dataset = open_kind(files, name)
        method = "forkserver" if workers and name in OF_PROCESSES else None
        options: Any = {"num_workers": workers, "multiprocessing_context": method}
        if kind == "make_loader":
            return tio.make_loader(dataset, **options)
        return StatefulDataLoader(dataset, batch_size=None, **options)

    loader = load()
    whole, following = contents(loader), contents(loader)
    if name in COUNTED or workers == 0:
        assert whole == contents(open_kind(files, name))
    # The end of an epoch of torchdata's loader is in tests/loading/test_epochs.py.
    last = len(whole) - (kind == "StatefulDataLoader")
    for taken in sorted({0, 1, len(whole) // 2, last}):
        begun = load()
        assert contents(itertools.islice(begun, taken)) == whole[:taken]
        state = through_json(begun.state_dict())
        del begun
        # Batches that are planned resume with another number of workers, too.
        is_counted = name in COUNTED and kind == "make_loader"
        other = load(1 if workers == 0 else 0) if is_counted else load()
        other.load_state_dict(state)
        assert (contents(other) or contents(other)) == rest_of(whole, following, taken)


def atoms(items: Any, name: str) -> list[Any]:
    """Return what is divided among ranks, of each item: records, rows, or batches by length."""
    if "batch_tokens" in KINDS[name]:
        return [[content(item)] for item in items]
    return [[*zip(*content(item), strict=True)] for item in items]


@pytest.mark.parametrize(("before", "after"), [(1, 3), (2, 1), (3, 2), (2, 4), (6, 4)])
@pytest.mark.parametrize(
    "name",
    [
        *["stored", "shuffled", "blocks", "lanes", "draws", "by length", "packed", "packed chunks"],
        *_MIXED,
    ],
)
def test_another_number_of_ranks(
    files: dict[bool, list[str]], name: str, before: int, after: int
) -> None:
    """The order of all ranks together continues, from the state of any rank at any step."""

    def opened(rank: int, world: int) -> Any:
        size = 12 // world if name == "lanes" else 3  # the lanes of a step are 12
        sizes = {} if name == "by length" else {"batch_size": size}
        return open_kind(files, name, rank=rank, world_size=world, epochs=1, **sizes)

    whole = [*itertools.chain(*atoms(opened(0, 1), name))]
    step = before * {"lanes": 12 // before, "by length": 1}.get(name, 3)
    for taken, state in itertools.islice(states_of(opened(before - 1, before)), 4):
        if taken * step >= len(whole) - step:
            break  # the last step: some ranks have nothing left
        ranks = []
        for rank in range(after):
            dataset = opened(rank, after)
            dataset.load_state_dict(state)
            ranks.append(atoms(dataset, name))
        steps = itertools.zip_longest(*ranks, fillvalue=[])
        found = [[*itertools.chain(*each)] for each in steps]
        rest = iter(whole[taken * step :])
        for each in found:
            expected = [*itertools.islice(rest, len(each))]
            # Lanes of one step come in the order of their ranks.
            assert (sorted(each) == sorted(expected)) if name == "lanes" else (each == expected)
        assert next(rest, None) is None


def _pack(**options: Any) -> dict[str, Any]:
    return {"pack": tio.Pack(**{"length": 8, "key": "tokens", "window": 20, **options})}


# Options with which a state is refused, and what the error says.
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("shuffled", {"seed": 6}, "seed is 6 here and 5 in the state"),
    ("shuffled", {"shuffle": 9}, "shuffle is '9' here and 'True' in the state"),
    ("shuffled", {"shuffle": False, "seed": 1}, "shuffle is 'False' here .*; seed is 1 here"),
    ("shuffled", {"batch_size": 5}, "batch_size is 5 here and 4 in the state"),
    ("shuffled", {"batch_size": None}, "batch_size is None here and 4 in the state"),
    ("shuffled", {"split": "[:50%]"}, "records is 24 here and 47 in the state; split is"),
    ("stored", _BY_LENGTH, "batch_tokens is 12 here and None in the state"),
    ("by length", {"batch_tokens": 13}, "batch_tokens is 13 here and 12 in the state"),
    ("by length", {"batch_size": 8}, "batch_size is 8 here and None in the state"),
    ("by length", {"length_key": [1] * COUNT}, "lengths is '"),
    ("packed", _pack(length=9), "pack.length is 9 here and 8 in the state"),
    ("packed", _pack(mode="chunk"), "pack.mode is 'chunk' here and 'fit' in the state"),
    ("packed", _pack(window=21), "pack.window is 21 here and 20 in the state"),
    ("packed", _pack(separator=1), "pack.separators is 1 here and 0 in the state"),
    ("packed", _pack(long="drop"), "pack.splits is False here and True in the state"),
    ("ramp", {"batch_size": 3}, "batch_size is 3 here and {.*'12': 4} in the state"),
    ("ramp", {"batch_size": tio.Ramp({0: 3, 2: 6})}, "batch_size.2 is 6 here and 7 in the state"),
    ("ramp of tokens", {"batch_tokens": tio.Ramp({0: 6, 3: 8})}, "batch_tokens.3 is 8 here and 9"),
    ("ramp of lengths", _pack(length=tio.Ramp({0: 6})), "pack.length.3 is None here and 9 in the"),
    ("virtual", {"steps_per_epoch": 4}, "records_per_epoch is 16 here and 20 in the state"),
    ("virtual", {"steps_per_epoch": None}, "records_per_epoch is None here and 20 in the state"),
    ("lanes", {"shuffle": _BLOCKS}, "shuffle is .* in the state"),
    ("lanes", {"shuffle": tio.Shuffle(block=4, window=9, lanes=6)}, "shuffle is .* in the state"),
    ("draws", {"shuffle": tio.Shuffle(weights=[1] * COUNT)}, "shuffle is 'Shuffle.weights=<wei"),
    ("draws", {"shuffle": _FEWER_DRAWS}, "shuffle is .*num_samples=30, replacement=False.* here"),
    ("balanced", {"shuffle": _DRAWS}, "<weights: .* here and .*<classes: "),
    ("mixed", {"seed": 3}, "seed is 3 here and 5 in the state"),
    ("mixed", {"stop": "endless"}, "stop is 'endless' here"),
    ("mixed, repeated", {"repeat": [1, 2]}, r"repeat is \[1, 2\] here and \[1, 3\] in the state"),
    ("mixed, changing", {"weights": [1, 1]}, r"weights is \[1.0, 1.0\] here and \{"),
    ("stream", {"shuffle": 5}, "shuffle is '5' here and 'False' in the state"),
    ("stream", {"seed": 1}, "seed is 1 here and 5 in the state"),
    ("stream", {"stream": False}, "index is None|split is|records is"),
]


@pytest.mark.parametrize(("name", "changes", "reason"), REFUSED)
def test_states_of_other_orders_are_refused(
    files: dict[bool, list[str]], name: str, changes: dict[str, Any], reason: str
) -> None:
    dataset = open_kind(files, name)
    next(iter(dataset))
    with pytest.raises(tio.StateMismatchError, match=f"does not match .*: .*{reason}"):
        open_kind(files, name, **changes).load_state_dict(dataset.state_dict())
