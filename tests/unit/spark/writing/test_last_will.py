"""Promises about last wills: what a killed process has open is aborted by the one beside it, and no more."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import NetworkError, PenstockError, ProducerFencedError
from penstock.spark import log_client
from penstock.spark.writing import last_will
from penstock.spark.writing.last_will import LastWills, Will, carry_out
from tests.spark_exactly_once.faults.promise import ROOT

WAIT_S = 60
STUB = """
import sys
def carry_out(lines):
    open({done_file!r}, "w").write("".join(lines))
"""
ENDED = """
import os, signal, sys
from penstock.spark.writing.last_will import LAST_WILLS, Will
sys.path.insert(0, sys.argv[1])
wills = [Will("h:1", "job", "run", 7, epoch) for epoch in range(3)]
for will in wills:
    LAST_WILLS.leave(will)
LAST_WILLS.revoke(wills[1])
{end}
"""


def will(epoch: int = 0, application: str = "job", run: str = "run") -> Will:
    return Will("h:1", application, run, 7, epoch, {"client_id": "é"})


@pytest.fixture
def done_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the wills that are carried out: the other process finds a module that writes it."""
    place = tmp_path / "penstock" / "spark" / "writing"
    place.mkdir(parents=True)
    for package in (place, *place.parents[:2]):
        (package / "__init__.py").touch()
    (place / "last_will.py").write_text(STUB.format(done_file=str(tmp_path / "done")), encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return tmp_path / "done"


def epochs(done_file: Path) -> list[int]:
    return [json.loads(line)["epoch"] for line in done_file.read_text(encoding="utf-8").splitlines()]


def test_what_is_left_is_carried_out_when_the_pipe_ends_and_what_is_revoked_is_not(done_file: Path) -> None:
    wills = LastWills()
    for epoch in range(3):
        wills.leave(will(epoch))
    wills.revoke(will(1))
    wills.revoke(will(1))
    assert not done_file.exists()
    wills.close()
    assert epochs(done_file) == [0, 2]


def test_nothing_is_carried_out_where_all_is_revoked(done_file: Path) -> None:
    wills = LastWills()
    wills.leave(will())
    wills.revoke(will())
    wills.close()
    assert not done_file.exists()


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(0)"])
def test_a_process_that_is_killed_or_exits_has_its_wills_carried_out(done_file: Path, end: str) -> None:
    program = [sys.executable, "-c", ENDED.format(end=end), str(done_file.parent)]
    subprocess.run(program, cwd=ROOT, stderr=subprocess.PIPE, timeout=WAIT_S, check=False)  # until nobody has the pipe
    assert epochs(done_file) == [0, 2]


def test_another_process_that_is_killed_itself_is_replaced_by_one_that_knows_every_will(done_file: Path) -> None:
    begun: list[subprocess.Popen[bytes]] = []

    def begin() -> subprocess.Popen[bytes]:
        begun.append(last_will._begun())
        return begun[-1]

    wills = LastWills(begin)
    wills.leave(will(0))
    wills.leave(will(1))
    begun[0].kill()
    begun[0].wait()
    wills.revoke(will(1))
    wills.leave(will(2))
    wills.close()
    assert len(begun) == 2 and epochs(done_file) == [0, 2]


def test_where_no_other_process_can_be_had_the_write_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    def begin() -> subprocess.Popen[bytes]:
        raise BlockingIOError("no more processes")

    wills = LastWills(begin)
    wills.leave(will())
    wills.revoke(will())
    wills.close()
    assert ["no process for last wills" in message for message in caplog.messages] == [True]


class Coordinator:
    """The atomic batches that wills are carried out at."""

    def __init__(self) -> None:
        self.aborted: list[tuple[Any, ...]] = []
        self.errors: dict[str, PenstockError] = {}

    def abort_writers(self, application: str, writers: Any, *, run: str, timeout: float) -> None:
        self.aborted.append((application, run, writers, timeout))
        if application in self.errors:
            raise self.errors[application]


def test_wills_of_one_application_are_one_call_and_errors_are_told_once_and_stop_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    coordinator, asked = Coordinator(), []

    def atomic_batches(bootstrap: str, client: dict[str, Any]) -> Coordinator:
        asked.append((bootstrap, client))
        return coordinator

    monkeypatch.setattr(log_client, "atomic_batches", atomic_batches)
    coordinator.errors = {"away": NetworkError("no answer"), "fenced": ProducerFencedError("a newer run")}
    left = [will(0), will(0, "away"), will(0, "fenced"), will(1), will(2, run="later")]
    carry_out([json.dumps(asdict(one)) for one in left], 5)
    assert coordinator.aborted == [
        ("job", "run", [(7, 0), (7, 1)], 5),
        ("away", "run", [(7, 0)], 5),
        ("fenced", "run", [(7, 0)], 5),
        ("job", "later", [(7, 2)], 5),
    ]
    assert set(map(str, asked)) == {str(("h:1", {"client_id": "é"}))}
    assert caplog.messages == ["what a killed task of 'away' had open waits for its time-out: no answer"]


def test_a_will_tells_no_password_to_a_log() -> None:
    assert "secret" not in repr(Will("h:1", "job", "run", 7, 0, {"password": "secret"}))
