"""Promises of keys 29 to 31: Kafka's numbers on the wire, our words in the node, and SECURITY_DISABLED without an
authorizer."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.apis.api_parts import ApiParts
from broker.apis.security.acls import SERVED
from broker.kafka.api_row import failed_answer
from broker.kafka.apis import acls
from broker.kafka.plan import PAUSED_EVERY
from broker.kafka.schemas.security import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from broker.network.request_channel import Request
from metadata.image import MetadataImage
from penstock.errors import ApiError, ClusterAuthorizationFailedError, InvalidRequestError
from penstock.messages.security import acls as ours
from penstock.messages.security.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from tests.support.kafka_plans import asked, ended, first_ask, parts_of, pauses, read_by_client
from tests.support.kafka_rows import ACLS, rows_over
from tests.support.machine import NOW_NS
from tests.support.sinks import CALLER, Sink

SECURITY_DISABLED, INVALID_REQUEST, CLUSTER_AUTHORIZATION_FAILED = 54, 42, 31
READS = AclBinding(ResourceType.TOPIC, "orders", "User:a", Operation.READ, Permission.ALLOW, "*", PatternType.PREFIXED)
WRITES = AclBinding(
    ResourceType.TOPIC, "orders", "User:b", Operation.WRITE, Permission.DENY, "10.0.0.1", PatternType.PREFIXED
)
CLUSTER = AclBinding(ResourceType.CLUSTER, "kafka-cluster", "User:a", Operation.ALL)
ROWS = {row.key: row for row in rows_over(parts_of(), *ACLS)}


def creation(acl: AclBinding, **changes: int) -> AclCreation:
    numbers = {
        "resource_type": list(ResourceType).index(acl.resource_type),
        "resource_pattern_type": list(PatternType).index(acl.pattern_type),
        "operation": list(Operation).index(acl.operation),
        "permission_type": list(Permission).index(acl.permission),
    }
    return AclCreation(
        resource_name=acl.resource_name, principal=acl.principal, host=acl.host, **{**numbers, **changes}
    )


def numbers(one: AclCreation) -> tuple[int, int, int, int]:
    return one.resource_type, one.resource_pattern_type, one.operation, one.permission_type


def filtered(kind: int, name: str | None, pattern: int, principal: str | None) -> dict[str, Any]:
    return {
        "resource_type_filter": kind,
        "resource_name_filter": name,
        "pattern_type_filter": pattern,
        "principal_filter": principal,
        "operation": 1,
        "permission_type": 1,
    }


def test_the_numbers_are_kafkas() -> None:
    assert numbers(creation(READS)) == (2, 4, 3, 3)
    assert numbers(creation(WRITES)) == (2, 4, 4, 2)
    assert numbers(creation(CLUSTER)) == (4, 3, 2, 3)
    assert list(Operation).index(Operation.IDEMPOTENT_WRITE) == 12
    assert list(ResourceType).index(ResourceType.TRANSACTIONAL_ID) == 5


@pytest.mark.parametrize("version", [1, 2, 3])
def test_acls_are_made_and_each_has_its_answer(version: int) -> None:
    tokens = creation(READS, resource_type=6)
    plan = acls.create_acls(asked(version), CreateAclsRequest(creations=[creation(READS), creation(CLUSTER), tokens]))
    request = first_ask(plan, "CreateAcls")
    assert request.acls[:2] == (READS, CLUSTER) and request.acls[2].resource_type is ResourceType.UNKNOWN
    results = ours.AclCreation(), ours.AclCreation(), ours.AclCreation(InvalidRequestError("no such thing"))
    read = read_by_client(ended(plan, ours.CreateAclsResponse(results)), version)
    assert [one.error_code for one in read.results] == [0, 0, INVALID_REQUEST]
    assert read.results[2].error_message == "no such thing"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_acls_are_told_by_resource(version: int) -> None:
    body = DescribeAclsRequest(**filtered(2, "orders", 2, None))
    plan = acls.describe_acls(asked(version), body)
    request = first_ask(plan, "DescribeAcls")
    assert request.filter == ours.AclFilter(ResourceType.TOPIC, "orders", PatternType.MATCH)
    read = read_by_client(ended(plan, ours.DescribeAclsResponse((CLUSTER, READS, WRITES))), version)
    assert [(one.resource_type, one.resource_name, one.pattern_type) for one in read.resources] == [
        (4, "kafka-cluster", 3),
        (2, "orders", 4),
    ]
    assert [(one.principal, one.host, one.operation, one.permission_type) for one in read.resources[1].acls] == [
        ("User:a", "*", 3, 3),
        ("User:b", "10.0.0.1", 4, 2),
    ]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_what_each_filter_removed_is_told(version: int) -> None:
    wanted = filtered(1, None, 1, "User:a"), filtered(99, None, 1, None)
    body = DeleteAclsRequest(filters=[DeleteAclsFilter(**one) for one in wanted])
    plan = acls.delete_acls(asked(version), body)
    request = first_ask(plan, "DeleteAcls")
    assert request.filters[0] == ours.AclFilter(principal="User:a")
    assert request.filters[1].resource_type is ResourceType.UNKNOWN
    results = ours.AclDeletion((READS, CLUSTER)), ours.AclDeletion(error=InvalidRequestError("what is that"))
    read = read_by_client(ended(plan, ours.DeleteAclsResponse(results)), version)
    assert [(one.error_code, len(one.matching_acls)) for one in read.filter_results] == [(0, 2), (INVALID_REQUEST, 0)]
    matching = read.filter_results[0].matching_acls[0]
    assert (matching.resource_type, matching.resource_name, matching.pattern_type, matching.operation) == (
        2,
        "orders",
        4,
        3,
    )


def test_more_than_one_request_of_the_node_has_are_asked_in_turns() -> None:
    plan = acls.create_acls(asked(3), CreateAclsRequest(creations=[creation(READS)] * 1_001))
    assert len(first_ask(plan, "CreateAcls").acls) == 1_000
    second: Any = plan.throw(ClusterAuthorizationFailedError("not any more"))
    assert len(second.body.acls) == 1
    read = read_by_client(ended(plan, ours.CreateAclsResponse((ours.AclCreation(),))), 3)
    assert [one.error_code for one in read.results] == [CLUSTER_AUTHORIZATION_FAILED] * 1_000 + [0]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_without_an_authorizer_all_of_it_is_off(version: int) -> None:
    off = {}
    parts = cast(ApiParts, SimpleNamespace(has_authorizer=False, image=MetadataImage))
    for api, handle in ((row.name, row.handler(parts)) for row in SERVED):
        request = Request(api, None, Sink(), CALLER, NOW_NS)
        with pytest.raises(ApiError) as caught:
            handle(request, None)
        off[api] = caught.value
    listed = failed_answer(ROWS[29], asked(version), DescribeAclsRequest(), off["DescribeAcls"])
    read = read_by_client(listed, version)
    assert read.error_code == SECURITY_DISABLED and read.resources == []
    assert read.error_message.startswith("No Authorizer is configured on the broker")
    made = ended_with(acls.create_acls(asked(version), CreateAclsRequest(creations=[creation(READS)] * 2)), off)
    assert [one.error_code for one in read_by_client(made, version).results] == [SECURITY_DISABLED] * 2
    assert {made.results[0].error_message, *map(str, off.values())} == {read.error_message}, "one text for all"
    gone = ended_with(acls.delete_acls(asked(version), DeleteAclsRequest(filters=[DeleteAclsFilter()])), off)
    assert [(one.error_code, one.matching_acls) for one in read_by_client(gone, version).filter_results] == [
        (SECURITY_DISABLED, [])
    ]


def ended_with(plan: Any, errors: dict[str, ApiError]) -> Any:
    return ended(plan, errors[next(plan).api])


def test_many_acls_are_told_with_pauses() -> None:
    plan = acls.describe_acls(asked(3), DescribeAclsRequest(**filtered(1, None, 1, None)))
    first_ask(plan, "DescribeAcls")
    found = tuple(replace(READS, resource_name=f"orders-{n}") for n in range(10 * PAUSED_EVERY))
    assert pauses(plan, ours.DescribeAclsResponse(found)) == 20, "each ACL, and each resource"
