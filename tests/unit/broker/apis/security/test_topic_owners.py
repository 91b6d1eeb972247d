"""A request that makes partitions tells the controller whose share they count to: the caller's, and no other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.apis.api_parts import ApiParts
from broker.apis.forwarded_apis import SERVED
from broker.audit.audit_log import AuditLog
from broker.authorization.authorizer import Authorizer
from broker.authorization.request_authorizer import RequestAuthorizer
from broker.network.broker_calls import THIS_BROKER
from broker.network.request_channel import ANONYMOUS, Caller, Request
from metadata.image import EMPTY_IMAGE
from penstock.messages.client_apis import CREATE_PARTITIONS, CREATE_TOPICS
from penstock.messages.topics import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest, NewTopic
from penstock.types import Endpoint
from penstock.wire.message_codec import request_codec
from tests.support.machine import NOW_NS
from tests.support.sinks import Sink

ANNA, ADMIN = "User:anna", "User:admin"
HOST = Endpoint("10.0.0.7", 4711)
GUARD = RequestAuthorizer(Authorizer(dict, (ADMIN,)), lambda: EMPTY_IMAGE, "INTERNAL", AuditLog(lambda: 0), {}, ())


def forwarded(api: str, body: Any, caller: Caller, guard: RequestAuthorizer | None = GUARD) -> Any:
    """The request as the controller gets it."""
    bodies: list[Any] = []
    controller = SimpleNamespace(handler=lambda api: lambda request, body: bodies.append(body))
    parts = SimpleNamespace(
        forwarded=controller,
        share_holder=None if guard is None else guard.share_holder,
        quotas=SimpleNamespace(is_active=False),
        image=lambda: EMPTY_IMAGE,
    )
    (row,) = (row for row in SERVED if row.name == api)
    handle = row.handler(cast(ApiParts, parts))
    handle(Request(api, body, Sink(), caller, NOW_NS), body)
    return bodies[0]


@pytest.mark.parametrize("api", ["CreateTopics", "CreatePartitions"])
@pytest.mark.parametrize(
    ("caller", "principal"),
    [
        (Caller(HOST, "BROKER", ANNA), ANNA),
        (Caller(HOST, "KAFKA", ANNA), ANNA),
        (Caller(HOST, "BROKER", ADMIN), ""),
        (Caller(HOST, "BROKER"), ANONYMOUS),
        (Caller(Endpoint("10.0.0.8", 1), "BROKER"), ANONYMOUS),
        (Caller(HOST, "INTERNAL", "User:node-2"), ""),
        (THIS_BROKER, ""),
    ],
)
def test_a_clients_partitions_count_to_its_principal_and_those_of_super_users_and_nodes_to_nobody(
    api: str, caller: Caller, principal: str
) -> None:
    kind = CreateTopicsRequest if api == "CreateTopics" else CreatePartitionsRequest
    for claimed in ("", "User:bob", principal):
        assert forwarded(api, kind(timeout_ms=5, principal=claimed), caller) == kind(timeout_ms=5, principal=principal)
        assert forwarded(api, kind(principal=claimed), caller, guard=None) == kind(), "nobody has a share"


def test_other_requests_go_on_as_they_are() -> None:
    body = DeleteTopicsRequest(("T",))
    assert forwarded("DeleteTopics", body, Caller(HOST, "BROKER", ANNA)) is body


def test_the_principal_travels_to_a_controller_on_another_node() -> None:
    topics = CreateTopicsRequest((NewTopic("t"),), principal=ANNA)
    codec = request_codec(CREATE_TOPICS)
    assert codec.decode(codec.encode(topics)) == topics
    more, partitions = CreatePartitionsRequest(principal=ANNA), request_codec(CREATE_PARTITIONS)
    assert partitions.decode(partitions.encode(more)) == more
