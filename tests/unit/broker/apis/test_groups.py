"""Promises of the handlers of groups: every API of the table's page has one, and the coordinator gets its requests."""

from __future__ import annotations

from typing import Any

import pytest

from broker.apis.groups import OF_MANY_GROUPS, OF_ONE_GROUP, group_handlers
from broker.network.request_channel import Request
from penstock.messages.api import Api
from penstock.messages.groups import group_apis
from penstock.messages.groups.classic_protocol import HeartbeatRequest, LeaveGroupRequest, LeavingMember
from penstock.messages.groups.coordinators import FindCoordinatorRequest
from penstock.messages.groups.listing import DescribeGroupsRequest
from tests.support.machine import NOW_NS
from tests.support.sinks import CALLER, Sink

ROWS = [row for row in vars(group_apis).values() if isinstance(row, Api)]


def nobody(request: Request) -> None:
    raise AssertionError(f"{request} is no act")


class FakeCoordinator:
    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []
        self.is_act = False

    def find(self, request: Request, body: Any) -> None:
        self.heard.append(("find", request, body))

    def submit(self, request: Request, group_id: str, body: Any) -> None:
        self.heard.append((group_id, request, body))

    def removes_another(self, request: Request, group_id: str, body: Any) -> bool:
        return self.is_act

    def submit_each(self, request: Request, body: Any) -> None:
        self.heard.append(("each", request, body))


def test_every_api_of_groups_has_a_handler() -> None:
    assert set(group_handlers(FakeCoordinator(), nobody)) == {row.name for row in ROWS}
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
    group_handlers(coordinator, nobody)[api](request, body)
    assert coordinator.heard == [(way, request, body)]


@pytest.mark.parametrize("is_act", [True, False])
def test_a_request_that_removes_another_ones_member_is_audited_before_it_is_decided(is_act: bool) -> None:
    coordinator, audited = FakeCoordinator(), list[Request]()
    coordinator.is_act = is_act
    body = LeaveGroupRequest("g", (LeavingMember("m"),))
    request = Request("LeaveGroup", body, Sink(), CALLER, NOW_NS)
    group_handlers(coordinator, audited.append)["LeaveGroup"](request, body)
    assert audited == [request] * is_act and coordinator.heard == [("g", request, body)]
