"""Promises of the handlers of groups: every API of the table's page has one, and the coordinator gets its requests."""

from __future__ import annotations

from typing import Any

import pytest

from broker.apis.groups import OF_MANY_GROUPS, OF_ONE_GROUP, group_handlers
from broker.network.request_channel import Request
from penstock.messages.api import Api
from penstock.messages.groups import group_apis
from penstock.messages.groups.classic_protocol import HeartbeatRequest
from penstock.messages.groups.coordinators import FindCoordinatorRequest
from penstock.messages.groups.listing import DescribeGroupsRequest
from tests.support.machine import NOW_NS
from tests.support.sinks import CALLER, Sink

ROWS = [row for row in vars(group_apis).values() if isinstance(row, Api)]


class FakeCoordinator:
    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def find(self, request: Request, body: Any) -> None:
        self.heard.append(("find", request, body))

    def submit(self, request: Request, group_id: str, body: Any) -> None:
        self.heard.append((group_id, request, body))

    def submit_each(self, request: Request, body: Any) -> None:
        self.heard.append(("each", request, body))


def test_every_api_of_groups_has_a_handler() -> None:
    assert set(group_handlers(FakeCoordinator())) == {row.name for row in ROWS}
    assert {*OF_ONE_GROUP, *OF_MANY_GROUPS, group_apis.FIND_COORDINATOR} == set(ROWS)


def test_a_request_of_one_group_names_it() -> None:
    fields = {row.name: row.request.__annotations__ for row in OF_ONE_GROUP}
    assert [name for name, found in fields.items() if "group_id" not in found] == []


@pytest.mark.parametrize(
    ("api", "body", "way"),
    [
        ("FindCoordinator", FindCoordinatorRequest(("g",)), "find"),
        ("Heartbeat", HeartbeatRequest("g", 1, "m"), "g"),
        ("DescribeGroups", DescribeGroupsRequest(("g", "h")), "each"),
    ],
)
def test_the_coordinator_gets_the_request(api: str, body: Any, way: str) -> None:
    coordinator = FakeCoordinator()
    request = Request(api, body, Sink(), CALLER, NOW_NS)
    group_handlers(coordinator)[api](request, body)
    assert coordinator.heard == [(way, request, body)]
