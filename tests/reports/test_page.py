"""The page of a report, without a browser."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import torchrec_io as tio
from tests.reports import hostile
from tests.support.examples import example_of
from tests.support.images import encoded, noise
from tests.support.tfrecord import write_tfrecord
from torchrec_io.reports import page as pages
from torchrec_io.reports import text
from torchrec_io.reports.content import FileReport
from torchrec_io.reports.images import _MOST_PIXELS, Owner, find_images, make_thumbnail

ATTRIBUTES = {
    "alt", "aria-hidden", "aria-label", "aria-labelledby", "charset", "class", "content", "height",
    "href", "http-equiv", "id", "lang", "name", "open", "preserveaspectratio", "rel", "role",
    "scope", "src", "tabindex", "viewbox", "width", "x", "y",
}  # fmt: skip
TAGS = {
    "a", "article", "b", "bdi", "body", "br", "caption", "code", "dd", "details", "div", "dl", "dt",
    "figcaption", "figure", "footer", "h1", "h2", "h3", "h4", "head", "header", "html", "img", "li",
    "link", "main", "meta", "nav", "p", "pre", "rect", "section", "small", "span", "strong",
    "style", "summary", "svg", "table", "tbody", "td", "th", "thead", "title", "tr", "ul",
}  # fmt: skip
EMPTY = {"meta", "link", "img", "br"}


class Page(HTMLParser):
    """The elements of a page: tags with attributes, and all texts."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> tio.Report:
    """Return the report of hostile records, in a file with a hostile name."""
    path = (
        tmp_path_factory.mktemp("hostile") / "<img src=x onerror='window.hacked=1'>\udcff.tfrecord"
    )
    write_tfrecord(path, hostile.records())
    return tio.report(path)


def check_page(source: str) -> Page:
    """Check what every page must be: whole, accessible, and without scripts and requests."""
    page = Page(source)
    assert {tag for tag, _ in page.elements} <= TAGS
    assert {name for _, attributes in page.elements for name in attributes} <= ATTRIBUTES
    for attributes in page.all("img"):
        assert re.match(r"data:image/(png|jpeg);base64,[\w+/=]+$", attributes["src"] or "")
        assert attributes["alt"]
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for attributes in page.all("a"):
        assert (attributes["href"] or "").removeprefix("#") in ids
    for attributes in page.all("svg"):
        assert attributes.get("aria-hidden") == "true" or attributes.get("aria-label")
    assert len(page.all("h1")) == len(page.all("main")) == 1
    [style] = re.findall(r"<style>(.*?)</style>", source, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    [policy] = [each["content"] for each in page.all("meta") if each.get("http-equiv")]
    assert policy == (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'"
    )
    return page


def test_hostile_records_stay_text(attacked: tio.Report) -> None:
    page = check_page(attacked.to_html())
    shown = "".join(page.texts)
    for attack in hostile.ATTACKS[:10]:
        assert attack[:60] in shown, attack
    assert not set("\u202e\u2066\u200b\ufeff\x00\x1b\x7f") & set(shown)
    assert r"\u202egnp" in shown
    assert "49" not in re.findall(r"\b49\b(?= *%})", shown)


@pytest.mark.slow
@given(
    st.lists(
        st.dictionaries(
            st.text(max_size=20) | st.sampled_from(hostile.ATTACKS[:11]),
            st.lists(st.binary(max_size=60), max_size=2)
            | st.lists(st.text(max_size=60).map(str.encode), max_size=2)
            | st.lists(st.sampled_from(hostile.IMAGES), max_size=1)
            | st.lists(st.integers(-9, 9), min_size=1, max_size=2),
            max_size=4,
        ),
        max_size=6,
    )
)
def test_any_names_and_values_make_a_whole_page(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    rows = [{name: values or [b""] for name, values in row.items()} for row in rows]
    path = tmp_path_factory.mktemp("data") / "x"
    report = tio.report(write_tfrecord(path, [tio.encode_example(row) for row in rows]))
    page = check_page(report.to_html())
    shown = "".join(page.texts)
    for part in shown.splitlines():
        assert part.replace("\t", "").isprintable()
    assert json.loads(report.to_json())["records"] == len(rows)
    compile(report.loop, "loop", "exec")


def test_hostile_records_make_no_large_page(attacked: tio.Report) -> None:
    assert len(attacked.to_html()) < 1_000_000


def test_schemas_of_hostile_names_are_python(attacked: tio.Report) -> None:
    for source in (attacked.schema_python, attacked.loop):
        compile(source, "source", "exec")


def test_copies_of_images_have_nothing_of_their_bytes(attacked: tio.Report) -> None:
    [feature] = [feature for feature in attacked.features if feature.images is not None]
    assert feature.images is not None
    assert feature.images.unreadable > 0
    for thumbnail in feature.images.thumbnails:
        if thumbnail.uri is None:
            continue
        kind, _, data = thumbnail.uri.partition(";base64,")
        content = base64.b64decode(data)
        assert b"hacked" not in content
        with Image.open(io.BytesIO(content)) as image:
            image.load()
            assert image.format in ("PNG", "JPEG")
            assert kind == f"data:image/{image.format.lower()}"
            assert max(image.size) <= 128
            assert thumbnail.shape == image.size


# ---- images ----


def thumbnail_of(data: bytes) -> Any:
    import numpy as np  # noqa: PLC0415

    values, offsets = np.frombuffer(data, np.uint8), np.array([0, len(data)])
    [image] = find_images(values, offsets, [Owner(7, "x")])
    return make_thumbnail(image, "", ("file", 7), str)


@pytest.mark.parametrize(
    "data", [pytest.param(data, id=str(i)) for i, data in enumerate(hostile.IMAGES)]
)
def test_any_image_gives_a_copy_or_a_reason(data: bytes) -> None:
    found = thumbnail_of(data)
    assert (found.uri is None) == bool(found.note)
    assert found.is_broken == (found.uri is None and "too large" not in found.note)


def test_bombs_are_not_decoded() -> None:
    found = thumbnail_of(hostile.IMAGES[2])
    assert found.size == (10_000, 10_000)
    assert found.note == "too large to show"
    assert found.size[0] * found.size[1] > _MOST_PIXELS
    found = thumbnail_of(hostile.IMAGES[3])
    assert found.size is None
    assert found.note == "invalid or huge header"


def test_16_bits_are_scaled() -> None:
    image = Image.new("I;16", (4, 4))
    image.putpixel((0, 0), 40_000)
    found = thumbnail_of(encoded(image))
    with Image.open(io.BytesIO(base64.b64decode(found.uri.partition(",")[2]))) as copy:
        assert copy.getpixel((0, 0)) == 255
        assert copy.getpixel((1, 1)) == 0


# ---- size ----


def test_pages_of_many_files_and_features_are_bounded(tmp_path: Path) -> None:
    names = [f"f{number}" for number in range(1500)]
    records = [example_of(**{name: [i] for name in names}) for i in range(3)]
    report = tio.report(write_tfrecord(tmp_path / "x", records))
    file = FileReport("x", 5, 10, 8, None)
    damaged = FileReport("y", 5, 10, 8, None, 1, "", (True, False))
    report = dataclasses.replace(report, files=(file,) * 10_000 + (damaged,) * 500)
    page = check_page(report.to_html())
    assert len(page.elements) < 40_000
    shown = " ".join("".join(page.texts).split())
    assert "10,300 more files" in shown
    assert "450 more damaged files" in shown
    assert "500 more features" in shown
    assert f"Pictures are shown for the first {pages.LIMITS['cards']} features." in shown
    assert "The schema has too many features for this page: torchrec-io schema writes it." in shown
    assert 'FixedLenFeature([], "int64"),' not in shown


def test_the_code_of_many_features_infers_the_schema(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "x", [example_of(**{f"f{n}": [n] for n in range(1001)})])
    report = tio.report(path)
    assert report.loop is not None
    assert len(report.loop) < 500
    code = report.loop.replace("tio.make_loader(dataset)", "dataset")
    found: dict[str, Any] = {}
    exec(code, found)  # noqa: S102  # of this package
    assert found["batch"]["f1000"].tolist() == [1000]
    assert report.schema_python is not None
    assert report.schema_python.count("FixedLenFeature") == 1001


# ---- looks ----


def colors() -> dict[str, dict[str, str]]:
    style = Path(pages.__file__).with_name("templates").joinpath("report.css").read_text("utf-8")
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6});", block))
        for block in re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    )
    return {"light": light, "dark": dark}


