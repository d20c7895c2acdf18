"""Ray is an optional package, which only the functions of the cluster load."""

from __future__ import annotations

import sys

import pytest

import torchrec_io as tio
from tests.support.pages import public_names
from tests.test_layers import loaded_after


def test_ray_is_loaded_only_when_it_is_used() -> None:
    names = ", ".join(f"tio.cluster.{name}" for name in public_names(tio.cluster))
    assert not loaded_after(f"import torchrec_io as tio; {names}") & {"ray", "torch", "pyarrow"}


def test_without_ray_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray.data", None)
    for call in (tio.cluster.index, tio.cluster.read_tfrecords, tio.cluster.verify):
        with pytest.raises(ImportError, match=r"needs Ray: pip install torchrec-io\[cluster\]"):
            call("a")
