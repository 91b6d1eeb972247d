"""A process that ends without a word leaves its cluster's directory; the next one removes it, and no other."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from penstock.testing import leftovers
from tests.support.forked import in_child


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_killed_process_left_is_swept(tmp_path: Path, number: signal.Signals) -> None:
    code = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from penstock.testing.leftovers import new_directory
directory = new_directory()
(directory / "node-0").mkdir()
print(directory, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        directory = Path(process.stdout.readline().strip())
        leftovers.sweep()
        assert (directory / "node-0").exists(), "its process lives"
        process.send_signal(number)
    leftovers.sweep()
    assert not directory.exists()


def test_a_sweep_leaves_what_is_in_use_and_what_is_not_a_clusters(tmp_path: Path) -> None:
    own = leftovers.new_directory()
    other = tmp_path / "penstock-notes"
    other.mkdir()
    in_making = tmp_path / "penstock-new"
    in_making.mkdir()
    (in_making / f"{leftovers.OWNER}.new").touch()
    link = tmp_path / "penstock-link"
    link.symlink_to(other)
    leftovers.sweep()
    assert own.exists() and other.exists() and in_making.exists() and link.exists()
    assert in_child(leftovers.sweep) == "None"
    assert own.exists(), "a forked child sweeps nothing of its parent's"
    leftovers.remove(own)
    assert not own.exists()
