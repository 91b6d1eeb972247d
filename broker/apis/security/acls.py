"""DescribeAcls, from this node's own image; and all three APIs of ACLs on a node without an authorizer.

There they are refused, as in Kafka: ACLs that nobody heeds would let an administrator believe in them. Not here: the
changes, which the controller decides (apis/forwarding.py).
"""

from __future__ import annotations

from typing import Any, Final

from broker.apis.api_parts import ApiParts
from broker.apis.router import Handle
from broker.apis.served import Served
from broker.authorization.rules.ruling import of_cluster
from broker.network.request_channel import Request
from penstock.errors import SecurityDisabledError
from penstock.messages.security.acl_apis import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from penstock.messages.security.acls import (
    AclBinding,
    AclFilter,
    DescribeAclsRequest,
    DescribeAclsResponse,
    Operation,
)

NO_AUTHORIZER = (
    "No Authorizer is configured on the broker: set authorizer.class.name = StandardAuthorizer on every node"
)
"""Begins with Kafka's words, for which scripts may look. Kafka leaves out "on the broker" where ACLs are changed."""


def _describe(parts: ApiParts) -> Handle:
    image = parts.image

    def handle(request: Request, body: DescribeAclsRequest) -> None:
        now = image()
        wanted = body.filter or AclFilter()
        found = sorted(filter(wanted.finds, now.acls.values()), key=_place)
        request.complete(DescribeAclsResponse(tuple(found), now.offset))

    return handle if parts.has_authorizer else _refuse


def _refuse(request: Request, body: Any) -> None:
    raise SecurityDisabledError(NO_AUTHORIZER)


def _create(parts: ApiParts) -> Handle:
    return parts.forwarded.handler(CREATE_ACLS) if parts.has_authorizer else _refuse


def _delete(parts: ApiParts) -> Handle:
    return parts.forwarded.handler(DELETE_ACLS) if parts.has_authorizer else _refuse


def _place(acl: AclBinding) -> tuple[str, ...]:
    return (
        acl.resource_type.value,
        acl.pattern_type.value,
        acl.resource_name,
        acl.principal,
        acl.permission.value,
        acl.operation.value,
        acl.host,
    )


SERVED: Final = (
    Served(api=DESCRIBE_ACLS, rule=of_cluster(Operation.DESCRIBE), make=_describe),
    Served(api=CREATE_ACLS, rule=of_cluster(Operation.ALTER), make=_create),
    Served(api=DELETE_ACLS, rule=of_cluster(Operation.ALTER), make=_delete),
)
