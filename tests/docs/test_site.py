"""API pages show all that is public, as Markdown; files outside of docs/ have pages."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import griffe
import pytest

import torchrec_io as tio
from tests.conftest import ROOT
from tests.support.pages import hook, public_names
from torchrec_io._datasets import options as kinds
from torchrec_io.reports import content

DOCS = ROOT / "docs"
# Not imported by users, but what public functions give or take.
GIVEN = {
    "torchrec_io._loading.loader.Loader",
    *(
        f"{content.__name__}.{name}"
        for name, value in vars(content).items()
        if dataclasses.is_dataclass(value)
    ),
}


@pytest.fixture(scope="module")
def package() -> Any:
    """The package as the API pages have it."""
    hooks = [str(DOCS / "hooks" / name) for name in ("options.py", "docstrings.py")]
    extensions = griffe.load_extensions(*hooks)
    return griffe.load(
        "torchrec_io", search_paths=[ROOT], extensions=extensions, allow_inspection=False
    )


def test_each_public_name_has_one_place_on_an_api_page() -> None:
    shown = [
        name
        for page in sorted((DOCS / "api").glob("*.md"))
        for name in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.MULTILINE)
    ]
    assert len(shown) == len(set(shown))
    in_rooms = {
        f"{room.__name__}.{name}"
        for room in (
            tio.cluster,
            tio.convert,
            tio.csv,
            tio.inspection,
            tio.presets,
            tio.ranking,
            tio.tfds,
            tio.tools,
        )
        for name in public_names(room)
    }
    in_rooms |= {
        "torchrec_io.integrations.lightning.SetEpoch",
        "torchrec_io.integrations.torchtitan.TFRecordDataLoader",
        "torchrec_io.integrations.transformers.ResumeLoader",
    }
    assert set(shown) == {f"torchrec_io.{name}" for name in public_names(tio)} | in_rooms | GIVEN


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("_datasets.tfrecord.TFRecordDataset", kinds.TFRecordOptions),
        ("_datasets.tfrecord.TFRecordDataset.replace", kinds.TFRecordReplaceOptions),
        ("_datasets.stream.TFRecordStream", kinds.StreamOptions),
        ("_datasets.formats.WholeFileDataset", kinds.WholeFileOptions),
        ("_datasets.mixture.mix", kinds.MixOptions),
    ],
)
def test_api_pages_show_options(package: Any, path: str, kind: Any) -> None:
    """The pages are made without importing, from the same definitions."""
    shown = package[path]
    parameters = (shown["__init__"] if shown.is_class else shown).parameters
    texts = {
        argument.name: " ".join(argument.description.split())
        for section in shown.docstring.parse("google")
        if section.kind.value == "parameters"
        for argument in section.value
    }
    assert "options" not in [parameter.name for parameter in parameters]
    for name, option in kinds.options_of(kind).items():
        default = parameters[name].default
        # The default is Python source, such as 1 << 30.
        assert default == "<unchanged>" or eval(default) == option.default  # noqa: S307
        assert parameters[name].annotation
        if not shown.is_class:
            continue
        words = re.sub(r":\w+:`|`|\[|\]\([^)]*\)|docs/\w+\.md", "", option.text).split()[1:]
        assert texts[name].replace("`", "").split()[:6] == words[:6]
    mkdocs = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert "docs/hooks/options.py" in mkdocs


def test_docstrings_have_no_markup_but_markdown(package: Any) -> None:
    texts = dict(docstrings_of(package))
    assert len(texts) > 300
    for path, text in texts.items():
        assert "``" not in text, path
        assert not re.search(r":\w+:`", text), path
        assert not re.search(r"^\s*(={3,}|\.\. )", text, re.MULTILINE), path


def test_roles_become_references_to_what_a_page_shows(package: Any) -> None:
    names = {"torchrec_io._tensors.batch.Batch": "torchrec_io.Batch"}
    batch = package["_tensors.batch.Batch"]
    assert rewritten("a :class:`Batch`, ``b``", package, names) == (
        "a [`Batch`][torchrec_io.Batch], `b`"
    )
    assert rewritten(":meth:`Batch.to`", package, names) == "[`Batch.to`][torchrec_io.Batch.to]"
    assert rewritten(":meth:`samples`", batch, names) == "[`samples`][torchrec_io.Batch.samples]"
    # Of its own class, from a method.
    assert rewritten(":meth:`samples`", batch["to"], names) == (
        "[`samples`][torchrec_io.Batch.samples]"
    )
    # What no page shows is just its name.
    assert rewritten(":meth:`Batch.__reduce__`", package, names) == "`Batch.__reduce__`"
    assert rewritten(":class:`~torchrec_io._order.plan.EpochPlan`", batch, names) == "`EpochPlan`"
    assert rewritten(":class:`torchrec_io._order.plan.EpochPlan`", batch, names) == "`EpochPlan`"
    assert rewritten("see docs/order.md.", batch, names) == (
        "see [Order, ranks and workers](../order.md)."
    )
    with pytest.raises(FileNotFoundError):
        rewritten("see docs/nowhere.md", batch, names)


def docstrings_of(owner: Any) -> Any:
    for member in owner.members.values():
        if member.is_alias:
            continue
        if member.docstring is not None:
            yield member.path, member.docstring.value
        yield from docstrings_of(member)


def rewritten(text: str, place: Any, names: dict[str, str]) -> str:
    made: str = hook("docstrings").to_markdown(text, place, names)
    return made
