"""Makes pages of the files outside of docs/ that the site's pages link to.

A link that leads from docs/ to, say, ``../examples/train_ddp.py`` works where the repository is
looked at. In the site it leads to a page with that file's text. Markdown files are pages as they
are; of other files the text is shown.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel

FOLDER = "repository"  # of the site, where these pages are
_LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")
_PICTURES = (".jpg", ".png", ".svg")
_LANGUAGES = {".py": "python", ".sh": "bash", ".proto": "protobuf"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds a page for each file outside of docs/ that is linked to, and for those of the menu."""
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
    """Has links lead to those pages."""
    root, docs = roots(config)
    here = page.file.src_uri
    source = source_of(here, docs)
    if not source.endswith(".md"):
        return markdown  # brackets of a program are no links

    def relinked(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[2]))
        if not (root / target).is_file():
            return link[0]  # mkdocs says so
        shown = target.removeprefix(f"{docs}/") if _is_in(target, docs) else page_of(target)
        return link[1] + posixpath.relpath(shown, posixpath.dirname(here) or ".") + link[3]

    return _LINK.sub(relinked, markdown)


def outside(text: str, source: str, docs: str, root: Path) -> list[str]:
    """The files outside of docs/ that a text links to, as paths from the repository's root."""
    if not source.endswith(".md"):
        return []
    folder = posixpath.dirname(source)
    links = [posixpath.normpath(posixpath.join(folder, link[2])) for link in _LINK.finditer(text)]
    return [link for link in links if not _is_in(link, docs) and (root / link).is_file()]


def roots(config: MkDocsConfig) -> tuple[Path, str]:
    """The repository's folder, and the name of docs/ in it."""
    root = Path(config.config_file_path).resolve().parent
    return root, os.path.relpath(config.docs_dir, root).replace(os.sep, "/")


def page_of(path: str) -> str:
    """The page of a file outside of docs/."""
    return f"{FOLDER}/{path}" if path.endswith((".md", *_PICTURES)) else f"{FOLDER}/{path}.md"


def source_of(page: str, docs: str) -> str:
    """The file that a page is made of, as a path from the repository's root."""
    return page.removeprefix(f"{FOLDER}/") if _is_in(page, FOLDER) else f"{docs}/{page}"


def _is_in(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def _pages_of(nav: Any) -> list[str]:
    """The pages of the menu that are made here."""
    if isinstance(nav, str):
        return [nav] if _is_in(nav, FOLDER) else []
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in _pages_of(part)]


def _shown(path: str, text: str) -> str:
    if path.endswith(".md"):
        return text
    language = _LANGUAGES.get(posixpath.splitext(path)[1], "text")
    return f"# {path}\n\n~~~~{language}\n{text}~~~~\n"
