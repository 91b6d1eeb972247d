"""Promises of the alerts' files: each alert has a fault that makes it fire, a page that says what to do, and tests."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from broker.network.memory_budget import MemoryBudget
from penstock.cli.main import app
from tests.alerts_fire.__main__ import Outcome
from tests.alerts_fire.cases import CASES
from tests.alerts_fire.runbook_lines import that_find_nothing
from tests.support.prometheus import scaled

OPS = Path(__file__).resolve().parents[3] / "ops"
RULES = (OPS / "prometheus" / "alerts.yml").read_text(encoding="utf-8")
ALERTS = re.findall(r"- alert: (\w+)", RULES)
RUNBOOKS = sorted((OPS / "runbooks").glob("*.md"))
PARTS = ["What it means", "What to look at", "What to do"]
LINES_MAX = 45


def test_each_alert_must_fire_by_a_fault_and_the_faults_name_no_other() -> None:
    assert {name for case in CASES for name in case.must_fire} == set(ALERTS), "a fault for it in tests/alerts_fire/"
    assert {name for case in CASES for name in case.may_fire} <= set(ALERTS)
    assert len({case.name for case in CASES}) == len(CASES)
    assert not [case.name for case in CASES if case.must_fire & case.may_fire]


def test_each_alert_has_a_case_of_promtool() -> None:
    tested = (OPS / "prometheus" / "alerts.test.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"alertname: (\w+)\n +exp_alerts:\n +- exp_labels", tested)) == set(ALERTS)


def test_each_alert_names_its_page_and_each_page_has_an_alert() -> None:
    named = re.findall(r"- alert: (\w+)\n(?:(?! *- alert).*\n)*? +runbook: (\S+)\n", RULES)
    assert named == [(alert, f"ops/runbooks/{alert}.md") for alert in ALERTS]
    assert sorted(path.stem for path in RUNBOOKS) == sorted(ALERTS)


@pytest.mark.parametrize("parties", [1, 2, 3, 12])
@pytest.mark.parametrize("size", [7, 501, 1_001, 1_250])
def test_however_few_clients_fill_their_shares_of_a_memory_budget_its_alert_fires(parties: int, size: int) -> None:
    """A lease of up to a stream's share."""
    budget = MemoryBudget(10_000, 8)
    going_on = [budget.open(f"10.0.{party}.1") for party in range(parties) for _ in range(9)]
    while going_on:
        going_on = [account for account in going_on if account.acquire(size, lambda lease: None) is not None]
    found = budget.statistics()
    used_at_least = re.search(r"memory_used_bytes / penstock_memory_max_bytes > ([0-9.]+) and .*waiting", RULES)
    assert used_at_least and found.waiting and found.used_bytes > float(used_at_least[1]) * found.bytes_max


@pytest.mark.parametrize("page", RUNBOOKS, ids=lambda path: path.stem)
def test_a_page_is_short_and_its_links_and_commands_and_metrics_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# {page.stem}\n") and re.findall(r"(?m)^## (.*)$", text) == PARTS
    assert len(text.splitlines()) <= LINES_MAX
    for link in re.findall(r"\]\(([^)#]+)", text):
        assert (page.parent / link).is_file(), link
    commands = list(commands_of(text))
    for command in commands:
        check(command)
    known = (OPS.parent / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert not [name for name in re.findall(r"`(penstock_\w+)", text) if f"`{name}`" not in known]


def commands_of(text: str) -> Iterator[list[str]]:
    """The words after `penstock` of each command that a page names."""
    for code in re.findall(r"`penstock ([^`]+)`", text):
        yield shlex.split(code)


@cache
def command_line() -> Any:
    return typer.main.get_command(app)


def check(words: list[str]) -> None:
    """Fails unless the command line has the command, and the command its options."""
    command: Any = command_line()
    rest = list(words)
    while hasattr(command, "commands"):
        name = rest.pop(0)
        assert name in command.commands, words
        command = command.commands[name]
    options = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    assert {word for word in rest if word.startswith("--")} <= options, words


def test_a_command_that_does_not_exist_is_found() -> None:
    (words,) = commands_of("call `penstock topics mend --all`")
    with pytest.raises(AssertionError):
        check(words)
    with pytest.raises(AssertionError):
        check(["topics", "describe", "--mended"])


def test_the_pace_of_a_test_scales_conditions_and_ranges_and_nothing_else() -> None:
    rules = "expr: increase(a[10m]) > 2 * 3600\nexpr: c > 10 * 60\nfor: 5m\nsummary: in 5 minutes, rate(b[1h])"
    wanted = "expr: increase(a[40s]) > 2 * 240\nexpr: c > 10 * 4\nfor: 20s\nsummary: in 5 minutes, rate(b[240s])"
    assert scaled(rules, 4) == wanted


KILLED = next(case for case in CASES if case.name == "killed")
CAME = {"PenstockNodeDown": 5.0, "PenstockUnderReplicated": 23.0, "PenstockFencedBroker": 22.0}


def test_a_fault_is_right_when_what_must_fire_fires_and_goes_and_other_processes_may_make_the_machine_busy() -> None:
    busy = {"PenstockHandlersBusy": 9.0}
    went = dict.fromkeys(CAME, 1.0)
    outcome = Outcome(KILLED, CAME | busy, went | busy, frozenset(), frozenset(), 60)
    assert outcome.is_right
    assert outcome.row() == (
        "| killed | NodeDown 5, FencedBroker 22, UnderReplicated 23 | NodeDown 1, FencedBroker 1, UnderReplicated 1 "
        "| (HandlersBusy) | 60 |"
    )


@pytest.mark.parametrize(
    ("came", "missing", "left", "expected"),
    [
        (CAME | {"PenstockDiskFull": 3.0}, (), (), "| DiskFull WRONG |"),
        ({"PenstockNodeDown": 5.0}, ("PenstockFencedBroker", "PenstockUnderReplicated"), (), "FencedBroker NEVER"),
        (CAME, (), ("PenstockNodeDown",), "| NodeDown NEVER,"),
    ],
    ids=["another alert fires", "an alert does not fire", "an alert does not go"],
)
def test_a_fault_is_wrong_and_its_row_says_why(
    came: dict[str, float], missing: tuple[str, ...], left: tuple[str, ...], expected: str
) -> None:
    outcome = Outcome(KILLED, came, dict.fromkeys(came, 1.0), frozenset(missing), frozenset(left), 60)
    assert not outcome.is_right
    assert expected in outcome.row()


def test_a_command_of_a_page_that_finds_no_line_in_the_logs_is_named(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("node 0 is ready\n")
    assert list(that_find_nothing(["PenstockClockJumped"], {log: 0})) == ["grep 'the clock'"]
    log.write_text("the clock has jumped by 172800 s\n")
    assert not list(that_find_nothing(["PenstockClockJumped"], {log: 0}))
    assert list(that_find_nothing(["PenstockClockJumped"], {log: log.stat().st_size})), "it was said before the fault"
