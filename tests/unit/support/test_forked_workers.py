"""Tests are found once, and each worker runs them as one that found them itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.waiting import wait_until

CONFTEST = """
from tests.support import forked_workers
from tests.support.files_scheduling import pytest_xdist_make_scheduler

def pytest_configure(config):
    forked_workers.register(config)
"""
FILE = """
import os, sys
from pathlib import Path
import pytest

with (Path(__file__).parent / "imports").open("a") as imports:
    imports.write("{name}\\n")

@pytest.mark.parametrize("case", range(4))
def test_case(case, worker_id, tmp_path, capfd):
    with (Path(__file__).parent / "ran").open("a") as ran:
        ran.write(f"{{worker_id}} {{os.getppid()}} {{os.environ['PYTEST_XDIST_WORKER']}} {{tmp_path.parent.name}}\\n")
    os.write(1, b"heard")
    assert capfd.readouterr().out == "heard"
    print("TOLD", sys.argv, "in {name}")
    if case == 1:
        os.kill(os.getpid(), 9)
    assert case != 2
"""


ENVIRON = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Half of the time of such a run is that of plugins which are named nowhere."""


def _command(place: Path) -> list[str]:
    return [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "2",
        "-p",
        "xdist",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        str(place),
    ]


def _run(place: Path) -> str:
    command = _command(place)
    return subprocess.run(command, env=ENVIRON, capture_output=True, text=True, timeout=60, check=False).stdout


def test_each_file_is_imported_once_for_all_workers_and_for_those_that_come_later(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name in "ab":
        (tmp_path / f"test_{name}.py").write_text(FILE.format(name=name))
    told = _run(tmp_path)
    assert "4 failed, 4 passed" in told  # two workers died, and others ran the rest
    assert all(f"in {name}\n" in told for name in "ab"), told  # what a failed test printed
    assert (tmp_path / "imports").read_text().split() == ["a", "b"]
    ran = [line.split() for line in (tmp_path / "ran").read_text().splitlines()]
    assert len(ran) == 8 and len({parent for _, parent, _, _ in ran}) == 1
    assert {worker for worker, *_ in ran} > {"gw0", "gw1"}
    assert all(worker == variable and place == f"popen-{worker}" for worker, _, variable, place in ran)


def test_workers_find_the_tests_themselves_where_some_cannot_be_collected(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_a.py").write_text("def (")
    (tmp_path / "test_b.py").write_text("def test_b(): pass")
    told = _run(tmp_path)
    assert "test_a.py" in told and "SyntaxError" in told and "1 error" in told, told


def test_ctrl_c_ends_controller_finder_and_workers(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    hangs = "import os, time\nfrom pathlib import Path\n\ndef test_hangs():\n    "
    hangs += "Path(__file__).with_suffix('.pids').write_text(f'{os.getpid()} {os.getppid()} ')\n    time.sleep(60)\n"
    for name in "ab":
        (tmp_path / f"test_{name}.py").write_text(hangs)
    pids = [tmp_path / f"test_{name}.pids" for name in "ab"]
    controller = subprocess.Popen(
        _command(tmp_path), env=ENVIRON, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    wait_until(lambda: all(place.exists() and place.read_text().endswith(" ") for place in pids))
    os.killpg(controller.pid, signal.SIGINT)
    told, _ = controller.communicate(timeout=30)
    assert "KeyboardInterrupt" in told
    started = {int(pid) for place in pids for pid in place.read_text().split()}
    assert len(started) == 3
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}/exe") for pid in started))
