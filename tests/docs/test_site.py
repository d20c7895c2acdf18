"""API pages show all that is public, as Markdown; files outside of docs/ have pages."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import griffe
import pytest
from mkdocs.config.base import load_config
from mkdocs.structure.files import get_files
from mkdocs.structure.pages import Page

import torchrec_io as tio
from tests.conftest import ROOT
from tests.support.pages import public_names
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


def hook(name: str) -> ModuleType:
    path = DOCS / "hooks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"docs_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
        "torchrec_io.integrations.transformers.ResumeLoader",
    }
    assert set(shown) == {f"torchrec_io.{name}" for name in public_names(tio)} | in_rooms | GIVEN


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("_datasets.tfrecord.TFRecordDataset", kinds.TFRecordOptions),
        ("_datasets.tfrecord.TFRecordDataset.from_tfds", kinds.TfdsOptions),
        ("_datasets.tfrecord.TFRecordDataset.replace", kinds.TFRecordReplaceOptions),
        ("_datasets.stream.TFRecordStream", kinds.StreamOptions),
        ("_datasets.map_style.TFRecordMapDataset", kinds.MapOptions),
        ("_datasets.formats.TextLineDataset", kinds.FileOptions),
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


def test_a_public_docstring_refers_to_others(package: Any) -> None:
    text = package["_datasets.tfrecord.TFRecordDataset"].docstring.value
    assert "[`Schema`][torchrec_io.Schema]" in text
    assert "[`split`][torchrec_io.TFRecordDataset.split]" in text
    text = package["ranking.encoding.encode"].docstring.value
    assert "[`encode_example`][torchrec_io.encode_example]" in text


def test_names_of_rooms_are_referred_to_with_their_room(package: Any) -> None:
    text = package["ranking.parsing.parse"].docstring.value
    assert "[`ranking.Schema`][torchrec_io.ranking.Schema]" in text
    text = package["ranking.schema.Schema"].docstring.value
    assert "[`Schema`][torchrec_io.Schema]" in text
    text = package["tfds.splits.Split"].docstring.value
    assert "[`tfds.even_splits`][torchrec_io.tfds.even_splits]" in text


class TestFilesOutsideOfDocs:
    @pytest.fixture
    def config(self, tmp_path: Path) -> Any:
        (tmp_path / "docs" / "more").mkdir(parents=True)
        (tmp_path / "examples").mkdir()
        (tmp_path / "examples" / "a.py").write_text("print('```')  # [news](../NEWS.md)\n")
        (tmp_path / "NEWS.md").write_text("[page](docs/more/page.md) [why](docs/why.png)\n")
        (tmp_path / "docs" / "why.png").write_bytes(b"\x89PNG")
        (tmp_path / "docs" / "more" / "page.md").write_text(
            "[a](../../examples/a.py) [news](../../NEWS.md#new) [none](../../none.py)\n"
            "[index](../index.md) [far](https://example.com/x.md)\n"
        )
        (tmp_path / "docs" / "index.md").write_text("# Home\n")
        config_file = tmp_path / "mkdocs.yml"
        config_file.write_text("site_name: x\n")
        return load_config(str(config_file), hooks=[str(DOCS / "hooks" / "repository.py")])

    def test_they_have_pages(self, config: Any) -> None:
        files = pages_of(config)
        made = {file.src_uri for file in files if file.src_uri.startswith("repository/")}
        assert made == {"repository/examples/a.py.md", "repository/NEWS.md"}
        shown = files.get_file_from_path("repository/examples/a.py.md").content_string
        assert shown == (
            "# examples/a.py\n\n~~~~python\nprint('```')  # [news](../NEWS.md)\n~~~~\n"
        )

    def test_links_lead_there(self, config: Any) -> None:
        assert relinked(config, "more/page.md") == (
            "[a](../repository/examples/a.py.md) [news](../repository/NEWS.md#new) "
            "[none](../../none.py)\n[index](../index.md) [far](https://example.com/x.md)\n"
        )
        assert relinked(config, "repository/NEWS.md") == (
            "[page](../more/page.md) [why](../why.png)\n"
        )
        program = "repository/examples/a.py.md"
        assert "[news](../NEWS.md)" in relinked(config, program)  # as it is in the file


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


def pages_of(config: Any) -> Any:
    return config.plugins.on_files(get_files(config), config=config)


def relinked(config: Any, name: str) -> str:
    files = pages_of(config)
    file = files.get_file_from_path(name)
    page = Page(None, file, config)
    made: str = config.plugins.on_page_markdown(
        file.content_string, page=page, config=config, files=files
    )
    return made
