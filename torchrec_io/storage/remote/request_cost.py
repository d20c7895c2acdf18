"""The measured cost of requests, which tells what to read at once."""

from __future__ import annotations

from .messages import FetchReport

# Bounds of the gap across which neighbors are joined.
_LEAST_GAP, _MOST_GAP = 1 << 12, 1 << 20
_FIRST_WAIT, _FIRST_RATE = 0.01, 50e6  # assumed until measured
_LEAST_MEASURED = 1 << 18  # smaller answers do not show a rate


class RequestCost:
    """The measured cost of requests and of bytes."""

    def __init__(self) -> None:
        self._wait = _FIRST_WAIT
        self._rate = _FIRST_RATE

    def add(self, size: int, report: FetchReport) -> None:
        """Add what a request of some bytes took."""
        self._wait += (report.wait - self._wait) / 16
        if size >= _LEAST_MEASURED and report.transfer > 0:
            self._rate += (size / report.transfer - self._rate) / 16

    @property
    def gap(self) -> int:
        """Largest number of bytes that are worth reading to save a request.

        Requests wait at the same time, and bytes share the network: a request costs less than the
        time of its answer.
        """
        return int(min(_MOST_GAP, max(_LEAST_GAP, self._wait * self._rate / 8)))
