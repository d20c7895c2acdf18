"""Conversions to TFRecord on a cluster, with the names and arguments of ``tio.convert``.

The outputs are those of one machine, byte for byte. Tasks write to a hidden folder beside the
outputs, which needs space for two copies of the records. When all outputs are complete, they get
their names together; in a store, by copies. If a conversion is interrupted, the folder is kept: the
same call continues where it was.

All machines must be able to read the sources, and share the folder of the outputs. A file of CSV,
JSON lines or NumPy arrays is read by one task, a Parquet file by a task for some row groups.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from .._storage.local import StrPath
from .._storage.location import Location
from ..convert.arrow import import_pyarrow
from ..convert.columns import ColumnOptions, Types
from ..convert.conversion import Options
from ..convert.csv_import import convert_csv
from ..convert.image_import import Coding, Encoding, convert_images
from ..convert.jsonl_import import convert_jsonl
from ..convert.npz_import import convert_npz
from ..convert.parquet_import import convert_parquet
from ..tools.report import Result
from .conversion import ClusterConversion

if TYPE_CHECKING:
    from typing_extensions import Unpack


def from_csv(
    sources: StrPath | Sequence[StrPath],
    destination: StrPath,
    *,
    columns: Sequence[str] | None = None,
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
    types: Types | None = None,
    **options: Unpack[Options],
) -> Result:
    """Convert CSV files to TFRecord files of ``tf.train.Example`` records, on a Ray cluster.

    The records are those of :func:`torchrec_io.convert.from_csv`.

    Args:
        sources: One file or several with the same columns.
        destination: Path or URL of the output file, or common start of those of the shards.
        columns: Names of the columns, for files without a header.
        include: Names of the columns to convert. Default: all.
        exclude: Names of columns to leave out.
        types: Stored dtypes of some columns: "int64", "float32" or "string".
        options: Keyword options of all conversions, see :class:`torchrec_io.convert.Options`,
            without ``jobs``.

    Returns:
        Paths, schema, counts and errors of the conversion.

    Raises:
        ConversionError: As on one machine.
        BlockingIOError: If another process runs the same job.
        FileExistsError: If an output exists, unless ``force``.
        FileNotFoundError: If a source does not exist, or machines do not share the folder.
        ImportError: If Ray is not installed.
        ValueError: If an argument is invalid, or ``max_bytes`` is given with ``compression``.
        OSError: If a file cannot be read or written, or the destination is a URL of HTTP.
    """
    chosen = ColumnOptions(include, exclude, types or {})
    conversion = ClusterConversion(destination, options, ["csv", columns, chosen])
    return convert_csv(conversion, sources, columns, chosen)


def from_jsonl(
    sources: StrPath | Sequence[StrPath],
    destination: StrPath,
    *,
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
    types: Types | None = None,
    **options: Unpack[Options],
) -> Result:
    """Convert files of JSON lines to TFRecord files, on a Ray cluster.

    The records are those of :func:`torchrec_io.convert.from_jsonl`.

    Args:
        sources: One file or several.
        destination: Path or URL of the output file, or common start of those of the shards.
        include: Names of the columns to convert. Default: all.
        exclude: Names of columns to leave out.
        types: Stored dtypes of some features: "int64", "float32" or "string".
        options: Keyword options of all conversions, see :class:`torchrec_io.convert.Options`,
            without ``jobs``.

    Returns:
        Paths, schema, counts and errors of the conversion.

    Raises:
        ConversionError: As on one machine.
        BlockingIOError: If another process runs the same job.
        FileExistsError: If an output exists, unless ``force``.
        FileNotFoundError: If a source does not exist, or machines do not share the folder.
        ImportError: If Ray is not installed.
        ValueError: If an argument is invalid, or ``max_bytes`` is given with ``compression``.
        OSError: If a file cannot be read or written, or the destination is a URL of HTTP.
    """
    chosen = ColumnOptions(include, exclude, types or {})
    conversion = ClusterConversion(destination, options, ["jsonl", chosen])
    return convert_jsonl(conversion, sources, chosen)


def from_npz(
    sources: StrPath | Sequence[StrPath],
    destination: StrPath,
    **options: Unpack[Options],
) -> Result:
    """Convert ``.npz`` archives to TFRecord files, on a Ray cluster.

    The records are those of :func:`torchrec_io.convert.from_npz`.

    Args:
        sources: One archive or several, with arrays of the same names, dtypes and row shapes.
        destination: Path or URL of the output file, or common start of those of the shards.
        options: Keyword options of all conversions, see :class:`torchrec_io.convert.Options`,
            without ``jobs``.

    Returns:
        Paths, schema, counts and errors of the conversion.

    Raises:
        ConversionError: As on one machine.
        BlockingIOError: If another process runs the same job.
        FileExistsError: If an output exists, unless ``force``.
        FileNotFoundError: If a source does not exist, or machines do not share the folder.
        ImportError: If Ray is not installed.
        ValueError: If an argument is invalid, or ``max_bytes`` is given with ``compression``.
        OSError: If a file cannot be read or written, or the destination is a URL of HTTP.
    """
    return convert_npz(ClusterConversion(destination, options, ["npz"]), sources)


def from_parquet(
    sources: StrPath | Sequence[StrPath],
    destination: StrPath,
    *,
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
    types: Types | None = None,
    **options: Unpack[Options],
) -> Result:
    """Convert Parquet files to TFRecord files, on a Ray cluster.

    The records are those of :func:`torchrec_io.convert.from_parquet`.

    Args:
        sources: One file or several with the same columns.
        destination: Path or URL of the output file, or common start of those of the shards.
        include: Names of the columns to convert. Default: all.
        exclude: Names of columns to leave out.
        types: Stored dtypes that some columns are cast to: "int64", "float32" or "string".
        options: Keyword options of all conversions, see :class:`torchrec_io.convert.Options`,
            without ``jobs``.

    Returns:
        Paths, schema, counts and errors of the conversion.

    Raises:
        ConversionError: As on one machine.
        BlockingIOError: If another process runs the same job.
        FileExistsError: If an output exists, unless ``force``.
        FileNotFoundError: If a source does not exist, or machines do not share the folder.
        ImportError: If Ray or pyarrow is not installed.
        ValueError: If an argument is invalid, or ``max_bytes`` is given with ``compression``.
        OSError: If a file cannot be read or written, or the destination is a URL of HTTP.
    """
    import_pyarrow()
    chosen = ColumnOptions(include, exclude, types or {})
    conversion = ClusterConversion(destination, options, ["parquet", chosen])
    return convert_parquet(conversion, sources, chosen)


def from_images(
    source: StrPath,
    destination: StrPath,
    *,
    label_pattern: str | re.Pattern[str] | None = None,
    labels: StrPath | None = None,
    resize: tuple[int, int] | int | None = None,
    encode: Encoding | None = None,
    quality: int = 90,
    shuffle: int | None = None,
    **options: Unpack[Options],
) -> Result:
    """Convert a folder of images to TFRecord files, on a Ray cluster.

    The records are those of :func:`torchrec_io.convert.from_images`.

    Args:
        source: Folder of the images. Each folder in it is a class.
        destination: Path or URL of the output file, or common start of those of the shards.
        label_pattern: Regular expression that finds the class in a file name.
        labels: CSV file with the columns ``name`` and ``label``.
        resize: Width and height of the images, or length of the shorter side.
        encode: Format to encode the images to: "jpeg" or "png".
        quality: Quality of JPEG, 1 to 100.
        shuffle: Seed of a uniform permutation of the images.
        options: Keyword options of all conversions, see :class:`torchrec_io.convert.Options`,
            without ``jobs``.

    Returns:
        Paths, schema, counts and errors of the conversion.

    Raises:
        ConversionError: As on one machine.
        BlockingIOError: If another process runs the same job.
        FileExistsError: If an output exists, unless ``force``.
        FileNotFoundError: If a source does not exist, or machines do not share the folder.
        ImportError: If Ray is not installed.
        ValueError: If an argument is invalid, or ``max_bytes`` is given with ``compression``.
        OSError: If a file cannot be read or written, or the destination is a URL of HTTP.
    """
    coding = Coding(resize, encode, quality)
    folder = Location.of(source, options.get("storage_options")).absolute()
    pattern = label_pattern
    if isinstance(pattern, re.Pattern):
        pattern = f"{pattern.flags} {pattern.pattern}"
    arguments = ["images", folder, pattern, coding, shuffle]
    return convert_images(
        ClusterConversion(destination, options, arguments, [] if labels is None else [labels]),
        folder,
        destination,
        label_pattern=label_pattern,
        labels=labels,
        coding=coding,
        shuffle=shuffle,
    )
