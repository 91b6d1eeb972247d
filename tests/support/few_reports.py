"""A worker (`pytest -n`) sends one report of a test that passed, in place of three and two notices of begin and end.

23,000 tests sent 137,000 messages, each made, packed, unpacked and counted. The controller counts a test by the report
of its call. Set-ups and tear-downs that fail, are skipped or record a property are still reported. `--durations` and
`--junit-xml` count every part: with them all is sent. A forked worker tells that a test has passed and is complete in
one message: each costs both sides a switch of their threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

PASSED = "passed_and_complete"
Send = Callable[..., None]


class FewReports:
    """A plugin of a worker."""

    @pytest.hookimpl
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.passed:
                if report.when != "call" and not report.user_properties:
                    continue
                report.keywords = {}  # nobody asks which marks a passed test has
            item.ihook.pytest_runtest_logreport(report=report)
        return True


def register(config: pytest.Config) -> None:
    """Makes a worker's reports few, unless somebody counts all of them."""
    if hasattr(config, "workerinput") and not (config.option.durations or config.option.xmlpath):
        config.pluginmanager.register(FewReports(), "penstock-few-reports")


class OneMessage:
    """Sends what a worker's `interactor` sends, but a passed call and the completion that follows as one event."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._passed: dict[str, Any] | None = None

    def __call__(self, name: str, **values: Any) -> None:
        passed, self._passed = self._passed, None
        if passed is not None and name == "runtest_protocol_complete":
            self._send(PASSED, report=passed, complete=values)
            return
        if passed is not None:
            self._send("testreport", data=passed)
        if name == "testreport" and values["data"]["outcome"] == "passed" and values["data"]["when"] == "call":
            self._passed = values["data"]
        else:
            self._send(name, **values)


def both_events(take: Callable[[Any], None]) -> Callable[[Any], None]:
    """For the controller: takes the two events that `OneMessage` joined, and any other as it is."""

    def taken(event: Any) -> None:
        if isinstance(event, tuple) and event[0] == PASSED:
            take(("testreport", {"data": event[1]["report"]}))
            take(("runtest_protocol_complete", event[1]["complete"]))
        else:
            take(event)

    return taken