def luminance(color: str) -> float:
    digits = color[1:] if len(color) == 7 else "".join(2 * digit for digit in color[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(scheme: str) -> None:
    """WCAG AA: 4.5 for text, 3 for pictures."""
    found = colors()[scheme]
    pairs = [
        (text, back, 4.5) for text in ("text", "muted") for back in ("page", "card", "soft", "code")
    ]
    pairs += [("accent", "page", 4.5), ("accent", "card", 4.5), ("warn", "warn-soft", 4.5)]
    pairs += [
        ("bad", "card", 4.5),
        ("bad", "soft", 4.5),
        ("good", "card", 4.5),
        ("text", "warn-soft", 4.5),
    ]
    pairs += [("bar", "card", 3), ("bad", "soft", 3)]
    for front, back, least in pairs:
        assert contrast(found[front], found[back]) >= least, (front, back)


def test_numbers_in_words() -> None:
    numbers = (0, 12, 1234567, 0.5, 1 / 3, 123.456789, 1e-9, 1e30)
    assert list(map(text.number, numbers)) == [
        "0", "12", "1,234,567", "0.5", "0.33333", "123.46", "1e-09", "1e+30",
    ]  # fmt: skip
    assert [text.size(value) for value in (0, 1, 999, 1000, 123_456, 5e9)] == [
        "0 bytes", "1 byte", "999 bytes", "1 kB", "123 kB", "5 GB",
    ]  # fmt: skip
    assert [text.percent(part, 10_000) for part in (0, 10_000, 9_999, 5_000, 1)] == [
        "0 %", "100 %", "99.99 %", "50 %", "0.01 %",
    ]  # fmt: skip
    assert text.percent(0, 0) == "\u2013"
    assert text.percent(99_999_999, 100_000_000) == "> 99.99 %"


def test_every_picture_has_its_numbers_as_text(tmp_path: Path) -> None:
    records = [example_of(x=[i % 7, i], image=[encoded(noise(4, 4, seed=i))]) for i in range(50)]
    shown = "".join(check_page(tio.report(write_tfrecord(tmp_path / "x", records)).to_html()).texts)
    for title in ("Values in each interval", "median", "std. deviation"):
        assert title in shown
