"""Tests that the suite leaves to the night run at night, and the page on testing names its command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NIGHT = "PENSTOCK_LONG_TESTS"
CONFTEST = """
from tests.support.amount import leave_out_long

def pytest_configure(config):
    config.addinivalue_line("markers", "long: at night")

def pytest_collection_modifyitems(config, items):
    leave_out_long(config, items)
"""
FILE = """
import pytest
from tests.support.amount import usually

@pytest.mark.parametrize("case", range(usually(2, long=5)))
def test_drawn(case):
    pass

@pytest.mark.long
def test_whole():
    pass

@pytest.mark.parametrize("case", ["short", pytest.param("slow", marks=pytest.mark.long)])
def test_some(case):
    pass
"""


@pytest.mark.parametrize(("night", "summary"), [("", "3 passed, 2 deselected"), ("1", "8 passed")])
def test_the_night_runs_all_and_a_merge_a_part_that_says_what_it_left_out(
    tmp_path: Path, night: str, summary: str
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_file.py").write_text(FILE)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", "/dev/null", str(tmp_path)]
    environ = {
        **{name: value for name, value in os.environ.items() if name != NIGHT},
        **({NIGHT: night} if night else {}),
    }
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environ)
    assert f"{summary} in" in done.stdout, done.stdout


def test_the_page_names_the_command_of_the_night() -> None:
    assert f"`{NIGHT}=1 .venv/bin/python -m pytest -n auto`" in (ROOT / "docs" / "testing.md").read_text()
