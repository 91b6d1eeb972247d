"""A test that hangs where no signal reaches it ends its process, which tells where it stood."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CONFTEST = """
from tests.support.hang_watch import REARMED_AFTER_S, HangWatch

times = iter([0, 0, REARMED_AFTER_S - 1, REARMED_AFTER_S])  # when the watch is made, and when each test begins

def pytest_configure(config):
    config.pluginmanager.register(HangWatch(hangs_after_s=0.2 - REARMED_AFTER_S, now_s=lambda: next(times)))
"""
FILE = """
import faulthandler, threading

def test_first():
    faulthandler.cancel_dump_traceback_later()

def test_second():
    threading.Event().wait(0.5)  # nothing watches anew so soon after the first

def test_third():
    threading.Event().wait()
"""


def test_a_process_that_hangs_ends_and_tells_where(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_file.py").write_text(FILE)
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-c", "/dev/null", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "test_second PASSED" in done.stdout, done.stdout
    assert "in test_third" in done.stderr
