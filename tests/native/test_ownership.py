"""Native objects keep the memory alive that they refer to.

Each test drops every Python reference to the inputs, has their memory reused, and reads the result.
As a program, ``python test_ownership.py EXTENSION`` runs the tests with another build of the native
core. ``make native`` runs it with AddressSanitizer, which detects each access to freed memory.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import sys
import tempfile
from typing import Any

import numpy as np
import numpy.typing as npt

VALUES = list(range(1000, 1300))
TEXT = b"some bytes that are long enough to be compared " * 20


def _load_core() -> Any:
    if __name__ != "__main__":
        return importlib.import_module("torchrec_io._core")
    spec = importlib.util.spec_from_file_location("_core", sys.argv[1])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


core: Any = _load_core()


def reuse_memory() -> None:
    """Free everything that is unreachable, and overwrite the free memory."""
    gc.collect()
    for size in (100, 1000, 10_000, 100_000, 1_000_000):
        _ = [bytes([255]) * size for _ in range(20)]
        _ = [np.full(size, 255, np.uint8) for _ in range(20)]


def new_examples(count: int = 3) -> tuple[bytes, ...]:
    """Return serialized Examples in memory of their own."""
    encoder = core.MessageEncoder(None, None, np.ndarray, np.generic, lambda value, _: value, False)
    features = {"ints": VALUES, "text": TEXT, "one": 7}
    return tuple(encoder.encode([dict(features) for _ in range(count)], None, False))


def new_parser() -> Any:
    """Return a parser of a ragged, a fixed and a span column."""
    dtype, column = core.Dtype, core.ColumnType
    return core.ExampleParser(
        [
            core.FeatureSpec(b"ints", dtype.int64, column.ragged),
            core.FeatureSpec(b"one", dtype.int64, column.fixed),
            core.FeatureSpec(b"text", dtype.string, column.span),
        ]
    )


def fill(located: Any, count: int) -> tuple[list[int], list[int]]:
    """Run the second pass, and return the values of both columns of numbers."""
    targets = core.ColumnTargets(3)
    values_at = 64
    one_at = values_at + 8 * len(VALUES) * count
    targets.set(0, data=values_at, rows=0)
    targets.set(1, data=one_at)
    arena = core.allocate(one_at + 8 * count)
    assert core.fill_batches([located], [targets], [arena]) == (1, [])
    values = arena[values_at:one_at].view(np.int64)
    return values.tolist(), arena[one_at : one_at + 8 * count].view(np.int64).tolist()


def check_located(located: Any, count: int) -> None:
    """Check all results of a located batch."""
    assert fill(located, count) == (VALUES * count, [7] * count)
    assert located.size(0).values == len(VALUES) * count
    assert located.ints(0).values.tolist() == VALUES * count
    assert located.units(0).records.tolist() == list(range(count + 1))
    assert located.spans(2).sizes.tolist() == [len(TEXT)] * count


def test_located_batch_of_bytes() -> None:
    located = new_parser().locate(core.Records(new_examples()))
    reuse_memory()
    check_located(located, 3)


def test_located_batch_of_a_buffer() -> None:
    located = new_parser().locate(new_records(new_examples()))
    reuse_memory()
    check_located(located, 3)


def new_records(examples: tuple[bytes, ...]) -> Any:
    """Return records in one buffer that only they refer to."""
    sizes = np.array([len(example) for example in examples], np.int64)
    buffer = np.frombuffer(b"".join(examples), np.uint8).copy()
    return core.Records(buffer, np.cumsum(sizes) - sizes, sizes)


def test_tensors() -> None:
    # A TensorProto of int32 [2], with its values in tensor_content.
    tensor = b"\x08\x03\x12\x04\x12\x02\x08\x02\x22\x08" + np.array([5, 6], np.int32).tobytes()
    encoder = core.MessageEncoder(None, None, np.ndarray, np.generic, lambda value, _: value, False)
    examples = tuple(encoder.encode([{"x": tensor + b"\x78\x01" * 5000}] * 2, None, False))
    parser = core.ExampleParser(
        [core.FeatureSpec(b"x", core.Dtype.string, core.ColumnType.span)],
    )
    tensors = parser.locate(new_records(examples)).tensors(0, core.TensorType.int32)
    del parser, examples
    reuse_memory()
    assert [(header.shape, header.bytes) for header in tensors.headers] == [((2,), 8)] * 2
    arena = core.allocate(16)
    data = np.array([0, 8], np.uint64)
    assert tensors.fill(np.zeros(2, np.uint64), data, arena) == []
    assert arena.view(np.int32).tolist() == [5, 6, 5, 6]


def test_results_outlive_their_batch() -> None:
    located = new_parser().locate(core.Records(new_examples(1)))
    spans, ints, units = located.spans(2), located.ints(0), located.units(0)
    sizes, values, records = spans.units.values, ints.units.values, units.records
    offsets, size = spans.offsets, located.size(0)
    del located, spans, ints, units
    reuse_memory()
    assert (sizes.tolist(), values.tolist(), records.tolist()) == ([0, 1], [0, 300], [0, 1])
    assert len(offsets) == 1
    assert (size.values, size.bytes, size.longest) == (300, 0, 0)


def test_failures_outlive_their_batch() -> None:
    failures = new_parser().locate(core.Records((new_examples(1)[0][:-1],))).failures
    reuse_memory()
    [failure] = failures
    assert (failure.record, failure.feature, failure.offset) == (0, None, 0)
    assert failure.reason == "the length of a field extends past the end of its message"


# ---- reads ----


class IndexedFile:
    """A TFRecord file and an index set of it."""

    def __init__(self, examples: tuple[bytes, ...]) -> None:
        # Many records, because NumPy keeps small arrays when they are freed.
        frames, starts = core.frame_records([*examples, *[b""] * 500])
        self.descriptor, path = tempfile.mkstemp()
        os.unlink(path)
        os.write(self.descriptor, frames.tobytes())
        header = core.IndexHeader(
            format=0,
            compression=core.Compression.none,
            data_bytes=len(frames),
            data_mtime_ns=0,
            data_fingerprint=0,
            stream_end=len(frames),
        )
        index = core.encode_index(header, starts, [], np.empty(0, np.uint8))
        self.indexes = core.IndexSet(np.array([len(starts)], np.int64))
        # Nothing else refers to the bytes of the index.
        self.indexes.mark_checked(0, core.Index(np.frombuffer(index, np.uint8).copy()), 1)

    def __del__(self) -> None:
        os.close(self.descriptor)

    def plan(self, *numbers: int) -> Any:
        """Plan the reads of records, whose numbers only the plan refers to."""
        lookup = core.FrameLookup(np.array(numbers, np.int64))
        assert self.indexes.find(lookup, 1)
        return lookup.plan(0)

    def read(self, plan: Any) -> npt.NDArray[np.uint8]:
        """Read the frames of a plan."""
        buffer: npt.NDArray[np.uint8] = np.zeros(plan.buffer_bytes, np.uint8)
        descriptors = [self.descriptor] * len(plan.files)
        core.read_ranges(descriptors, plan.range_bounds, plan.ranges, buffer)
        return buffer


def new_reads(file: IndexedFile) -> Any:
    """Return the reads of a batch, whose plan, buffer and records nothing else refers to."""
    plan = file.plan(2, 0, 1)
    buffer = np.zeros(plan.buffer_bytes, np.uint8)
    records = core.Records(buffer, plan.frame_starts + 12, plan.frame_sizes - 16)
    return core.BatchReads([file.descriptor], plan, buffer, records)


def test_loaded_batches() -> None:
    file = IndexedFile(new_examples())
    reads = [new_reads(file), new_reads(file)]
    reuse_memory()
    first, second = core.load_batches(new_parser(), reads, True)
    del reads, file
    reuse_memory()
    check_located(first, 3)
    del first
    reuse_memory()
    check_located(second, 3)


def test_reads_keep_their_buffer() -> None:
    file = IndexedFile(new_examples())
    plan = file.plan(0, 1, 2)
    buffer = np.zeros(plan.buffer_bytes, np.uint8)
    reads = core.BatchReads([file.descriptor], plan, buffer, core.Records(new_examples()))
    del plan, buffer
    reuse_memory()
    [located] = core.load_batches(new_parser(), [reads], True)
    check_located(located, 3)


def test_index_set_and_plan() -> None:
    file = IndexedFile(new_examples())
    reuse_memory()
    plan = file.plan(2, 0)
    del file
    reuse_memory()
    assert plan.numbers.tolist() == [2, 0]
    arrays = plan.frame_sizes, plan.ranges, plan.by_file()
    del plan
    reuse_memory()
    sizes, ranges, by_file = arrays
    assert sizes.tolist() == [len(new_examples(1)[0]) + 16] * 2
    assert ranges[:, 1].tolist() == sizes.tolist()
    assert [(number, part.tolist()) for number, part in by_file] == [(0, ranges.tolist())]


def test_frame_blocks() -> None:
    file = IndexedFile(new_examples())
    whole = file.plan(0, 1, 2)
    blocks = [core.FrameBlock(whole, file.read(whole))]
    del whole
    reuse_memory()
    plan = file.plan(1, 2)
    out = np.zeros(plan.buffer_bytes, np.uint8)
    names = np.array([5], np.int64)
    assert core.gather_frames(blocks, names, plan, np.array([5, 5]), out) is None
    assert out.tobytes() == file.read(plan).tobytes()


def test_scans_and_lists() -> None:
    frames, _ = core.frame_records(list(new_examples()))
    starts = core.scan_frames(frames, 0, len(frames)).starts
    parts = core.split_lists(core.Records((b"\x0a\x03abc\x12\x01d",)))
    sizes = parts.example_sizes
    del frames, parts
    reuse_memory()
    assert starts.tolist() == [0, *(np.arange(1, 3) * (len(new_examples(1)[0]) + 16)).tolist()]
    assert sizes.tolist() == [3]


# ---- memory ----


def test_slots() -> None:
    slot = core.allocate(core.SLOT_HEADER_BYTES + 5000)
    slot[:] = 0
    assert core.take_slot(slot)
    slot[core.SLOT_HEADER_BYTES :] = 3
    lent = core.lend_slot(slot, 5000)
    del slot
    reuse_memory()
    assert (lent == 3).all()


def test_encoders() -> None:
    kinds = {"only integers ".ljust(100): core.Kind.ints}
    encoder = core.MessageEncoder(
        kinds, kinds, np.ndarray, np.generic, lambda value, _: [value, 1], False
    )
    del kinds
    reuse_memory()
    [message] = encoder.encode([{"only integers ".ljust(100): []}], None, False)
    assert message.endswith(b"\x12\x02\x1a\x00")  # an empty Int64List


def main() -> None:
    """Run all tests."""
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(name, "passed")
    sys.stdout.flush()
    os._exit(0)  # leaks of the interpreter do not matter


if __name__ == "__main__":
    main()
