"""Build the sdist: ``python sdist.py FOLDER``."""

import os
import sys
from pathlib import Path

from scikit_build_core.build import build_sdist

if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True)
    os.chdir(Path(__file__).parents[2])
    build_sdist(str(folder))
