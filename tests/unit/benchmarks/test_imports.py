"""Each benchmark can be loaded: what it imports of the product is there."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import benchmarks

NAMES = sorted(path.stem for path in Path(benchmarks.__path__[0]).glob("*.py"))
HEAVY = {"tuning_plots": "matplotlib"}
"""Modules that need a package which the tests do not."""


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_can_be_loaded(name: str) -> None:
    if name in HEAVY:
        pytest.importorskip(HEAVY[name])
    assert importlib.import_module(f"benchmarks.{name}").__doc__
