"""`penstock demo`, the main job, at small size: as a script runs it, and as a person sees it on a terminal."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

FILES, LINES = 12, 150
SPARK_LOG = "penstock-log4j2-"
"""A file that every Spark session of a user shares."""
CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""The sequences that colour a terminal and move its cursor."""


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Files of which every line stands in every file, and many twice in one."""
    folder = tmp_path / "text"
    folder.mkdir()
    for index in range(FILES):
        lines = "".join(f"line {number % 100}\n" for number in range(LINES))
        (folder / f"{index}.txt").write_text(lines)
    return folder


def penstock() -> str:
    """The console script of the running environment."""
    return shutil.which("penstock", path=os.path.dirname(sys.executable)) or "penstock"


@pytest.mark.long  # the same run on a terminal, and the report as JSON in tests/unit/cli/demo/test_report.py
@pytest.mark.spark
def test_everything_that_went_in_is_read_back_and_in_parquet_after_both_crashes(text: Path) -> None:
    command = [penstock(), "demo", str(text), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=380, check=False)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["ok"] and all(shown["checks"].values()), shown
    assert shown["records"]["in"] == FILES * LINES
    assert shown["records"]["out"] == shown["records"]["parquet"] == FILES * LINES + shown["duplicates_by_retry"]
    assert shown["checksum"]["in"] == shown["checksum"]["out"] == shown["checksum"]["parquet"]
    assert shown["lost"] == 0
    assert shown["leader_killed"]["failover_ms"] > 0 and shown["controller_killed"]["failover_ms"] > 0


@pytest.mark.spark
def test_on_a_terminal_everything_holds_the_cluster_stays_until_ctrl_c_and_then_nothing_is_left(
    text: Path, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    terminal, ours = pty.openpty()
    demo = subprocess.Popen(
        [penstock(), "demo", str(text)],
        stdin=ours,
        stdout=ours,
        stderr=ours,
        env={**os.environ, "TMPDIR": str(scratch), "TERM": "xterm"},
    )
    os.close(ours)
    try:
        seen = CONTROLS.sub("", read_until(terminal, "PENSTOCK_BOOTSTRAP=127.0.0.1:"))
        assert "everything holds" in seen and "until Ctrl-C" in seen
        count = f"{FILES * LINES:,}"
        assert re.search(rf"records[ │]+{count}[ │]+{count}[ │]+{count} ", seen), "in, out and in Parquet: " + seen
        for crash in ("leader of partition", "the active controller"):
            assert re.search(rf"kill -9 of node \d, {crash}", seen), seen
        assert len(re.findall(r"is back in every ISR after \d+ ms", seen)) == 2
        nodes = node_pids(scratch)
        assert len(nodes) == 3 and demo.poll() is None
        demo.send_signal(signal.SIGINT)
        read_until(terminal, "stopping")
        assert demo.wait(60) == 0
    finally:
        demo.kill()
        demo.wait()
        os.close(terminal)
    left = [entry for entry in scratch.iterdir() if not entry.name.startswith(SPARK_LOG)]
    assert (node_pids(scratch), left) == ([], [])


def test_a_path_that_is_not_there_is_refused_before_anything_starts(tmp_path: Path) -> None:
    command = [penstock(), "demo", str(tmp_path / "none"), "--no-spark"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"penstock: {tmp_path / 'none'}: no such file or directory")


def read_until(terminal: int, mark: str) -> str:
    """The output up to and with `mark`; fails when the other side closes before."""
    seen = ""
    for piece in pieces(terminal):
        seen += piece
        if mark in seen:
            return seen
    raise AssertionError(f"{mark!r} never came; this did:\n{seen}")


def pieces(terminal: int) -> Iterator[str]:
    """The terminal's output until its other side is closed."""
    with contextlib.suppress(OSError):  # EIO: closed
        while piece := os.read(terminal, 4096):
            yield piece.decode("utf-8", "replace")


def node_pids(scratch: Path) -> list[int]:
    """Processes whose command line names this directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if str(scratch).encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found
