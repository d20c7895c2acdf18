"""The user's ``transform``, called with each sample or batch ahead of the consumer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .._parsing.record_random import RecordRandom
from .._records.reader import Reader
from .._tensors.batch import Batch
from .._tensors.loaded import Loaded, Transformed
from ..checks import counted
from ..errors import TransformError
from ..timing.steps import transform


class Transform:
    """Calls the user's function.

    Args:
        function: The function.
        reader: Reader of the records, for errors.
    """

    def __init__(self, function: Callable[[Any], Any], reader: Reader) -> None:
        self._function = function
        self._reader = reader

    @classmethod
    def of(cls, options: Mapping[str, Any], reader: Reader) -> Transform | None:
        """Return the transform of the options of a dataset, if there is one."""
        function = options["transform"]
        return None if function is None else cls(function, reader)

    def of_batch(self, loaded: Loaded, random: RecordRandom) -> Transformed:
        """Transform the items of loaded records, which are one batch."""
        if isinstance(loaded.items, Batch):
            loaded.items.origins = (random, loaded.numbers)
        count = len(loaded.numbers)
        where = f", with {counted(count, 'record')} of which this is the first"
        return self._each([loaded.items], loaded.numbers[:1], where)

    def of_samples(self, loaded: Loaded, samples: list[Any]) -> Transformed:
        """Transform the samples of loaded records."""
        return self._each(samples, loaded.numbers, "")

    def _each(self, items: list[Any], numbers: Any, where: str) -> Transformed:
        results: list[Any] = []
        with transform():
            for item in items:
                try:
                    result = self._function(item)
                except Exception as error:  # noqa: BLE001  # a user's function may raise anything
                    reason = f"transform raised {type(error).__name__}: {error}{where}"
                    return Transformed(results, self._error(reason, numbers, len(results), error))
                if result is None:
                    reason = f"transform must return a value, got None{where}"
                    return Transformed(results, self._error(reason, numbers, len(results)))
                results.append(result)
        return Transformed(results)

    def _error(
        self, reason: str, numbers: Any, index: int, cause: Exception | None = None
    ) -> TransformError:
        [place] = self._reader.locate([numbers[index]])
        error = TransformError(reason, **place.where)
        error.__cause__ = cause
        return error
