"""``python -m torchrec_io.cli`` is ``torchrec-io``."""

from . import main

main()
