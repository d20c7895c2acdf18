"""The content of a report: plain values that a page shows and that JSON stores."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Histogram:
    """The numbers of values in intervals.

    Attributes:
        edges: Ends of the intervals, one more than there are intervals.
        counts: Number of values in each interval. The last interval includes its end.
        below: Number of values below the first edge.
        above: Number of values above the last edge.
        has_integers: Whether each interval is one integer, from ``edge`` on.
        is_logarithmic: Whether the intervals have equal ratios, not equal widths.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    below: int = 0
    above: int = 0
    has_integers: bool = False
    is_logarithmic: bool = False


@dataclass(frozen=True)
class NumberSummary:
    """Statistics of numbers.

    Attributes:
        count: Number of values, with NaN and infinities.
        nan: Number of NaNs.
        positive_infinity: Number of infinities above zero.
        negative_infinity: Number of infinities below zero.
        zeros: Number of zeros.
        minimum: Smallest finite value; None without finite values. This and all below.
        maximum: Largest finite value.
        mean: Mean of the finite values.
        std: Standard deviation of the finite values.
        quantiles: Quantiles of the finite values, by probability.
        rank_error: Largest error of the probability of a quantile, with a confidence of 99%; 0 if
            the quantiles are exact.
        histogram: Histogram of the finite values.
    """

    count: int
    nan: int
    positive_infinity: int
    negative_infinity: int
    zeros: int
    minimum: float | None
    maximum: float | None
    mean: float | None
    std: float | None
    quantiles: dict[float, float]
    rank_error: float
    histogram: Histogram | None


@dataclass(frozen=True)
class TopValue:
    """A frequent value.

    Attributes:
        value: The value; bytes as text, where what is not text is escaped.
        count: Number of times that it was seen.
        name: Name of the class that it is the number of, if known.
    """

    value: int | str
    count: int
    name: str | None = None


@dataclass(frozen=True)
class ValueSummary:
    """The different values of a feature.

    Attributes:
        distinct: Number of different values.
        is_exact: Whether the numbers are exact. Otherwise they are estimates of a sketch.
        top: The most frequent values, the most frequent first.
        others: Number of values that are not among these.
    """

    distinct: int
    is_exact: bool
    top: tuple[TopValue, ...]
    others: int


@dataclass(frozen=True)
class Thumbnail:
    """A small copy of an image.

    Attributes:
        path: File of the record.
        record: Number of the record in the file.
        label: Label of the record, if known.
        size: Width and height of the image in pixels; None if they cannot be read.
        format: Format of the image, such as "JPEG".
        note: Remark such as "largest", or the reason why the image cannot be decoded; or "".
        is_broken: True if the image cannot be decoded.
        uri: Data URI of the copy; None for a broken image.
        shape: Width and height of the copy.
        boxes: Boxes of objects to draw: left, top, right and bottom edge, from 0 to 1.
        stored_boxes: Number of boxes that the record has. Some may be invalid.
    """

    path: str
    record: int
    label: str | None
    size: tuple[int, int] | None
    format: str
    note: str
    is_broken: bool
    uri: str | None = field(repr=False)
    shape: tuple[int, int] | None = None
    boxes: tuple[tuple[float, ...], ...] = ()
    stored_boxes: int = 0


@dataclass(frozen=True)
class ImageSummary:
    """Statistics of images.

    Attributes:
        count: Number of images, without empty values.
        unreadable: Number of images whose header cannot be read.
        formats: Number of images of each format, the most frequent first.
        sizes: Number of images of the most frequent sizes, with width and height.
        distinct_sizes: Number of different sizes; a lower bound if there are very many.
        thumbnails: Images chosen at random, in their order, then remarkable ones.
    """

    count: int
    unreadable: int
    formats: dict[str, int]
    sizes: tuple[tuple[int, int, int], ...]
    distinct_sizes: int
    thumbnails: tuple[Thumbnail, ...]


