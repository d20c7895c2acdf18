"""The options of datasets: name, type, default, check and text of each, written once.

The classes below are the keyword arguments of datasets for type checkers, and their docstrings
describe the options. :func:`takes_options` makes signatures of them, and the docstrings of classes.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, TypeVar, is_typeddict

from .._order.distributed import resolve_rank
from .._order.mesh import find_mesh_rank
from .._order.pack import Pack
from .._order.plan import UNEVEN_CHOICES, Uneven
from .._order.ramp import Ramp, check_size
from .._order.shuffle import ShuffleChoice, check_seed, check_shuffle, is_shuffled, lanes_of
from .._records.opening import IndexChoice
from .._storage.cache.block_cache import BlockCache
from .._storage.compression import CompressionChoice
from .._storage.remote.options import StorageOptions, check_storage_options, with_limits
from ..checks import check_choice, check_integer, is_integer
from ..errors import TorchRecIOError

ErrorPolicy: TypeAlias = Literal["raise", "skip"] | Callable[[TorchRecIOError], Any]
# The name of a feature; integers, one for each record: an array or a Tensor; or None.
LengthKey: TypeAlias = Any
# A DeviceMesh or ProcessGroup. torch.distributed is not imported for it.
Mesh: TypeAlias = Any

_Decorated = TypeVar("_Decorated")


# Names of options in the order of help() and of the documentation, in groups.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "Args": (
        "schema",
        "batch_size",
        "drop_last",
        "shuffle",
        "seed",
        "epochs",
        "steps_per_epoch",
        "split",
        "transform",
        "on_error",
        "num_threads",
    ),
    "Batches by length and packed rows": ("batch_tokens", "length_key", "pack"),
    "Several ranks": ("rank", "world_size", "mesh", "uneven"),
    "Remote and compressed files": ("storage_options", "cache", "cache_bytes"),
    "Rarely needed": ("with_key", "index", "compression", "verify_crc", "max_record_bytes"),
}
_ORDER = [name for names in GROUPS.values() for name in names]

# Least value of ``cache_bytes``; and with a BlockCache, this many of its blocks.
_LEAST_CACHE_BYTES = 1 << 20
_LEAST_BLOCKS = 4
_CACHE = "a BlockCache, such as tio.BlockCache('/tmp/blocks', max_bytes=1 << 40),"


@dataclass
class Option:
    """The definition of an option.

    Attributes:
        default: Default value.
        check: Called with name and value; returns the value to use or raises ValueError.
        text: Name and description of the option, as an entry of a docstring.
    """

    default: Any
    check: Callable[[str, Any], Any] = lambda _, value: value
    text: str = ""


class _Unchanged:
    """Default of an option that keeps its present value."""

    def __repr__(self) -> str:
        return "<unchanged>"


UNCHANGED = _Unchanged()


# ---- checks ----


def _at_least(least: int) -> Callable[[str, Any], Any]:
    return lambda name, value: check_integer(name, value, least)


def _optional(check: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    return lambda name, value: None if value is None else check(name, value)


def _check_shuffle(_: str, value: Any) -> Any:
    check_shuffle(value)
    return value


def _check_stream_shuffle(_: str, value: Any) -> Any:
    if is_shuffled(value) and not (is_integer(value) and value >= 1):
        raise ValueError(
            f"shuffle of a TFRecordStream must be False or a positive integer, got {value!r}"
        )
    return value


def _check_uneven(name: str, value: Any) -> Any:
    check_choice(name, value, (None, *UNEVEN_CHOICES))
    return value


def _check_stream_uneven(_: str, value: Any) -> Any:
    if value not in (None, "keep"):
        raise ValueError(f"uneven of a TFRecordStream must be None or 'keep', got {value!r}")
    return value


def _check_on_error(name: str, value: Any) -> Any:
    if value not in ("raise", "skip") and not callable(value):
        raise ValueError(f"{name} must be 'raise', 'skip' or a function, got {value!r}")
    return value


def _check_mesh(_: str, value: Any) -> Any:
    return find_mesh_rank(value)  # the mesh itself is not kept: it cannot be pickled


def _none_or(kind: type, wanted: str) -> Callable[[str, Any], Any]:
    def check(name: str, value: Any) -> Any:
        if value is not None and not isinstance(value, kind):
            raise ValueError(f"{name} must be {wanted} or None, got {value!r}")
        return value

    return check


# ---- options ----


class SplitOptions(TypedDict, total=False):
    """Selection of records.

    Attributes:
        split: A slice of the records as stored: ``"[:80%]"``, ``"[10%:20%]"``, ``"[-100:]"``. For a
            random split see :meth:`split`.
    """

    split: Annotated[str | None, Option(None)]


class LoopOptions(TypedDict, total=False):
    """Options of datasets that are iterated over.

    Attributes:
        drop_last: Leave out a last batch of fewer than ``batch_size`` records.
        epochs: Number of epochs in one iteration; ``None`` iterates endlessly.
        on_error: Action for a damaged record, or one that does not match the schema: ``"raise"``
            the error, ``"skip"`` the record and count it in :attr:`skipped`, or a function that is
            called with each error. See docs/bad-input.md.
        num_threads: Number of threads that read and parse; 1 is the calling thread. By default 2,
            in DataLoader workers 1. As many batches are loaded ahead, at least 2; of small batches,
            runs of up to 32. Batches and their order do not depend on it.
        rank: Rank of this training process. By default it and ``world_size`` are found in
            ``torch.distributed`` or torchrun's environment; else there is one.
        world_size: Number of training processes that share the records.
        mesh: The processes that share the records, in place of both numbers: a ``DeviceMesh`` such
            as ``mesh["dp"]``, or a ``ProcessGroup``. See docs/meshes.md.
    """

    drop_last: Annotated[bool, Option(False)]
    epochs: Annotated[int | None, Option(1, _optional(_at_least(0)))]
    on_error: Annotated[ErrorPolicy, Option("raise", _check_on_error)]
    num_threads: Annotated[int | None, Option(None, _optional(_at_least(1)))]
    rank: Annotated[int | None, Option(None, _optional(_at_least(0)))]
    world_size: Annotated[int | None, Option(None, _optional(_at_least(1)))]
    mesh: Annotated[Mesh | None, Option(None, _optional(_check_mesh))]


class EpochOptions(TypedDict, total=False):
    """The epochs of indexed records, and their assignment to ranks.

    Attributes:
        steps_per_epoch: Number of batches (or samples) of each rank in an epoch, which continues
            where the one before ended. See docs/order.md.
        uneven: Action if ranks would get different numbers of batches, or samples: ``"pad"``
            repeats records of the epoch's start, ``"drop"`` leaves out records, ``"keep"`` lets the
            numbers differ, ``None`` raises a ValueError. See docs/order.md.
    """

    steps_per_epoch: Annotated[int | None, Option(None, _optional(_at_least(1)))]
    uneven: Annotated[Uneven | None, Option(None, _check_uneven)]


class SeedOptions(TypedDict, total=False):
    """The seed of an order.

    Attributes:
        seed: Seed of the shuffle. Together with the epoch it defines the order.
    """

    seed: Annotated[int, Option(0, lambda _, value: check_seed(value))]


class OrderOptions(SeedOptions, EpochOptions, total=False):
    """The order of indexed records.

    Attributes:
        shuffle: ``False`` keeps the order of the files. ``True`` is a uniform permutation. An
            integer moves records by about that many positions at most. A :class:`Shuffle` permutes
            blocks, or draws records by weight. See docs/shuffling.md.
    """

    shuffle: Annotated[ShuffleChoice, Option(False, _check_shuffle)]


class StreamOrderOptions(SeedOptions, total=False):
    """The order of records that are read without an index.

    Attributes:
        shuffle: ``False`` keeps the order of the files. An integer is the size of a shuffle buffer,
            from which records are picked at random.
        uneven: Must be ``"keep"`` if there is more than one rank: the number of records is not
            known, so ranks may get different numbers of batches.
    """

    shuffle: Annotated[bool | int, Option(False, _check_stream_shuffle)]
    uneven: Annotated[Literal["keep"] | None, Option(None, _check_stream_uneven)]


class PackOptions(TypedDict, total=False):
    """Rows that are packed with records.

    Attributes:
        pack: Rows of a fixed length, packed with the tokens of records: a :class:`Pack`. Then
            ``batch_size`` counts rows, a sample is a row. See docs/packing.md.
    """

    pack: Annotated[Pack | None, Option(None, _none_or(Pack, "a Pack, such as tio.Pack(2048),"))]


class LengthOptions(PackOptions, total=False):
    """Batches of records of similar length, or of packed rows.

    Attributes:
        length_key: Length of a record: the name of a feature whose values (or steps) are counted
            in one pass over the data; or integers ``[N]``, one for each record of the files. By
            default the only feature with a length. With ``batch_size`` alone, batches hold that
            many records of similar length.
    """

    length_key: Annotated[LengthKey, Option(None)]


class AccessOptions(TypedDict, total=False):
    """Access to files and remote objects.

    Attributes:
        storage_options: Options of an object store, for URLs, such as credentials. By default they
            are found as the store's own tools find them. See docs/remote.md.
        cache: Cache on the local disk for remote objects and decompressed parts of files, shared by
            all processes and later runs on the machine: a :class:`BlockCache`.
        cache_bytes: Memory of each process for decompressed parts of compressed files, and as much
            again for answers of object stores; at least 1 MiB. See docs/remote.md.
        max_record_bytes: Largest size of a record in bytes, decompressed. A larger one is an error
            (:class:`RecordTooLargeError`), and is not read.
    """

    storage_options: Annotated[StorageOptions, Option(None, check_storage_options)]
    cache: Annotated[BlockCache | None, Option(None, _none_or(BlockCache, _CACHE))]
    cache_bytes: Annotated[int, Option(256 << 20, _at_least(_LEAST_CACHE_BYTES))]
    max_record_bytes: Annotated[int, Option(1 << 30, _at_least(1))]


class IndexOptions(TypedDict, total=False):
    """The index of the data files.

    Attributes:
        index: ``"auto"`` uses the index beside each data file or in the user's cache directory, or
            builds one and caches it. A path or a list of paths names the index file (``.tfidx`` or
            text) of each data file.
    """

    index: Annotated[IndexChoice, Option("auto")]


class ChecksumOptions(TypedDict, total=False):
    """Checksums of TFRecord files.

    Attributes:
        verify_crc: Verify the checksums of lengths and data. False only checks that each record
            ends inside its file, and returns damage as data.
    """

    verify_crc: Annotated[bool, Option(True)]


class ItemOptions(TypedDict, total=False):
    """The user's function, and keys of records.

    Attributes:
        transform: Function that is called with each :class:`Sample`, or with each :class:`Batch` if
            there is a batch size, where they are loaded. Its result is yielded instead. An error
            raises a :class:`TransformError`. See docs/transforms.md.
        with_key: Yield ``(key, sample)``, or ``(list of keys, batch)``. A key identifies a record:
            ``"path:offset"`` in TFRecord files.
    """

    transform: Annotated[
        Callable[[Any], Any] | None, Option(None, _none_or(Callable, "a function"))
    ]
    with_key: Annotated[bool, Option(False)]


class BatchItemOptions(ItemOptions, total=False):
    """The kind of items that a dataset yields.

    Attributes:
        batch_size: Number of records in a batch, or a :class:`Ramp`: yields a :class:`Batch`, or a
            list if the schema makes no columns. ``None`` yields samples.
    """

    batch_size: Annotated[int | Ramp | None, Option(None, _optional(check_size))]


class StreamItemOptions(ItemOptions, total=False):
    """The kind of items that a stream yields.

    Attributes:
        batch_size: Number of records in a batch: the stream yields a :class:`Batch`, or a list if
            the schema makes no columns. ``None`` yields samples.
    """

    batch_size: Annotated[int | None, Option(None, _optional(_at_least(1)))]


class LengthItemOptions(BatchItemOptions, total=False):
    """The kind of items of a dataset that can make batches by length.

    Attributes:
        batch_tokens: Maximum padded size (or a Ramp) of a batch of records of similar length:
            number (at most ``batch_size``) times longest. See docs/batching.md.
    """

    batch_tokens: Annotated[int | Ramp | None, Option(None, _optional(check_size))]


class StreamSampleOptions(
    LoopOptions, StreamOrderOptions, AccessOptions, ChecksumOptions, total=False
):
    """Options of :class:`TFRecordStream` that do not change its items."""


class StreamOptions(StreamSampleOptions, StreamItemOptions, total=False):
    """Options of :class:`TFRecordStream`."""


class WholeFileOptions(
    SplitOptions, LoopOptions, OrderOptions, AccessOptions, BatchItemOptions, total=False
):
    """Options of :class:`WholeFileDataset`."""


class FileOptions(WholeFileOptions, IndexOptions, total=False):
    """Options of datasets of other formats.

    Attributes:
        compression: Compression of the files: ``"auto"`` (by content), ``None``, ``"gzip"``,
            ``"zlib"`` or ``"zstd"``.
    """

    compression: Annotated[CompressionChoice, Option("auto")]


class TfdsSampleOptions(
    LoopOptions, LengthOptions, OrderOptions, AccessOptions, ChecksumOptions, total=False
):
    """Options of :meth:`TFRecordDataset.from_tfds` that do not change its items."""


class TfdsOptions(TfdsSampleOptions, LengthItemOptions, total=False):
    """Options of :meth:`TFRecordDataset.from_tfds`."""


class TFRecordSampleOptions(TfdsSampleOptions, SplitOptions, IndexOptions, total=False):
    """Options of :class:`TFRecordDataset` that do not change its items."""


class TFRecordOptions(TFRecordSampleOptions, LengthItemOptions, total=False):
    """Options of :class:`TFRecordDataset`."""


class MapSampleOptions(SplitOptions, AccessOptions, IndexOptions, ChecksumOptions, total=False):
    """Options of :class:`TFRecordMapDataset` that do not change its items."""


class MapOptions(MapSampleOptions, ItemOptions, total=False):
    """Options of :class:`TFRecordMapDataset`."""


class SchemaOptions(TypedDict, total=False):
    """The schema of a dataset.

    Attributes:
        schema: Another schema.
    """

    schema: Annotated[Any, Option(None)]


class OrderReplaceOptions(LoopOptions, OrderOptions, total=False):
    """Options of the ``replace`` methods of datasets that do not change the items."""


class ReplaceOptions(OrderReplaceOptions, SchemaOptions, BatchItemOptions, total=False):
    """Options of the ``replace`` methods of datasets."""


class TFRecordReplaceOptions(ReplaceOptions, LengthOptions, LengthItemOptions, total=False):
    """Options of :meth:`TFRecordDataset.replace`."""


class MixSampleOptions(LoopOptions, EpochOptions, PackOptions, total=False):
    """Options of a mixture that do not change its items."""


class MixOptions(MixSampleOptions, BatchItemOptions, total=False):
    """Options of a mixture, which replace the options of its datasets."""


class StreamOrderReplaceOptions(LoopOptions, StreamOrderOptions, total=False):
    """Options of :meth:`TFRecordStream.replace` that do not change the items."""


class StreamReplaceOptions(
    StreamOrderReplaceOptions, SchemaOptions, StreamItemOptions, total=False
):
    """Options of :meth:`TFRecordStream.replace`."""


# ---- their texts ----


def _document(kind: Any) -> None:
    """Give the options of a class the texts of its docstring."""
    _, _, attributes = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")
    for name, text in re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", attributes, re.MULTILINE):
        kind.__annotations__[name].__metadata__[0].text = f"    {name}: {text}"


for _kind in filter(is_typeddict, [*globals().values()]):
    _document(_kind)


# ---- using them ----


def options_of(kind: Any) -> dict[str, Option]:
    """Return the definitions of the options of a class of this module, by name, in their order."""
    hints = kind.__annotations__
    return {name: hints[name].__metadata__[0] for name in _ORDER if name in hints}


def defaults_of(names: Iterable[str]) -> dict[str, Any]:
    """Return the defaults of the options of any dataset, by name."""
    known = {**options_of(FileOptions), **options_of(TFRecordOptions)}
    return {name: known[name].default for name in names}


def complete(kind: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all options of a class of this module: those given, checked, and defaults.

    Raises:
        TypeError: If an option is unknown.
        ValueError: If a value is invalid or options contradict each other.
    """
    defaults = {name: option.default for name, option in options_of(kind).items()}
    return change_options(kind, defaults, given)


