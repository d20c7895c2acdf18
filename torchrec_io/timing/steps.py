"""Steps of loading: ``with checking():`` counts the time of a block for the statistics."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from .. import _core

_PROFILER = "torch.autograd.profiler"
_modules = sys.modules


class Step:
    """A step of loading. ``with step():`` marks code that does it.

    Steps may contain others. The time of the inner step does not count for the outer one. While a
    profiler of PyTorch is active, each block is a range of it, ``torchrec_io::checking``.

    Args:
        counter: Number that the time is added to.
    """

    def __init__(self, counter: _core.Counter) -> None:
        self._timed = _core.Step(counter)
        self._range_name = range_name(counter)

    def __call__(self) -> AbstractContextManager[Any]:
        # As active_profiler(), without another call.
        if getattr(_modules.get(_PROFILER), "_is_profiler_enabled", False):
            return self._in_range()
        return self._timed

    @contextmanager
    def _in_range(self) -> Iterator[None]:
        with profiler_range(self._range_name), self._timed:
            yield


def range_name(counter: _core.Counter) -> str:
    """Return the name of a counter's ranges in a profiler."""
    return f"torchrec_io::{counter.name}"


def active_profiler() -> Any:
    """Return the module of PyTorch's profiler if it is active in this process, else None."""
    # The core may run without PyTorch. There is no public check; PyTorch's own modules use this.
    profiler = _modules.get(_PROFILER)
    return profiler if getattr(profiler, "_is_profiler_enabled", False) else None


def around_native(step: Step) -> AbstractContextManager[Any]:
    """Return a context for native code, which counts its time by itself: a range of a profiler."""
    return nullcontext() if active_profiler() is None else step()


def profiler_range(name: str) -> AbstractContextManager[Any]:
    """Return a range of the active profiler."""
    opened: AbstractContextManager[Any] = active_profiler().record_function(name)
    return opened


reading: Step = Step(_core.Counter.reading)
checking: Step = Step(_core.Counter.checking)
parsing: Step = Step(_core.Counter.parsing)
decoding: Step = Step(_core.Counter.decoding)
transform: Step = Step(_core.Counter.transform)
copying: Step = Step(_core.Counter.copying)