@dataclass(frozen=True)
class FeatureReport:
    """The values of a feature.

    Attributes:
        name: Name of the feature.
        part: Part of the record: "features", "context", "sequence" or "examples".
        kind: Kind of the stored values: "bytes", "float", "int64", "mixed" or "none".
        role: Kind of display: "number", "class", "text", "image", "bytes" or "unread".
        spec: Spec that reads it, as Python; "" if it is left out of the schema.
        why: Reason for the spec, or for leaving it out.
        owners: Number of records, or of examples in lists, that were inspected.
        present: Number of these that have values.
        counts: Numbers of values in a record, example or step; None if values were not read.
        steps: Numbers of steps in a record, for feature lists.
        formats: Formats of its bytes, the most frequent first.
        remarks: Remarkable facts, as phrases.
        numbers: Statistics of numbers.
        lengths: Statistics of the lengths of bytes.
        values: The different values.
        samples: Some of the texts, shortened, if they are long or nearly all different.
        images: Statistics of images.
    """

    name: str
    part: str
    kind: str
    role: str
    spec: str
    why: str
    owners: int
    present: int
    counts: NumberSummary | None = None
    steps: NumberSummary | None = None
    formats: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    numbers: NumberSummary | None = None
    lengths: NumberSummary | None = None
    values: ValueSummary | None = None
    samples: tuple[str, ...] = ()
    images: ImageSummary | None = None


@dataclass(frozen=True)
class FileReport:
    """A file.

    Attributes:
        path: Path.
        records: Number of records in its index.
        file_bytes: Size in bytes.
        record_bytes: Size of the data of its records in bytes.
        compression: "gzip", "zlib", "zstd" or None.
        damaged: Number of damaged records that were found.
        lost: Reason why the rest of the file cannot be read; "" if there is none.
        damage: Parts of the file: True where it is damaged. Empty for a valid file, and for files
            that were not searched for all damage.
    """

    path: str
    records: int
    file_bytes: int
    record_bytes: int
    compression: str | None
    damaged: int = 0
    lost: str = ""
    damage: tuple[bool, ...] = ()

    @property
    def is_valid(self) -> bool:
        """True if no damage was found."""
        return not self.damaged and not self.lost


@dataclass(frozen=True)
class Duplicates:
    """Records with the same content.

    Attributes:
        records: Number of records that were compared.
        distinct: Number of different records.
        is_exact: Whether the number is exact. Otherwise it is an estimate of a sketch.
        examples: Files and numbers of some records with the same content, in groups.
    """

    records: int
    distinct: int
    is_exact: bool
    examples: tuple[tuple[tuple[str, int], ...], ...] = ()


@dataclass(frozen=True)
class LabelOrder:
    """Dependence of the label of a record on the position of the record.

    Each of the three numbers is 0 for an order that is uniformly random, and 1 for sorted data.
    None if it cannot be known.

    Attributes:
        label: Name of the label.
        classes: Number of different labels, or of intervals of a label with many values.
        between_files: Cramér's V of label and file.
        within_files: Cramér's V of label and position in the file.
        neighbors: Share of neighboring records with the same label, compared with chance.
        is_sorted: Whether one of these is far from 0.
        verdict: Conclusion, as a sentence.
        shuffle: Recommended ``shuffle``, as Python.
    """

    label: str
    classes: int
    between_files: float | None
    within_files: float | None
    neighbors: float | None
    is_sorted: bool
    verdict: str
    shuffle: str


@dataclass(frozen=True)
class Structure:
    """Records that are episodes or lists.

    Attributes:
        kind: "episodes" or "lists".
        group: Name of the features that have a value for each step; "" for lists.
        records: Number of records that were inspected.
        sizes: Numbers of steps, or of examples in lists.
        features: Names of the features of steps or examples.
    """

    kind: str
    group: str
    records: int
    sizes: NumberSummary
    features: tuple[str, ...]


@dataclass(frozen=True)
class OtherRecords:
    """Some records that are not Examples.

    Attributes:
        kind: Name of the kind.
        count: Number of those among the records that were inspected for their kind.
        samples: Their content as text, shortened.
    """

    kind: str
    count: int
    samples: tuple[str, ...]
