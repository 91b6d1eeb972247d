"""A worker reports a passed test once, and everything else whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.few_reports import PASSED, OneMessage, both_events

ENVIRON = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
CONFTEST = """
from tests.support import few_reports

def pytest_configure(config):
    few_reports.register(config)

def pytest_runtest_logreport(report):
    if hasattr(report, "node"):  # the controller's
        print(f"REPORT {report.nodeid.split('::')[1]} {report.when} {report.outcome} {report.user_properties}")
"""
FILE = """
import pytest

@pytest.fixture
def spoilt():
    yield
    raise ValueError("in the tear-down")

@pytest.fixture
def telling(record_property):
    yield
    record_property("told", "late")

def test_passes(): pass
def test_fails(): assert 1 == 2
def test_ends_badly(spoilt): pass
def test_tells_late(telling): pass
@pytest.mark.skip
def test_skipped(): pass
"""
WHOLE = {(name, when) for name in ("passes", "fails", "ends_badly", "tells_late") for when in ("setup", "call")}


@pytest.mark.parametrize(
    ("options", "reports"),
    [
        ((), {("passes", "call"), ("fails", "call"), ("ends_badly", "call"), ("tells_late", "call")}),
        (("--durations=1",), WHOLE | {("passes", "teardown"), ("fails", "teardown"), ("skipped", "teardown")}),
    ],
    ids=["few", "all"],
)
def test_a_passed_test_has_one_report(tmp_path: Path, options: tuple[str, ...], reports: set[tuple[str, str]]) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_file.py").write_text(FILE)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "1",
        "-s",
        "-p",
        "xdist",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        *options,
    ]
    done = subprocess.run(
        [*command, str(tmp_path)], env=ENVIRON, capture_output=True, text=True, timeout=60, check=False
    )
    assert "1 failed, 3 passed, 1 skipped, 1 error" in done.stdout, done.stdout
    lines = [line[line.index("REPORT ") :].split(" ", 4)[1:] for line in done.stdout.splitlines() if "REPORT " in line]
    always = {("skipped", "setup"), ("ends_badly", "teardown"), ("tells_late", "teardown")}
    assert {(name.removeprefix("test_"), when) for name, when, _, _ in lines} == reports | always
    assert ["test_tells_late", "teardown", "passed", "[('told', 'late')]"] in lines


PASS, FAIL = ({"outcome": outcome, "when": "call", "nodeid": outcome} for outcome in ("passed", "failed"))
PASSED_SETUP = {**PASS, "when": "setup"}
COMPLETE = ("runtest_protocol_complete", {"item_index": 1, "duration": 0.5})


@pytest.mark.parametrize(
    ("reports", "messages"),
    [
        ([PASS], [PASSED]),
        ([FAIL], ["testreport", "runtest_protocol_complete"]),
        ([PASSED_SETUP, PASS], ["testreport", PASSED]),
        ([PASS, FAIL], ["testreport", "testreport", "runtest_protocol_complete"]),
    ],
    ids=["passed", "failed", "set up", "failed in the tear-down"],
)
def test_one_message_for_a_passed_test_is_taken_as_its_two_events(
    reports: list[dict[str, str]], messages: list[str]
) -> None:
    sent: list[tuple[str, dict[str, object]]] = []
    taken: list[object] = []
    send, take = OneMessage(lambda name, **values: sent.append((name, values))), both_events(taken.append)
    events = [("testreport", {"data": report}) for report in reports] + [COMPLETE]
    for name, values in events:
        send(name, **values)
    assert [name for name, _ in sent] == messages
    for message in sent:
        take(message)
    assert taken == events
