"""DescribeAcls, CreateAcls and DeleteAcls 1 to 3 (keys 29 to 31): Kafka's numbers in place of our words.

A word that this cluster does not have, such as delegation tokens, is a filter that finds nothing, and an ACL that is
refused. Without an authorizer the node answers SECURITY_DISABLED, as Kafka does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, Final

from broker.kafka.api_row import RECORD_ELEMENTS_MAX, alone, serves
from broker.kafka.errors import code_of, message_of
from broker.kafka.plan import PAUSE, Ask, Asked, Plan, is_pause_due
from broker.kafka.schemas.security import (
    AclCreation,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from penstock.errors import ApiError
from penstock.messages.client_apis import NAMES_MAX
from penstock.messages.security import acls as ours
from penstock.messages.security.acl_apis import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from penstock.messages.security.acls import Operation, PatternType, Permission, ResourceType

_RESOURCES: Final = list(ResourceType)
_PATTERNS: Final = list(PatternType)
_OPERATIONS: Final = list(Operation)
_PERMISSIONS: Final = list(Permission)
"""Kafka's numbers are the places in these."""


def describe_acls(asked: Asked, body: DescribeAclsRequest) -> Plan:
    answer: ours.DescribeAclsResponse = yield Ask(DESCRIBE_ACLS.name, ours.DescribeAclsRequest(_filter(body)))
    numbers = count()
    found: dict[tuple[ResourceType, PatternType, str], list[AclDescription]] = {}
    for acl in answer.acls:
        if is_pause_due(next(numbers)):
            yield PAUSE
        found.setdefault((acl.resource_type, acl.pattern_type, acl.resource_name), []).append(
            AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=_OPERATIONS.index(acl.operation),
                permission_type=_PERMISSIONS.index(acl.permission),
            )
        )
    response = DescribeAclsResponse()
    for (kind, pattern, name), of_resource in found.items():
        if is_pause_due(next(numbers)):
            yield PAUSE
        response.resources.append(
            DescribeAclsResource(
                resource_type=_RESOURCES.index(kind),
                resource_name=name,
                pattern_type=_PATTERNS.index(pattern),
                acls=of_resource,
            )
        )
    return response


def create_acls(asked: Asked, body: CreateAclsRequest) -> Plan:
    results: list[AclCreationResult] = []
    for some in _portions(body.creations):
        request = ours.CreateAclsRequest(tuple(map(_binding, some)))
        try:
            answer: ours.CreateAclsResponse = yield Ask(CREATE_ACLS.name, request)
        except ApiError as error:
            results += [_created(asked, error)] * len(some)
            continue
        results += [_created(asked, one.error) for one in answer.results]
    return CreateAclsResponse(results=results)


def create_acls_failed(asked: Asked, body: CreateAclsRequest, error: ApiError) -> CreateAclsResponse:
    return CreateAclsResponse(results=[_created(asked, error)] * len(body.creations))


def delete_acls(asked: Asked, body: DeleteAclsRequest) -> Plan:
    results: list[DeleteAclsFilterResult] = []
    for some in _portions(body.filters):
        request = ours.DeleteAclsRequest(tuple(map(_filter, some)))
        try:
            answer: ours.DeleteAclsResponse = yield Ask(DELETE_ACLS.name, request)
        except ApiError as error:
            results += [_deleted(asked, ours.AclDeletion(error=error))] * len(some)
            continue
        results += [_deleted(asked, one) for one in answer.results]
    return DeleteAclsResponse(filter_results=results)


def delete_acls_failed(asked: Asked, body: DeleteAclsRequest, error: ApiError) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[_deleted(asked, ours.AclDeletion(error=error))] * len(body.filters))


def _portions(items: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (items[at : at + NAMES_MAX] for at in range(0, len(items), NAMES_MAX))


def _created(asked: Asked, error: ApiError | None) -> AclCreationResult:
    return AclCreationResult(
        error_code=code_of(error, CREATE_ACLS.name, asked.version), error_message=message_of(error)
    )


def _deleted(asked: Asked, one: ours.AclDeletion) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(
        error_code=code_of(one.error, DELETE_ACLS.name, asked.version),
        error_message=message_of(one.error),
        matching_acls=[
            DeleteAclsMatchingAcl(
                resource_type=_RESOURCES.index(acl.resource_type),
                resource_name=acl.resource_name,
                pattern_type=_PATTERNS.index(acl.pattern_type),
                principal=acl.principal,
                host=acl.host,
                operation=_OPERATIONS.index(acl.operation),
                permission_type=_PERMISSIONS.index(acl.permission),
            )
            for acl in one.acls
        ],
    )


def _word(words: list[Any], number: int) -> Any:
    """The first word of each list stands for one that is not known."""
    return words[number] if 0 <= number < len(words) else words[0]


def _binding(one: AclCreation) -> ours.AclBinding:
    return ours.AclBinding(
        _word(_RESOURCES, one.resource_type),
        one.resource_name,
        one.principal,
        _word(_OPERATIONS, one.operation),
        _word(_PERMISSIONS, one.permission_type),
        one.host,
        _word(_PATTERNS, one.resource_pattern_type),
    )


def _filter(one: Any) -> ours.AclFilter:
    """The filter of DescribeAcls or of DeleteAcls: they name their fields alike."""
    return ours.AclFilter(
        _word(_RESOURCES, one.resource_type_filter),
        one.resource_name_filter,
        _word(_PATTERNS, one.pattern_type_filter),
        one.principal_filter,
        one.host_filter,
        _word(_OPERATIONS, one.operation),
        _word(_PERMISSIONS, one.permission_type),
    )


SERVED: Final = (
    serves(DescribeAclsRequest, DescribeAclsResponse, (1, 3), alone(describe_acls), elements_max=RECORD_ELEMENTS_MAX),
    serves(
        CreateAclsRequest,
        CreateAclsResponse,
        (1, 3),
        alone(create_acls),
        failed=create_acls_failed,
        elements_max=RECORD_ELEMENTS_MAX,
    ),
    serves(
        DeleteAclsRequest,
        DeleteAclsResponse,
        (1, 3),
        alone(delete_acls),
        failed=delete_acls_failed,
        elements_max=RECORD_ELEMENTS_MAX,
    ),
)
