"""Pages in a real browser: nothing runs, nothing is loaded, nothing is cut off."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from PIL import Image

import torchrec_io as tio
from tests.conftest import ROOT
from tests.reports import hostile
from tests.support.browser import Browser
from tests.support.examples import example_of
from tests.support.images import encoded, smooth
from tests.support.tfrecord import write_tfrecord

BOX = {
    "image/object/bbox/xmin": 0.25,
    "image/object/bbox/ymin": 0.5,
    "image/object/bbox/xmax": 0.5,
    "image/object/bbox/ymax": 0.875,
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page with every section."""
    folder = tmp_path_factory.mktemp("data")
    for number in range(6):
        records = [
            example_of(
                **{"image/encoded": [encoded(smooth(60 + i, 90), "JPEG")]},
                **{name: [edge] for name, edge in BOX.items()},
                label=[number],
                text=[b"A sentence about something that is long enough to be a sample %d." % i],
                value=[i * 0.5] * (i % 4),
                **{"a_very_long_name_of_a_feature_" * 4: [i]},
            )
            for i in range(40)
        ]
        write_tfrecord(folder / f"data-{number:05}-of-00006.tfrecord", [*records, records[0]])
    damaged = folder / "data-00003-of-00006.tfrecord"
    damaged.write_bytes(damaged.read_bytes()[:-500])
    tio.report(folder, duplicates=True).save(folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    path = write_tfrecord(folder / "<img src=x onerror='window.hacked=1'>", hostile.records())
    tio.report(path).save(folder / "report.html")
    return folder / "report.html"


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 400])
def test_pages_fit_the_window(browser: Browser, page: Path, width: int, dark: bool) -> None:
    browser.open(page, width, dark=dark)
    assert browser.messages == []
    assert [url for url in browser.requests if not url.startswith("data:")] == [page.as_uri()]
    assert browser.scripts == 0
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    # No text is wider than its box, except in boxes that scroll.
    assert (
        browser.evaluate(
            """[...document.querySelectorAll("main *")].filter(each =>
             each.scrollWidth > each.clientWidth + 1 && each.clientWidth > 0
             && getComputedStyle(each).overflowX === "visible"
             && getComputedStyle(each).display !== "inline"
             && !each.closest(".scroll, pre, svg, nav")
           ).map(each => each.outerHTML.slice(0, 100))"""
        )
        == []
    )
    headings = browser.evaluate("[...document.querySelectorAll('h2')].map(each => each.innerText)")
    assert headings == [
        "Images", "Files", "Damage", "Features", "Values", "Order of the records", "Duplicates",
        "Code to copy",
    ]  # fmt: skip
    light = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert light == ("rgb(15, 19, 25)" if dark else "rgb(245, 246, 248)")


@pytest.mark.parametrize("width", [1280, 400])
def test_grids_have_no_holes(browser: Browser, page: Path, width: int) -> None:
    """Each row of cards fills the width, and its cards have the same height."""
    browser.open(page, width)
    rows = browser.evaluate(
        """[...document.querySelectorAll(".grid, .tiles")].flatMap(grid => {
             const outer = grid.getBoundingClientRect(), rows = {};
             for (const each of grid.children) {
               const box = each.getBoundingClientRect();
               (rows[box.top] ??= []).push(box);
             }
             return Object.values(rows).map(row => [
               row[0].left - outer.left, outer.right - row.at(-1).right,
               ...row.map(box => box.height - row[0].height),
             ].map(Math.abs));
           })"""
    )
    assert len(rows) > (3 if width > 1000 else 10)
    assert max(map(max, rows)) < 1
    assert (max(map(len, rows)) > 4) == (width > 1000)


@pytest.mark.parametrize("width", [1280, 400])
def test_boxes_are_drawn_where_they_are(browser: Browser, page: Path, width: int) -> None:
    browser.open(page, width)
    places = browser.evaluate(
        """[...document.querySelectorAll(".picture")].map(picture => {
             const image = picture.querySelector("img"), outer = image.getBoundingClientRect();
             const box = picture.querySelector("rect").getBoundingClientRect();
             const [width, height] = [image.naturalWidth, image.naturalHeight];
             const scale = Math.min(outer.width / width, outer.height / height);
             const left = outer.x + (outer.width - width * scale) / 2;
             const top = outer.y + (outer.height - height * scale) / 2;
             return [(box.left - left) / width / scale, (box.top - top) / height / scale,
                     (box.right - left) / width / scale, (box.bottom - top) / height / scale];
           })"""
    )
    assert len(places) > 20
    for place in places:
        assert place == pytest.approx([*BOX.values()], abs=0.03)


