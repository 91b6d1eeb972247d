"""The parts of the campaigns' frame: the judge of copied numbers, processes that are killed and paused, and drivers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.campaign.frame import Report
from tests.support.campaign.measures import cpu_s, rss_mib
from tests.support.campaign.processes import Processes
from tests.support.campaign.reading import Copied, must_be_exactly_once
from tests.support.campaign.sessions import begin_session, end_session, kill_when, last_lines, session_of
from tests.support.waiting import wait_until

WAITS = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(600)"]
ENDS = [sys.executable, "-c", "print('ended')"]
DEAF = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('begun', flush=True); time.sleep(600)",
]
RIGHT = {"committed": 9, "missing": 0, "doubled": 0, "strange": 0, "written": 12, "open_transactions": 0}


@pytest.mark.parametrize("kind", ["missing", "doubled", "strange", "open_transactions"])
def test_numbers_that_are_not_there_once_and_open_transactions_are_wrong(tmp_path: Path, kind: str) -> None:
    report = Report(tmp_path)
    must_be_exactly_once(report, Copied(**{**RIGHT, kind: 2}, examples=("missing [3, 4]",)))
    assert report.anomalies == {kind: 2}
    assert report.examples == [f"{kind}: missing [3, 4]"]


def test_numbers_that_are_there_once_are_right_however_many_were_aborted(tmp_path: Path) -> None:
    report, found = Report(tmp_path), Copied(**RIGHT, examples=())
    must_be_exactly_once(report, found)
    assert report.ok and found.figures() == {**RIGHT, "aborted": 3}


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with Processes(tmp_path) as found:
        yield found


def write_history(directory: Path, name: str, times: int = 1) -> None:
    wait_until(lambda: (directory / f"{name}.out").read_text().count("begun") == times)


def test_a_process_that_ended_by_itself_begins_again_and_the_others_go_on(processes: Processes, tmp_path: Path) -> None:
    processes.begin("a", WAITS)
    processes.begin("b", ENDS)
    wait_until(lambda: processes.alive() == ["a"])
    processes.mend()
    wait_until(lambda: (tmp_path / "b.out").read_text() == "ended\nended\n")
    write_history(tmp_path, "a")
    assert processes.names() == ["a", "b"]


def test_processes_that_stand_still_or_are_deaf_end_too_and_the_deaf_are_named(
    processes: Processes, tmp_path: Path
) -> None:
    processes.begin("still", WAITS)
    processes.begin("deaf", DEAF)
    for name in processes.names():
        write_history(tmp_path, name)
    processes.pause("still")
    assert processes.end_all(timeout_s=2) == ["deaf"]
    assert processes.alive() == []


def test_the_end_of_a_run_kills_what_is_left(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="broken"), Processes(tmp_path) as processes:
        processes.begin("a", DEAF)
        raise RuntimeError("broken")
    assert processes.alive() == []


def test_a_driver_is_killed_when_its_moment_has_come_with_its_session(tmp_path: Path) -> None:
    log = tmp_path / "log"
    driver = begin_session(WAITS, log)
    assert cpu_s(driver.pid) >= 0 and rss_mib(driver.pid) >= 0
    assert kill_when(driver, lambda: "begun" in log.read_text(), lambda: None, 60)
    assert session_of(driver.pid) == [] and rss_mib(driver.pid) == 0
    end_session(driver)


def test_a_driver_that_ended_before_its_moment_was_not_killed(tmp_path: Path) -> None:
    driver = begin_session(ENDS, tmp_path / "log", prints=True)
    assert not kill_when(driver, lambda: False, lambda: None, 60)
    assert driver.stdout is not None and driver.stdout.read() == "ended\n" and last_lines(tmp_path / "log") == []
    end_session(driver)


def test_a_moment_that_does_not_come_in_time_kills_nobody(tmp_path: Path) -> None:
    driver: subprocess.Popen[str] = begin_session(WAITS, tmp_path / "log")
    assert not kill_when(driver, lambda: False, lambda: None, 0.05)
    assert driver.poll() is None
    end_session(driver)
    assert driver.poll() is not None
