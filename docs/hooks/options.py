"""Show the options of datasets on the API pages, from their definitions.

Constructors and functions take ``**options: Unpack[...]`` and get their signature from
``torchrec_io/_datasets/options.py`` when they are imported. The pages are built without importing,
so this extension reads the same definitions from the source.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any, NamedTuple

import griffe

MODULE = "_datasets.options"


class Definition(NamedTuple):
    """The source of an option: its name, type, default and text."""

    name: str
    annotation: str
    default: str
    text: str  # an entry of a docstring


class Options(griffe.Extension):
    """Add options to the parameters and docstrings of classes and functions that take them."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Add the options in a whole package."""
        if "_datasets" in pkg.members:
            _add_to_members(pkg, definitions_in(Path(pkg[MODULE].filepath).read_text("utf-8")))


def _add_to_members(owner: griffe.Object, kinds: dict[str, list[Definition]]) -> None:
    for member in list(owner.members.values()):
        if isinstance(member, griffe.Alias):
            continue  # expanded where it is defined
        for decorator in getattr(member, "decorators", ()):
            call = ast.parse(str(decorator.value), mode="eval").body
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "takes_options":
                _add(member, kinds[ast.unparse(call.args[0])], bool(call.keywords))
        _add_to_members(member, kinds)


def definitions_in(source: str) -> dict[str, list[Definition]]:
    """Return the options of each class of the module's source, in the order of their groups."""
    kinds: dict[str, list[Definition]] = {}
    module = ast.parse(source)
    order = _order_in(module)
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            bases = [definition for base in node.bases for definition in kinds.get(_name(base), ())]
            _, _, attributes = (ast.get_docstring(node) or "").partition("Attributes:\n")
            texts = re.findall(r"^(    (\w+): .*(?:\n {8}.*)*)", attributes, re.MULTILINE)
            entries = {name: text for text, name in texts}
            own = [
                _definition(each, entries) for each in node.body if isinstance(each, ast.AnnAssign)
            ]
            found = bases + [option for option in own if option is not None]
            by_name = {option.name: option for option in found}
            kinds[node.name] = [by_name[name] for name in order if name in by_name]
    return kinds


def _order_in(module: ast.Module) -> list[str]:
    """Return the names of options in the order of their groups."""
    for node in module.body:
        if isinstance(node, ast.AnnAssign) and _name(node.target) == "GROUPS":
            assert node.value is not None
            return [name for names in ast.literal_eval(node.value).values() for name in names]
    raise ValueError("the module must define GROUPS")


def _name(node: ast.expr) -> str:
    return ast.unparse(node)


def _definition(node: ast.AnnAssign, entries: dict[str, str]) -> Definition | None:
    """Return the option of ``name: Annotated[type, Option(default, ...)]``."""
    if (
        not isinstance(node.annotation, ast.Subscript)
        or _name(node.annotation.value) != "Annotated"
    ):
        return None
    assert isinstance(node.annotation.slice, ast.Tuple)
    annotation, option = node.annotation.slice.elts
    assert isinstance(option, ast.Call)
    name = _name(node.target)
    return Definition(name, _name(annotation), _name(option.args[0]), entries[name])


def _add(member: griffe.Object, definitions: list[Definition], is_unchanged: bool) -> None:
    function = member.members["__init__"] if member.is_class else member
    assert isinstance(function, griffe.Function)
    assert member.docstring is not None
    del function.parameters["options"]
    entries = []
    for option in definitions:
        default = "<unchanged>" if is_unchanged else option.default
        function.parameters.add(
            griffe.Parameter(
                option.name,
                annotation=option.annotation,
                kind=griffe.ParameterKind.keyword_only,
                default=default,
            )
        )
        entries.append(option.text)
    if member.is_class:
        member.docstring.value = _with_arguments(member.docstring.value, entries)


def _with_arguments(docstring: str, entries: list[str]) -> str:
    """Return the docstring of a class with entries added to its "Args" section."""
    sections = docstring.split("\n\n")
    [at] = [number for number, text in enumerate(sections) if text.startswith("Args:")]
    sections[at] = "\n".join([sections[at], *entries])
    return "\n\n".join(sections)
