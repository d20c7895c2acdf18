"""Fixtures of the tests of datasets."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.datasets import write_files


@pytest.fixture(scope="module")
def paths(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return files with the numbers of records that the module has as ``SIZES``.

    Tests that change files write their own.
    """
    return write_files(tmp_path_factory.mktemp("files"), request.module.SIZES)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """Return the file to which this process and forked workers log."""
    handler = logging.FileHandler(tmp_path / "log")
    logging.getLogger("torchrec_io").addHandler(handler)
    yield tmp_path / "log"
    logging.getLogger("torchrec_io").removeHandler(handler)
    handler.close()
