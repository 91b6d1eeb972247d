"""DescribeAcls, from this node's own image; and all three APIs of ACLs on a node without an authorizer.

There they are refused, as in Kafka: ACLs that nobody heeds would let an administrator believe in them. Not here: the
changes, which the controller decides (apis/forwarding.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.apis.router import Handle
from broker.network.request_channel import Request
from metadata.image import MetadataImage
from penstock.errors import SecurityDisabledError
from penstock.messages.security.acl_apis import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from penstock.messages.security.acls import AclBinding, AclFilter, DescribeAclsRequest, DescribeAclsResponse

NO_AUTHORIZER = (
    "No Authorizer is configured on the broker: set authorizer.class.name = StandardAuthorizer on every node"
)
"""Begins with Kafka's words, for which scripts may look. Kafka leaves out "on the broker" where ACLs are changed."""


def acl_handlers(image: Callable[[], MetadataImage], *, is_enabled: bool) -> dict[str, Handle]:
    """The handlers by name; with an authorizer the changes have the handlers of every forwarded request."""

    def describe(request: Request, body: DescribeAclsRequest) -> None:
        now = image()
        wanted = body.filter or AclFilter()
        found = sorted(filter(wanted.finds, now.acls.values()), key=_place)
        request.complete(DescribeAclsResponse(tuple(found), now.offset))

    def refuse(request: Request, body: Any) -> None:
        raise SecurityDisabledError(NO_AUTHORIZER)

    if is_enabled:
        return {DESCRIBE_ACLS.name: describe}
    return dict.fromkeys((CREATE_ACLS.name, DELETE_ACLS.name, DESCRIBE_ACLS.name), refuse)


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
