"""Add the table of all messages to the troubleshooting page, from the package's source.

A message is the text that an error class is called with. What is passed through a function that
makes the error is followed to the function's callers. Parts that vary are shown as ``...``.
"""

from __future__ import annotations

import ast
import builtins
import html
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

PAGE = "troubleshooting.md"
MARK = "<!-- messages -->"  # the table takes the place of this line of the page
PACKAGE = Path(__file__).resolve().parents[2] / "torchrec_io"
GAP = "..."
# What users see of classes that the package keeps to itself.
_SHOWN_AS = {
    "BadParameter": "command line",
    "BadValueError": "DecodeError",
    "FetchError": "OSError",
    "HelperError": "ConnectionError",
    "RequestError": "OSError",
}
_HIDDEN = ("AssertionError", "NotImplementedError")
_ERRORS = ast.parse((PACKAGE / "errors.py").read_text("utf-8"))
_OWN = [node.name for node in _ERRORS.body if isinstance(node, ast.ClassDef)]
_PARAMETER = re.compile("\0(\\w+)\0")  # in a text, the value of a function's parameter
_MOST_TEXTS = 24  # of one expression

# Modules that give reasons to others, which raise the error.
_REASONS = {
    "_datasets/missing_methods.py": "AttributeError",
    "_datasets/packing.py": "DecodeError",
    "_datasets/transform.py": "TransformError",
    "_images/jpeg_markers.py": "DecodeError",
    "_order/mesh.py": "ValueError",
    "_parsing/columns": "DecodeError",
    "_schema/feature.py": "SchemaError",
    "_schema/image_spec.py": "SchemaError",
    "_schema/valid_range.py": "DecodeError",
    "_storage/file_limit.py": "OSError",
    "_storage/remote/failures.py": "OSError",
    "_storage/remote/helper.py": "OSError",
    "_storage/remote/object_commit.py": "OSError",
    "_tensors/block_parser.py": "DecodeError",
    "_writing/output_group.py": "OSError",
    "_writing/record_writer.py": "OSError",
    "cluster/file_piece.py": "CorruptRecordError",
    "convert/arrow_rows.py": "ConversionError",
    "convert/export.py": "DecodeError",
    "convert/file_export.py": "DecodeError",
    "convert/file_names.py": "DecodeError",
    "convert/table_export.py": "DecodeError",
    "csv/schema.py": "DecodeError",
    "episodes": "DecodeError",
    "inspection/hints.py": "DecodeError",
    "integrations/prepared_loader.py": "ValueError",
    "tfds/to_schema.py": "SchemaError",
    "tfds/versions.py": "FileNotFoundError",
}

_NO_SENTENCE = re.compile(r"[|\\]|\w\[\w")  # patterns and types

# Folders and files of native code whose reasons users see, and the statements that give a reason.
_NATIVE = {
    "example": ("DecodeError", "parsing"),
    "wire": ("DecodeError", "parsing"),
    "image": ("DecodeError", "images"),
    "jpeg": ("DecodeError", "images"),
    "png": ("DecodeError", "images"),
    "records/index.cpp": ("IndexFormatError", "records"),
    "bindings/encode.cpp": ("TypeError", "writing"),
    "bindings/python_values.h": ("TypeError", "writing"),
    "bindings/module.cpp": ("ImportError", "core"),
}
_REASON = re.compile(
    r"(?:\b(?:fail|fail_count|reject|import_error)\(|\breturn\b"
    r"|\b(?:reason|fault)_? =|\bkInvalid\w+ =)"
    r"((?:\"(?:[^\"\\]|\\.)*\"|[^;{}\"])*);"
)
_LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Message(NamedTuple):
    """A message of the package."""

    error: str  # class
    text: str
    subject: str  # part of the package


