"""ACLs as the metadata has them: between a binding and its record, and which bindings may be made at all.

A word that this node does not know stops it: an ACL that it left out might be one that denies. Not here: what follows
from many of them (`broker/authorization/`), and the decisions to make and remove them (`controller/acls.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from metadata.addresses import check_address
from metadata.records import AccessControlEntryRecord
from penstock.errors import InvalidRequestError, InvariantViolation
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


class AclTable:
    """The ACLs of an image, and changes on top of it: they are copied with the first one."""

    def __init__(self, of_image: Mapping[str, AclBinding]) -> None:
        self._of_image = of_image
        self.by_id = of_image
        """The ACLs by id. No other part writes to this."""
        self._own: dict[str, AclBinding] | None = None
        self._ids: dict[AclBinding, str] | None = None

    @property
    def has_changed(self) -> bool:
        return self.by_id is not self._of_image

    @property
    def ids(self) -> Mapping[AclBinding, str]:
        """The id of each ACL; only the controller asks."""
        if self._ids is None:
            self._ids = {acl: acl_id for acl_id, acl in self.by_id.items()}
        return self._ids

    def put(self, acl_id: str, acl: AclBinding) -> None:
        self._editable()[acl_id] = acl
        if self._ids is not None:
            self._ids[acl] = acl_id

    def drop(self, acl_id: str) -> None:
        gone = self._editable().pop(acl_id)
        if self._ids is not None:
            self._ids.pop(gone, None)

    def replace(self, by_id: Mapping[str, AclBinding]) -> None:
        """Replaces all ACLs by these."""
        if by_id != self.by_id:
            self.by_id, self._own, self._ids = by_id, None, None

    def _editable(self) -> dict[str, AclBinding]:
        if self._own is None:
            self.by_id = self._own = dict(self.by_id)
        return self._own

    def __repr__(self) -> str:
        return f"AclTable({len(self.by_id)} ACLs)"


def record_of(acl_id: str, acl: AclBinding) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        acl_id,
        acl.resource_type.name,
        acl.resource_name,
        acl.pattern_type.name,
        acl.principal,
        acl.host,
        acl.operation.name,
        acl.permission.name,
    )


def acl_of(record: AccessControlEntryRecord) -> AclBinding:
    """InvariantViolation for a word that this node does not know."""
    try:
        return AclBinding(
            ResourceType[record.resource_type],
            record.resource_name,
            record.principal,
            Operation[record.operation],
            Permission[record.permission_type],
            record.host,
            PatternType[record.pattern_type],
        )
    except KeyError as error:
        raise InvariantViolation(f"{record}: {error} is not known; this node is older than the cluster") from None


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
