"""Make pages from files outside of docs/ that the pages of the site link to.

A link from docs/ to a file such as ``../examples/train_ddp.py`` works in the repository. In the
site it leads to a page with the text of that file. Markdown files become pages unchanged; other
files are shown as code.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel

FOLDER = "repository"  # folder of these pages in the site
_LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")
_PICTURES = (".jpg", ".png", ".svg")
_LANGUAGES = {".py": "python", ".sh": "bash", ".proto": "protobuf"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file outside of docs/ that a page or the navigation links to."""
    root, docs = roots(config)
    wanted = [page.removeprefix(f"{FOLDER}/") for page in _pages_of(config.nav or [])]
    for file in files.documentation_pages():
        wanted += outside(file.content_string, f"{docs}/{file.src_uri}", docs, root)
    known = set()
    while wanted:
        path = wanted.pop()
        if path in known:
            continue
        known.add(path)
        content: str | bytes
        if path.endswith(_PICTURES):
            content = (root / path).read_bytes()
        else:
            content = _shown(path, (root / path).read_text("utf-8"))
            wanted += outside(content, path, docs, root)
        page = File.generated(
            config, page_of(path), content=content, inclusion=InclusionLevel.NOT_IN_NAV
        )
        files.append(page)
    return files


def on_page_markdown(markdown: str, /, *, page: Any, config: MkDocsConfig, **_: Any) -> str:
    """Make links lead to these pages."""
    root, docs = roots(config)
    here = page.file.src_uri
    source = source_of(here, docs)
    if not source.endswith(".md"):
        return markdown  # brackets in a program are not links

    def relinked(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[2]))
        if not (root / target).is_file():
            return link[0]  # mkdocs reports the missing file
        shown = target.removeprefix(f"{docs}/") if _is_in(target, docs) else page_of(target)
        return link[1] + posixpath.relpath(shown, posixpath.dirname(here) or ".") + link[3]

    return _LINK.sub(relinked, markdown)


def outside(text: str, source: str, docs: str, root: Path) -> list[str]:
    """Return the files outside of docs/ that a text links to, relative to the repository root."""
    if not source.endswith(".md"):
        return []
    folder = posixpath.dirname(source)
    links = [posixpath.normpath(posixpath.join(folder, link[2])) for link in _LINK.finditer(text)]
    return [link for link in links if not _is_in(link, docs) and (root / link).is_file()]


def roots(config: MkDocsConfig) -> tuple[Path, str]:
    """Return the folder of the repository and the name of docs/ in it."""
    root = Path(config.config_file_path).resolve().parent
    return root, os.path.relpath(config.docs_dir, root).replace(os.sep, "/")


def page_of(path: str) -> str:
    """Return the page of a file outside of docs/."""
    return f"{FOLDER}/{path}" if path.endswith((".md", *_PICTURES)) else f"{FOLDER}/{path}.md"


def source_of(page: str, docs: str) -> str:
    """Return the source file of a page, relative to the repository root."""
    return page.removeprefix(f"{FOLDER}/") if _is_in(page, FOLDER) else f"{docs}/{page}"


def _is_in(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def _pages_of(nav: Any) -> list[str]:
    """Return the pages of the navigation that this hook makes."""
    if isinstance(nav, str):
        return [nav] if _is_in(nav, FOLDER) else []
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in _pages_of(part)]


def _shown(path: str, text: str) -> str:
    if path.endswith(".md"):
        return text
    language = _LANGUAGES.get(posixpath.splitext(path)[1], "text")
    return f"# {path}\n\n~~~~{language}\n{text}~~~~\n"
