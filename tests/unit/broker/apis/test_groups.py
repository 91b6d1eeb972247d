"""Promises of the handlers of groups: every API of the table's page has one, and the coordinator gets its requests."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.apis.api_parts import ApiParts
from broker.apis.groups import SERVED
from broker.apis.router import Handle
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


def handlers(coordinator: FakeCoordinator, audit: Callable[[Request], None] = nobody) -> dict[str, Handle]:
    parts = cast(ApiParts, SimpleNamespace(groups=coordinator, transactions=None, audit_request=audit))
    return {row.name: row.handler(parts) for row in SERVED}


def test_every_api_of_groups_has_a_handler() -> None:
    assert [row.name for row in SERVED if row.api not in ROWS] == []
    assert set(handlers(FakeCoordinator())) == {row.name for row in ROWS}


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
    handlers(coordinator)[api](request, body)
    assert coordinator.heard == [(way, request, body)]


@pytest.mark.parametrize("is_act", [True, False])
def test_a_request_that_removes_another_ones_member_is_audited_before_it_is_decided(is_act: bool) -> None:
    coordinator, audited = FakeCoordinator(), list[Request]()
    coordinator.is_act = is_act
    body = LeaveGroupRequest("g", (LeavingMember("m"),))
    request = Request("LeaveGroup", body, Sink(), CALLER, NOW_NS)
    handlers(coordinator, audited.append)["LeaveGroup"](request, body)
    assert audited == [request] * is_act and coordinator.heard == [("g", request, body)]