class _Part:
    """The functions, constants and calls of the modules of a part of the package."""

    def __init__(self, paths: list[Path]) -> None:
        self.functions: dict[str, _Function] = {}
        self.constants: dict[str, ast.expr] = {}
        self.calls: list[tuple[ast.Call, _Function | None]] = []
        self.pairs: list[tuple[ast.expr, ast.expr]] = []  # tuples of two
        for path in paths:
            self._visit(ast.parse(path.read_text("utf-8")), None)

    def _visit(self, node: ast.AST, function: _Function | None) -> None:
        if isinstance(node, _Function):
            function = self.functions[node.name] = node
        elif isinstance(node, ast.Call):
            self.calls.append((node, function))
        elif isinstance(node, ast.Tuple) and len(node.elts) == 2:
            self.pairs.append((node.elts[0], node.elts[1]))
        elif isinstance(node, ast.Assign | ast.AnnAssign) and function is None and node.value:
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            self.constants[ast.unparse(target)] = node.value
        for child in ast.iter_child_nodes(node):
            self._visit(child, function)

    def texts(self, node: ast.expr, function: _Function | None, depth: int = 3) -> list[str]:
        """Return the texts that an expression may have, with gaps for what is not known."""
        found: list[str] = []
        match node:
            case ast.Constant(value=str(text)):
                found = [text]
            case ast.FormattedValue(value=ast.Name() | ast.IfExp() | ast.Constant()):
                found = self.texts(node.value, function, depth)
            case ast.IfExp():
                for part in (node.body, node.orelse):
                    found += self.texts(part, function, depth)
            case ast.JoinedStr():
                found = _joined([self.texts(part, function, depth) for part in node.values])
            case ast.BinOp(op=ast.Add()):
                sides = [self.texts(side, function, depth) for side in (node.left, node.right)]
                found = _joined(sides)
            case ast.Call() if depth and (made := self.functions.get(_name(node.func))):
                values = [each.value for each in ast.walk(made) if isinstance(each, ast.Return)]
                for value in filter(None, values):
                    found += self.texts(value, made, depth - 1)
                found = [_PARAMETER.sub(GAP, text) for text in found]
            case ast.Name() if depth:
                found = self._texts_of_name(node.id, function, depth - 1)
        return found or [GAP]

    def _texts_of_name(self, name: str, function: _Function | None, depth: int) -> list[str]:
        found: list[str] = []
        for node in ast.walk(function) if function is not None else ():
            match node:
                case ast.Assign(targets=[ast.Name(id)]) | ast.NamedExpr(target=ast.Name(id)):
                    inner = 0 if name in _names(node.value) else depth
                    found += self.texts(node.value, function, inner) if id == name else ()
                case ast.AugAssign(target=ast.Name(id)) if id == name:
                    found += [GAP + text for text in self.texts(node.value, function, depth)]
                case ast.For(iter=ast.Name(table)) if name in _names(node.target):
                    found += _sentences(self.constants.get(table))
        if function is not None and name in _parameters(function):
            found.append(f"\0{name}\0")
        if not found and name in self.constants:
            return self.texts(self.constants[name], None, depth)
        return found or [GAP]


