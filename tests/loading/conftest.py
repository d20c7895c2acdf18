"""Fixtures of the tests of loaders."""

from __future__ import annotations

import pytest

from tests.support.datasets import write_files


@pytest.fixture(scope="module")
def paths(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return files with the numbers of records that the module has as ``SIZES``.

    Tests that change files write their own.
    """
    return write_files(tmp_path_factory.mktemp("files"), request.module.SIZES)
