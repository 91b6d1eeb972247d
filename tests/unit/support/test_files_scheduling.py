"""A run of tests ends, and runs every test, also when a worker dies."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ENVIRON = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
CONFTEST = "from tests.support.files_scheduling import pytest_xdist_make_scheduler"
FILE = """
import os, signal
from pathlib import Path
import pytest

@pytest.mark.parametrize("case", range({tests}))
def test_case(case, worker_id):
    with (Path(__file__).parent / "begun").open("a") as begun:
        begun.write(f"{{worker_id}} {name}\\n")
    if case == {dies_in}:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_worker_that_dies_fails_one_test_and_the_others_run(tmp_path: Path) -> None:
    dying = {"a": 0, "b": 4, "d": 9, "f": 9}
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name in "abcdef":
        (tmp_path / f"test_{name}.py").write_text(
            FILE.format(name=name, tests=1 if name == "e" else 10, dies_in=dying.get(name))
        )
    command = [
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
        str(tmp_path),
    ]
    done = subprocess.run(command, env=ENVIRON, capture_output=True, text=True, timeout=60, check=False)
    died = re.findall(r"FAILED \S*test_(\w)\.py::test_case\[(\d)\]", done.stdout)
    assert {name: int(case) for name, case in died} == dying
    assert "4 failed, 47 passed" in done.stdout
    begun = [line.split() for line in (tmp_path / "begun").read_text().splitlines()]
    firsts = dict(reversed(begun))  # of each worker
    assert {firsts["gw0"], firsts["gw1"]} == {"a", "f"}, "one worker begins at the end"
