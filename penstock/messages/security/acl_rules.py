"""Rules for an ACL that may be made: the controller refuses any other, and a client judges by them beforehand.

Not here: the words themselves (acls.py), and how many ACLs a cluster keeps (`metadata/controller/acls.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.addresses import check_address
from penstock.errors import InvalidRequestError
from penstock.messages.security.acls import (
    CLUSTER_NAME,
    USER_TYPE,
    WILDCARD,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

ACLS_MAX: Final = 20_000
"""The ACLs that a cluster keeps: they are in every node's memory, and are described in one answer, which takes 60 ms of
a broker's loop."""
TEXT_MAX: Final = 1_024
"""Characters of a name or a principal: distinguished names are long, and every node keeps every ACL in memory."""
_OF_ALL: Final = frozenset({Operation.ALL})
OPERATIONS: Final[Mapping[ResourceType, frozenset[Operation]]] = {
    ResourceType.TOPIC: _OF_ALL
    | {
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    },
    ResourceType.GROUP: _OF_ALL
    | {
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    },
    ResourceType.CLUSTER: _OF_ALL
    | {
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    },
    ResourceType.TRANSACTIONAL_ID: _OF_ALL | {Operation.WRITE, Operation.DESCRIBE},
}
"""The operations that each type of resource has, as Kafka's tools list them."""


def check_acl(acl: AclBinding) -> None:
    """InvalidRequestError for one that would never count, or whose words are a filter's."""
    if acl.resource_type not in OPERATIONS:
        kinds = ", ".join(kind.value for kind in OPERATIONS)
        raise InvalidRequestError(f"an ACL cannot be of resource type {acl.resource_type.value!r}; give one of {kinds}")
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise InvalidRequestError(f"an ACL's pattern is literal or prefixed, not {acl.pattern_type.value!r}")
    if acl.permission not in (Permission.ALLOW, Permission.DENY):
        raise InvalidRequestError(f"an ACL allows or denies; {acl.permission.value!r} is neither")
    if acl.operation not in OPERATIONS[acl.resource_type]:
        known = ", ".join(sorted(one.value for one in OPERATIONS[acl.resource_type]))
        raise InvalidRequestError(
            f"there is no operation {acl.operation.value} on a {acl.resource_type.value}; give one of {known}"
        )
    _check_name(acl)
    kind, _, name = acl.principal.partition(":")
    if kind != USER_TYPE or not name:
        raise InvalidRequestError(f"{acl.principal[:64]!r} is no principal: give {USER_TYPE}:NAME, or {USER_TYPE}:*")
    if len(acl.principal) > TEXT_MAX:
        raise InvalidRequestError(f"a principal has at most {TEXT_MAX} characters, not {len(acl.principal)}")
    _check_host(acl.host)


def _check_name(acl: AclBinding) -> None:
    if not acl.resource_name:
        raise InvalidRequestError(f"an ACL names its {acl.resource_type.value}; {WILDCARD} is every one")
    if len(acl.resource_name) > TEXT_MAX:
        raise InvalidRequestError(f"a resource's name has at most {TEXT_MAX} characters, not {len(acl.resource_name)}")
    if acl.resource_type is ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise InvalidRequestError(f"the only name of the cluster is {CLUSTER_NAME!r}, not {acl.resource_name[:64]!r}")


def _check_host(host: str) -> None:
    if host != WILDCARD:
        check_address(host, f"an ACL counts for one IP address, or for {WILDCARD}, every host")