def change_options(
    kind: Any, options: Mapping[str, Any], changes: Mapping[str, Any]
) -> dict[str, Any]:
    """Return options of a class of this module with some of them changed and checked.

    Raises:
        TypeError: If an option is unknown.
        ValueError: If a value is invalid or options contradict each other.
    """
    definitions = options_of(kind)
    for name in changes:
        if name not in definitions:
            raise TypeError(
                f"unexpected keyword argument {name!r}: the options are {', '.join(definitions)}"
            )
    changed = {name: definitions[name].check(name, value) for name, value in changes.items()}
    options = {**options, **_with_mesh(options, changed)}
    if options.get("drop_last") and not makes_batches(options):
        raise ValueError("drop_last needs a batch_size")
    if options.get("pack") is not None:
        _check_packed(options)
    if has_length_batches(options) and isinstance(options["batch_size"], Ramp):
        raise ValueError(
            "batch_size must be an integer or None for batches by length, got "
            f"{options['batch_size']}"
        )
    _check_limits(options)
    has_lanes = lanes_of(options.get("shuffle", False)) is not None
    if has_lanes:
        check_no_length_batches(options, "a shuffle with lanes")
    if options.get("steps_per_epoch") is not None and has_lanes:
        raise ValueError("steps_per_epoch must be None for a shuffle with lanes")
    resolve_rank(options.get("rank"), options.get("world_size"))
    return options


