"""Refusals are counted, each of them, and told to operators in lines that a flood does not multiply."""

from __future__ import annotations

import json
import logging

import pytest

from broker.audit.audit_log import LINES_MAX, LINES_MS, AuditLog
from broker.authorization.authorizer import Authorizer
from broker.authorization.judge import NOTED_MAX, Judge
from broker.authorization.refusals import Refusals
from broker.network.request_channel import Caller
from metadata.image import EMPTY_IMAGE
from penstock.clock import ManualClock
from penstock.errors import TopicAuthorizationFailedError
from penstock.messages.security.acls import Need, Operation, ResourceType
from penstock.throttled_lines import SAY_INTERVAL_MS
from penstock.types import Endpoint


def of(principal: str) -> Caller:
    return Caller(Endpoint("10.0.0.7", 1), "OUTSIDE", principal)


ORDERS = Need(Operation.WRITE, ResourceType.TOPIC, "orders")


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "penstock.audit"]


def test_a_line_says_who_wanted_what_from_where(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals(AuditLog(ManualClock().now_ms))
    name = 'or"ders\n' + "x" * 300
    with caplog.at_level(logging.WARNING, "penstock.audit"):
        refusals.note(of("User:bob\nUser:eve"), "Produce", [ORDERS._replace(name=name)])
    (line,) = lines(caplog)
    assert line.isprintable() and line.isascii()
    assert json.loads(line) == {
        "outcome": "refused",
        "principal": "User:bob\nUser:eve",
        "host": "10.0.0.7",
        "port": 1,
        "listener": "OUTSIDE",
        "api": "Produce",
        "operation": "Write",
        "resource": "topic",
        "name": f"{name[:256]}…",
    }


def test_who_asks_again_and_again_has_one_line_and_all_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    refusals = Refusals(AuditLog(clock.now_ms))
    with caplog.at_level(logging.WARNING, "penstock.audit"):
        for number in range(50):
            refusals.note(of("User:bob"), "Produce", [ORDERS._replace(name=f"t{number}")])
        clock.advance(SAY_INTERVAL_MS)
        refusals.note(of("User:bob"), "Produce", [ORDERS])
    first, second = lines(caplog)
    assert '"name":"t0"' in first and second.endswith(',"left_out":49}')
    assert refusals.statistics(3).topics == 51 and refusals.statistics(3).acls == 3


def test_many_who_are_refused_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    refusals = Refusals(AuditLog(clock.now_ms))
    with caplog.at_level(logging.WARNING, "penstock.audit"):
        for number in range(3 * LINES_MAX):
            refusals.note(of(f"User:{number}"), "Fetch", [ORDERS])
        assert len(lines(caplog)) == LINES_MAX
        clock.advance(LINES_MS)
        refusals.note(of("User:last"), "Fetch", [ORDERS])
    assert lines(caplog)[-1].endswith(f',"left_out":{2 * LINES_MAX}}}')


def test_the_refusals_of_one_request_are_bounded_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    judge = Judge(Authorizer(dict).rights_of("User:bob", "10.0.0.7"), EMPTY_IMAGE)
    errors = [judge.refusal(Operation.WRITE, ResourceType.TOPIC, f"t{n}") for n in range(NOTED_MAX + 20)]
    assert all(isinstance(error, TopicAuthorizationFailedError) for error in errors)
    assert len(judge.refused) == NOTED_MAX and judge.more_refused == 20
    refusals = Refusals(AuditLog(ManualClock().now_ms))
    refusals.note(of("User:bob"), "Produce", judge.refused, judge.more_refused)
    assert refusals.statistics(0).topics == NOTED_MAX + 20
