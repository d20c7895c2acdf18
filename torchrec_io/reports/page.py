"""The page of a report."""

from __future__ import annotations

import base64
import functools
import hashlib
import inspect
from importlib.resources import files as package_files
from typing import TYPE_CHECKING, Any

from ..checks import counted
from . import text, words
from .code import MOST_SPECS
from .extra import import_extra

if TYPE_CHECKING:
    from .results import Report

# Limits of what a page lists, so that it opens quickly.
LIMITS = {"sets": 50, "files": 200, "damaged": 50, "cards": 150, "rows": 1000, "specs": MOST_SPECS}


def render(report: Report) -> str:
    """Return the page as HTML."""
    page: str = _template().render(reports=(report, *report.other_sets), limits=LIMITS)
    return page


@functools.cache
def _template() -> Any:
    """Return the template of pages, compiled once."""
    templates = package_files(__package__) / "templates"
    style = (templates / "report.css").read_text("utf-8")
    jinja = import_extra("jinja2")
    environment = jinja.Environment(
        loader=jinja.FunctionLoader(lambda name: (templates / name).read_text("utf-8")),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja.StrictUndefined,
    )
    environment.filters |= {"number": text.number, "size": text.size, "shown": text.shown}
    environment.globals |= dict(inspect.getmembers(words, inspect.isfunction))
    environment.globals |= {
        "counted": counted,
        "percent": text.percent,
        "style": style,
        # The policy of the page allows this style alone.
        "style_hash": base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
    }
    return environment.get_template("report.html")
