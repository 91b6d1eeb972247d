"""A Python process that is forked is the one that would be executed (tests/support/python_nursery.py)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.support import nursery
from tests.support.python_nursery import python_nursery, pythons, quick_python
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(not nursery.is_wanted(), reason="Python is executed here")

TELLS = """
import json, os, sys
told = {
    "arguments": sys.argv[1:],
    "directory": os.getcwd(),
    "environment": {name: value for name, value in os.environ.items() if name not in ("_", "PWD")},
    "finds first": sys.path[:2],
    "hash": hash("seeded"),
    "input": sys.stdin.read(),
    "name": __name__,
    "open": sorted(os.listdir("/proc/self/fd"))[:4],
    "streams": [(s.encoding, s.line_buffering, s.write_through) for s in (sys.stdin, sys.stdout, sys.stderr)],
    "threads": len(os.listdir("/proc/self/task")),
}
print(json.dumps(told))
print("a problem", file=sys.stderr)
sys.exit(3)
"""
WAITS = """
import os, signal
print(os.getpid(), flush=True)
signal.pause()
"""


@pytest.fixture(scope="module")
def forking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with python_nursery(tmp_path_factory.mktemp("nursery")) as command:
        yield str(command)


@pytest.mark.parametrize("program", [("-m", "tells"), ("-c", TELLS)], ids=["module", "code"])
def test_a_program_runs_as_if_it_were_executed(forking: str, tmp_path: Path, program: tuple[str, str]) -> None:
    (tmp_path / "tells.py").write_text(TELLS)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": "/nowhere", "PYTHONHASHSEED": "0", "ODD": "a\nb=\udcff"}
    found = {}
    for python in (sys.executable, forking):
        done = subprocess.run(
            [python, *program, "one", "two words", ""],
            cwd=tmp_path,
            env=environment,
            input=b"given",
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (3, b"a problem\n")
        found[python] = json.loads(done.stdout)
    assert found[forking] == found[sys.executable]


def test_a_command_of_penstock_says_the_same_and_changes_its_streams() -> None:
    program = "from penstock.cli.main import main; main()"
    for arguments in (["--version"], ["topics", "create", "x", "-p", "many"]):
        executed, forked = [
            subprocess.run([python, "-c", program, *arguments], capture_output=True, check=False)
            for python in (sys.executable, quick_python())
        ]
        assert (forked.returncode, forked.stdout, forked.stderr) == (
            executed.returncode,
            executed.stdout,
            executed.stderr,
        )


def test_a_process_ends_when_its_command_is_killed(forking: str, tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    with subprocess.Popen([forking, "-m", "waits"], cwd=tmp_path, stdout=subprocess.PIPE) as command:
        assert command.stdout is not None
        pid = int(command.stdout.readline())
        assert pid != command.pid
        command.kill()
    wait_until(lambda: not Path(f"/proc/{pid}").exists())


def test_a_command_ends_when_its_process_is_killed(forking: str, tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    with subprocess.Popen([forking, "-m", "waits"], cwd=tmp_path, stdout=subprocess.PIPE) as command:
        assert command.stdout is not None
        os.kill(int(command.stdout.readline()), signal.SIGKILL)
        assert command.wait() == 128 + signal.SIGKILL


def test_what_is_neither_module_nor_code_is_executed_and_so_is_everything_without_a_nursery(tmp_path: Path) -> None:
    with python_nursery(tmp_path) as command:
        assert subprocess.check_output([command, "-", "x"], input=b"print(5)") == b"5\n"
    assert subprocess.check_output([command, "-m", "calendar", "2026", "2"]) == subprocess.check_output(
        [sys.executable, "-m", "calendar", "2026", "2"]
    )


def test_only_a_session_that_is_made_within_takes_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "mine")
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    with pythons(Path("/ours")):
        assert (os.environ["PYSPARK_PYTHON"], os.environ["PYSPARK_DRIVER_PYTHON"]) == ("/ours", "/ours")
    assert (os.environ["PYSPARK_PYTHON"], os.environ.get("PYSPARK_DRIVER_PYTHON")) == ("mine", None)