def _check_limits(options: Mapping[str, Any]) -> None:
    """Check that options go together with a ramp of ``batch_tokens`` or of the length of rows."""
    pack = options.get("pack")
    if isinstance(options.get("batch_tokens"), Ramp):
        name = "batch_tokens"
    elif pack is not None and isinstance(pack.length, Ramp):
        name = "the length of packed rows"
        if options["batch_size"] is None:
            raise ValueError(f"a Ramp of {name} counts steps: set batch_size, the rows of a step")
    else:
        return
    if options["uneven"] == "pad":
        raise ValueError(
            f"uneven must be 'drop' or 'keep' with a Ramp of {name}, got 'pad': it repeats the "
            "start of the epoch, which has another size"
        )


def _with_mesh(options: Mapping[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return changes of options with the rank that a mesh gives, or no longer gives."""
    mesh = changes.get("mesh")
    if mesh is not None:
        if changes.get("rank") is not None or changes.get("world_size") is not None:
            raise ValueError("rank and world_size must be None with a mesh, which has both")
        return {**changes, "rank": mesh.rank, "world_size": mesh.world_size}
    if not changes.keys().isdisjoint({"rank", "world_size"}):
        return {**changes, "mesh": None}
    if "mesh" in changes and options["mesh"] is not None:
        return {**changes, "rank": None, "world_size": None}
    return changes


def _check_packed(options: Mapping[str, Any]) -> None:
    if has_length_batches(options):
        raise ValueError(
            "pack makes rows of one length: batch_tokens and length_key must be None, and "
            "batch_size is the number of rows in a batch"
        )
    if options["with_key"]:
        raise ValueError(
            "with_key must be False with pack: a row has several records. The column "
            "'record_numbers' tells which"
        )


def access_options(options: Mapping[str, Any]) -> StorageOptions:
    """Return the options to reach remote objects, with the limits among a dataset's options."""
    cache: BlockCache | None = options["cache"]
    least = 0 if cache is None else _LEAST_BLOCKS * cache.block_bytes
    return with_limits(options["storage_options"], max(options["cache_bytes"], least), cache)


def largest_batch(options: Mapping[str, Any]) -> int:
    """Return the number of records in the largest batch; 1 if it is not limited."""
    batch_size = options.get("batch_size")
    return max(batch_size.sizes.values()) if isinstance(batch_size, Ramp) else batch_size or 1


def makes_batches(options: Mapping[str, Any]) -> bool:
    """Return whether options ask for batches, not samples."""
    return options.get("batch_size") is not None or options.get("batch_tokens") is not None


def has_length_batches(options: Mapping[str, Any]) -> bool:
    """Return whether options ask for batches by length."""
    return options.get("batch_tokens") is not None or options.get("length_key") is not None


def check_no_length_batches(options: Mapping[str, Any], subject: str) -> None:
    """Raise ValueError if options ask for batches by length, or packed rows, which need records."""
    if has_length_batches(options):
        raise ValueError(
            f"{subject} has no batches by length: batch_tokens and length_key must be None"
        )
    if options.get("pack") is not None:
        raise ValueError(f"{subject} has no packed rows: pack must be None")


def takes_options(kind: Any, *, unchanged: bool = False) -> Callable[[_Decorated], _Decorated]:
    """Give a class or function the signature of its options, and a class their texts.

    The constructor or function takes ``**options: Unpack[kind]``.

    Args:
        kind: A class of this module.
        unchanged: Whether options that are not given keep their present value, as in ``replace()``.
    """

    def decorate(decorated: Any) -> Any:
        definitions = options_of(kind)
        function: Any = decorated.__init__ if inspect.isclass(decorated) else decorated
        signature = inspect.signature(function)
        own = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        options = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=UNCHANGED if unchanged else option.default,
                annotation=kind.__annotations__[name].__origin__,
            )
            for name, option in definitions.items()
        ]
        function.__signature__ = signature.replace(parameters=[*own, *options])
        if inspect.isclass(decorated):
            decorated.__doc__ = _with_options(decorated.__doc__, definitions)
        return decorated

    return decorate


def _entry(option: Option) -> str:
    """Return the entry of an option in the "Args" section of a docstring."""
    default = f"Default: ``{option.default!r}``."
    sep = "\n" + " " * 8 if len(option.text.splitlines()[-1]) + len(default) > 95 else " "
    return f"{option.text}{sep}{default}"


def _with_options(docstring: str | None, definitions: Mapping[str, Option]) -> str:
    """Return the docstring of a class with the options in groups, after its "Args" section."""
    sections = inspect.cleandoc(docstring or "").split("\n\n")
    [at] = [number for number, text in enumerate(sections) if text.startswith("Args:")]
    groups = []
    for title, names in GROUPS.items():
        entries = [_entry(definitions[name]) for name in names if name in definitions]
        if entries:
            groups.append("\n".join([f"{title}:", *entries]))
    sections[at : at + 1] = [sections[at] + groups[0].removeprefix("Args:"), *groups[1:]]
    return "\n\n".join(sections)