def test_pictures_are_shown(browser: Browser, page: Path) -> None:
    browser.open(page)
    sizes = browser.evaluate("[...document.images].map(each => each.naturalWidth * each.width)")
    assert len(sizes) > 20
    assert all(sizes)
    heights = browser.evaluate(
        "[...document.querySelectorAll('svg.bars')].filter(each => each.checkVisibility())"
        ".map(each => each.getBoundingClientRect().height)"
    )
    assert len(heights) >= 4
    assert all(height > 50 for height in heights)
    fill = "getComputedStyle(document.querySelector('svg.bars rect')).fill"
    assert browser.evaluate(fill) == "rgb(59, 130, 196)"


def test_the_keyboard_reaches_everything(browser: Browser, page: Path) -> None:
    browser.open(page)
    for _ in range(3):
        for kind in ("keyDown", "keyUp"):
            browser.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab",
                         windowsVirtualKeyCode=9)  # fmt: skip
    assert browser.evaluate("document.activeElement.closest('nav') !== null")
    assert browser.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    reached = browser.evaluate(
        "[...document.querySelectorAll('.scroll, pre')].every(each => each.tabIndex === 0)"
    )
    assert reached


def test_screen_readers_get_names_and_ordered_headings(browser: Browser, page: Path) -> None:
    browser.open(page)
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    shown = [node for node in nodes if not node["ignored"]]
    roles = {node["role"]["value"] for node in shown}
    assert {"banner", "navigation", "main", "contentinfo", "image", "table", "region"} <= roles
    for node in shown:
        if node["role"]["value"] in ("image", "link", "region", "article", "DisclosureTriangle"):
            assert node["name"]["value"], node
    levels = [
        each["value"]["value"]
        for node in shown
        if node["role"]["value"] == "heading"
        for each in node["properties"]
        if each["name"] == "level"
    ]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_a_click_selects_a_block_of_code(browser: Browser, page: Path) -> None:
    browser.open(page)
    [x, y] = browser.evaluate(
        "(() => { const pre = document.querySelector('pre.copy'); pre.scrollIntoView("
        "{behavior: 'instant', block: 'center'}); const box = pre.getBoundingClientRect();"
        "return [box.x + 40, box.y + 30] })()"
    )
    for kind in ("mousePressed", "mouseReleased"):
        browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    selected = browser.evaluate("getSelection().toString()")
    assert selected.startswith("import torchrec_io as tio")
    assert "for batch in loader:" in selected


def test_hostile_records_run_nothing(browser: Browser, attacked: Path) -> None:
    for width in (1280, 400):
        browser.open(attacked, width)
        assert browser.messages == []
        assert [url for url in browser.requests if not url.startswith("data:")] == [
            attacked.as_uri()
        ]
        assert browser.scripts == 0
        assert browser.evaluate("window.hacked") is None
        assert (
            browser.evaluate("document.scripts.length + document.querySelectorAll('iframe').length")
            == 0
        )
        assert browser.evaluate("getComputedStyle(document.body).display") == "block"
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.evaluate("document.querySelectorAll('h1').length") == 1


def test_notebooks_show_the_page_in_a_frame(browser: Browser, tmp_path: Path) -> None:
    report = tio.report(write_tfrecord(tmp_path / "x", [example_of(x=[1])]))
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!DOCTYPE html><h1>Notebook</h1>{report._repr_html_()}", "utf-8")
    browser.open(notebook)
    assert browser.messages == []
    style = "getComputedStyle(document.body).backgroundColor"
    assert browser.evaluate(style) == "rgba(0, 0, 0, 0)"  # the style of the page does not leak
    tree = browser.call("DOM.getDocument", depth=-1, pierce=True)
    assert "Code to copy" in str(tree)


def test_a_thousand_files_open_at_once(browser: Browser, tmp_path: Path) -> None:
    for number in range(1000):
        write_tfrecord(tmp_path / f"data-{number:05}-of-01000.tfrecord", [example_of(x=[number])])
    tio.report(tmp_path).save(tmp_path / "report.html")
    browser.open(tmp_path / "report.html")
    assert browser.messages == []
    assert browser.evaluate("document.querySelectorAll('*').length") < 4000
    assert "800 more files" in browser.evaluate("document.body.textContent")


def test_the_screenshot_of_the_docs(browser: Browser, tmp_path: Path) -> None:
    """A script makes it. It is small, and as wide as pages show it."""
    del browser  # skips without Chromium
    script = ROOT / "docs" / "plots" / "report_screenshot.py"
    subprocess.run([sys.executable, script, tmp_path / "new.png"], check=True)
    for path in (tmp_path / "new.png", script.with_suffix(".png")):
        with Image.open(path) as picture:
            assert picture.format == "PNG"
            assert picture.size == (1200, 948)
        assert path.stat().st_size < 150_000
