"""Digests of functions: they change when the code changes, or the values that the code uses."""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import pathlib
import re
import sysconfig
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

# Values whose repr is their whole content.
_PLAIN = (
    types.NoneType,
    types.EllipsisType,
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    range,
    slice,
    np.dtype,
    np.generic,
    torch.dtype,
    pathlib.PurePath,
)
# Large containers of these are common, and are not walked one by one.
_ATOMS = frozenset({bool, int, float, str, bytes})
# Values that are nested deeper are represented by their types.
_MOST_LEVELS = 50
_INSTALLED = re.compile(
    rf"({re.escape(sysconfig.get_path('stdlib'))}|.*[/\\](site|dist)-packages)[/\\]", re.DOTALL
)


def digest_function(function: Any) -> str:
    """Return a digest of a function or callable object, in hexadecimal digits.

    The digest covers the code with its constants and names, default arguments, values of variables
    of enclosing functions, and global values that the code names. Functions among these are covered
    in the same way, except those of installed packages, which are represented by their names, as
    classes and modules are. Values are numbers, text, Tensors, arrays, and containers, dataclasses
    and callable objects of those. Any other value is represented by its type alone.

    Equal functions have equal digests in all processes of one Python version.
    """
    hashed = hashlib.blake2b(digest_size=16)
    for part in _Walk().parts(function, 0):
        hashed.update(b"%d:" % len(part))
        hashed.update(part)
    return hashed.hexdigest()


class _Walk:
    """A walk over all that a function consists of."""

    def __init__(self) -> None:
        # The number of each object that was visited, and the object, so that its id stays its own.
        self._visited: dict[int, tuple[int, Any]] = {}

    def parts(self, value: Any, level: int) -> Iterator[bytes]:
        """Yield bytes that differ for values that differ."""
        kind = type(value)
        yield f"{kind.__module__}.{kind.__qualname__}".encode()
        if isinstance(value, enum.Enum):
            yield value.name.encode()
        elif isinstance(value, _PLAIN):
            yield _text(value)
        elif id(value) in self._visited:
            yield b"visited %d" % self._visited[id(value)][0]
        elif level < _MOST_LEVELS:
            # Constants may be one object or several equal ones, depending on how they were loaded.
            if not isinstance(value, (tuple, frozenset)):
                self._visited[id(value)] = (len(self._visited), value)
            yield from self._inside(value, level + 1)

    def _inside(self, value: Any, level: int) -> Iterator[bytes]:
        for kinds, parts_of in _PARTS_OF:
            if isinstance(value, kinds):
                yield from parts_of(self, value, level)
                return
        if dataclasses.is_dataclass(value) or callable(value):
            yield from self._of_object(value, level)

    def of_method(self, method: types.MethodType, level: int) -> Iterator[bytes]:
        yield from self._all((method.__func__, method.__self__), level)

    def of_partial(self, value: functools.partial[Any], level: int) -> Iterator[bytes]:
        yield from self._all((value.func, value.args, value.keywords), level)

    def of_list(self, values: Sequence[Any], level: int) -> Iterator[bytes]:
        is_plain = _ATOMS.issuperset(map(type, values))
        yield from [_text(values)] if is_plain else self._all(values, level)

    def of_set(self, values: set[Any] | frozenset[Any], level: int) -> Iterator[bytes]:
        if _ATOMS.issuperset(map(type, values)):
            yield _text(sorted(map(repr, values)))
        else:
            yield from sorted(b"".join(_Walk().parts(each, level)) for each in values)

    def of_dict(self, values: dict[Any, Any], level: int) -> Iterator[bytes]:
        yield from self._all([each for pair in values.items() for each in pair], level)

    def of_pattern(self, pattern: re.Pattern[Any], level: int) -> Iterator[bytes]:
        yield from self._all((pattern.pattern, pattern.flags), level)

    def _all(self, values: Sequence[Any], level: int) -> Iterator[bytes]:
        yield b"%d" % len(values)
        for value in values:
            yield from self.parts(value, level)

    def of_code(self, code: types.CodeType, level: int) -> Iterator[bytes]:
        yield code.co_code
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
        yield from self._all((counts, code.co_names, code.co_consts), level)

    def of_function(self, function: types.FunctionType, level: int) -> Iterator[bytes]:
        if level > 1 and _INSTALLED.match(function.__code__.co_filename):
            yield _name_of(function)
            return
        values = (function.__code__, function.__defaults__, function.__kwdefaults__)
        yield from self._all(values, level)
        for cell in function.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:  # not assigned yet
                yield b"empty"
            else:
                yield from self.parts(content, level)
        names = sorted(_names_in(function.__code__) & function.__globals__.keys())
        yield from self._all([(name, function.__globals__[name]) for name in names], level)

    def _of_object(self, value: Any, level: int) -> Iterator[bytes]:
        """Yield the parts of a dataclass or a callable object."""
        attributes = dict(getattr(value, "__dict__", {}))
        if dataclasses.is_dataclass(value):  # which may have slots
            names = [field.name for field in dataclasses.fields(value)]
            attributes |= {name: getattr(value, name, None) for name in names}
        methods = {
            name: each
            for kind in reversed(type(value).__mro__)
            for name, each in vars(kind).items()
            if isinstance(each, types.FunctionType)
        }
        yield from self._all((attributes, methods if callable(value) else None), level)


_PARTS_OF: tuple[tuple[Any, Callable[..., Iterator[bytes]]], ...] = (
    (types.CodeType, _Walk.of_code),
    (types.FunctionType, _Walk.of_function),
    (types.MethodType, _Walk.of_method),
    (functools.partial, _Walk.of_partial),
    ((torch.Tensor, np.ndarray), lambda _, value, __: _parts_of_array(value)),
    ((list, tuple), _Walk.of_list),
    ((set, frozenset), _Walk.of_set),
    (dict, _Walk.of_dict),
    (re.Pattern, _Walk.of_pattern),
    (
        (type, types.ModuleType, types.BuiltinFunctionType),
        lambda _, value, __: iter([_name_of(value)]),
    ),
)


def _names_in(code: types.CodeType) -> set[str]:
    """Return the names in some code, and in functions inside it, that are not local variables."""
    inner = [_names_in(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    return set(code.co_names).union(*inner)


def _text(value: Any) -> bytes:
    return repr(value).encode("utf-8", "surrogatepass")


def _parts_of_array(value: torch.Tensor | np.ndarray[Any, Any]) -> Iterator[bytes]:
    yield f"{value.dtype} {tuple(value.shape)}".encode()
    try:
        if isinstance(value, torch.Tensor):
            value = value.detach().cpu().reshape(-1).view(torch.uint8).numpy()
    except RuntimeError:  # sparse, or on the device "meta"
        return
    if not value.dtype.hasobject:
        yield value.tobytes()


def _name_of(value: Any) -> bytes:
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", "")
    return f"{module}.{name}".encode()
