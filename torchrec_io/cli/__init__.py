"""The command line ``torchrec-io``. It prints; the logic is in the other rooms."""

from __future__ import annotations

import sys

from .interrupt import end_at_interrupt


def main() -> None:
    """Run the command line. ``kill`` ends it like Ctrl-C: unfinished files are removed.

    Without the extra ``cli``, it says so and exits with status 2.
    """
    end_at_interrupt()
    try:
        # Imported only now, because this takes most of the start-up.
        from .commands import run  # noqa: PLC0415
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package not in ("rich", "typer"):
            raise
        sys.stderr.write(
            f'torchrec-io needs the package {package}: pip install "torchrec-io[cli]"\n'
        )
        sys.exit(2)
    run()
