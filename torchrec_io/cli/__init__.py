"""The command line ``torchrec-io``. It prints; the logic is in the other rooms."""

from __future__ import annotations

from .interrupt import end_at_interrupt


def main() -> None:
    """Run the command line. ``kill`` ends it like Ctrl-C: unfinished files are removed."""
    end_at_interrupt()
    # Imported only now, because this takes most of the start-up.
    from .commands import run  # noqa: PLC0415

    run()
