"""``python -m torchrec_io.cli``, which is the same as ``torchrec-io``."""

from . import main

main()