def messages() -> list[Message]:
    """Return the messages of the package by class, text and part."""
    folders: dict[str, list[Path]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        folders.setdefault(_part_of(path), []).append(path)
    found = {*_native_messages()}
    for name, paths in folders.items():
        part = _Part(paths)
        for function, error, text in _made_in(part):
            for whole in _with_callers(part, function, text):
                found.add(Message(error, _cleaned(whole), name))
    texts = {message.text for message in found}
    found |= {message for message in _reasons() if message.text not in texts}
    return sorted(each for each in found if len(re.findall(r"[A-Za-z]{2,}", each.text)) > 2)


def _made_in(part: _Part) -> Iterator[tuple[_Function | None, str, str]]:
    """Yield the errors that a part makes: the function that does, class, and each text."""
    made: list[tuple[str, ast.expr, _Function | None]] = [
        (_name(first), second, None) for first, second in part.pairs
    ]
    for call, function in part.calls:
        name, arguments = _name(call.func), call.args
        if name == "warn" and len(arguments) > 1:  # warnings.warn(text, class)
            made.append((_name(arguments[1]), arguments[0], function))
        elif arguments and not (name == "error" and isinstance(call.func, ast.Attribute)):
            is_numbered = len(arguments) > 1 and ast.unparse(arguments[0]).startswith("errno.")
            made.append((name, arguments[is_numbered], function))
    for name, text, function in made:
        if error := _shown_class(name):
            yield from ((function, error, each) for each in part.texts(text, function))


def _with_callers(part: _Part, function: _Function | None, text: str) -> list[str]:
    """Return a text with the arguments that the callers of its function pass for parameters."""
    pieces = _PARAMETER.split(text)  # text, name of a parameter, text, ...
    if function is None or len(pieces) == 1:
        return [text]
    texts = []
    names = [name for name in _parameters(function) if name not in ("self", "cls")]
    for call, inside in part.calls:
        if _name(call.func) == function.name:
            given = dict(zip(names, call.args, strict=False))
            given |= {each.arg: each.value for each in call.keywords if each.arg}
            values = [[piece] for piece in pieces]
            for i in range(1, len(pieces), 2):
                value = given.get(pieces[i])
                values[i] = [GAP] if value is None else part.texts(value, inside)
            texts += _joined(values)
    return [_PARAMETER.sub(GAP, each) for each in texts or [text]]


def _shown_class(name: str) -> str | None:
    """Return the class of an error as users see it; None if the name is not that of an error."""
    known = getattr(builtins, name, None)
    is_builtin = isinstance(known, type) and issubclass(known, Exception) and name not in _HIDDEN
    if name in ("error", "warning"):  # a parameter, which is a ValueError by default; a logger
        return {"error": "ValueError", "warning": "Warning"}[name]
    return _SHOWN_AS.get(name, name if is_builtin or name in _OWN else None)


def _reasons() -> Iterator[Message]:
    for name, error in _REASONS.items():
        for path in _files(name, "*.py"):
            tree = ast.parse(path.read_text("utf-8"))
            inner = {
                id(child)
                for node in ast.walk(tree)
                if isinstance(node, ast.Expr | ast.JoinedStr)  # docstrings, and parts of texts
                for child in ast.iter_child_nodes(node)
            }
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in inner:
                    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
                    text = "".join(
                        str(part.value) if isinstance(part, ast.Constant) else GAP for part in parts
                    )
                    if " " in text and not _NO_SENTENCE.search(text):
                        yield Message(error, _cleaned(text), _part_of(path))


def _part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py").strip("_")


def _files(name: str, *patterns: str) -> list[Path]:
    place = PACKAGE / name
    found = (path for pattern in patterns for path in place.glob(pattern))
    return sorted(found) if place.is_dir() else [place]


def _native_messages() -> Iterator[Message]:
    for name, (error, part) in _NATIVE.items():
        for path in _files(f"_core/{name}", "*.cpp", "*.h"):
            for statement in _REASON.findall(path.read_text("utf-8")):
                named = re.search(r"PyExc_(\w+)", statement)
                for case in re.split(r"[?:](?=\s*\")", statement):
                    texts = _LITERAL.findall(case)
                    text = GAP.join(texts) if "+" in _LITERAL.sub("", case) else "".join(texts)
                    text = _cleaned(text.replace('\\"', '"'))
                    yield Message(named[1] if named else error, text, part)


def _joined(parts: list[list[str]]) -> list[str]:
    """Return all combinations of the texts of parts, up to a number."""
    return ["".join(each) for each in itertools.islice(itertools.product(*parts), _MOST_TEXTS)]


def _sentences(table: ast.expr | None) -> list[str]:
    """Return the sentences in a constant."""
    values = [] if table is None else [*ast.walk(table)]
    texts = [node.value for node in values if isinstance(node, ast.Constant)]
    return [text for text in texts if isinstance(text, str) and " " in text]


def _parameters(function: _Function) -> list[str]:
    parameters = function.args
    return [
        each.arg for each in (*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs)
    ]


def _names(target: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def _name(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def _cleaned(text: str) -> str:
    """Return a text in one line, with one mark for each gap."""
    text = " ".join(re.sub(r"%[,.\d]*[dfrs]", GAP, text).split())
    text = re.sub(r"^(?=[,:;])", GAP, text)
    return re.sub(r"['\"]?(?:\.\.\.['\"]?){2,}", GAP, text)


def table() -> str:
    """Return the messages as a table in Markdown."""
    rows = ["| Error | Message | Part |", "| --- | --- | --- |"]
    for error, text, subject in messages():
        shown = html.escape(text, quote=False)
        for sign in "|`*_[]{}\\":
            shown = shown.replace(sign, f"&#{ord(sign)};")
        rows.append(f"| `{error}` | <code>{shown}</code> | {subject} |")
    return "\n".join(rows)


def on_page_markdown(markdown: str, /, *, page: Any, **_: Any) -> str:
    """Put the table on the page."""
    if page.file.src_uri != PAGE:
        return markdown
    assert MARK in markdown
    return markdown.replace(MARK, table())
