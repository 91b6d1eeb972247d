"""Access control lists: the words of Kafka's model (KIP-11, KIP-290), and CreateAcls, DeleteAcls and DescribeAcls.

An ACL allows or denies a principal, from a host, one operation on a resource, or on all whose names begin with a
prefix. A broker forwards changes to the active controller; every node answers questions by its own metadata. Not here:
what follows from many of them (`broker/authorization/`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from penstock.addresses import as_connected
from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.types import NO_OFFSET

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of the type CLUSTER, in Kafka's words."""
WILDCARD: Final = "*"
"""A literal name that stands for every resource of its type, or a host that stands for every host."""
USER_TYPE: Final = "User"
EVERY_USER: Final = f"{USER_TYPE}:{WILDCARD}"
ANONYMOUS_USER: Final = "ANONYMOUS"
"""The name of every caller that has not authenticated, in Kafka's words; no other user may have it."""


class Operation(StrEnum):
    """An operation that a principal may do, or not, in Kafka's words (KIP-11). ANY is a filter's; ALL is every one."""

    __hash__ = str.__hash__  # an enum's own is Python: every check of a right looks into dicts by these

    UNKNOWN = "Unknown"
    """An operation that only a newer peer knows."""
    ANY = "Any"
    ALL = "All"
    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DELETE = "Delete"
    ALTER = "Alter"
    DESCRIBE = "Describe"
    CLUSTER_ACTION = "ClusterAction"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    ALTER_CONFIGS = "AlterConfigs"
    IDEMPOTENT_WRITE = "IdempotentWrite"


class ResourceType(StrEnum):
    """The kind of thing that an operation is done to. ANY is a filter's."""

    __hash__ = str.__hash__

    UNKNOWN = "unknown"
    ANY = "any"
    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional id"


class PatternType(StrEnum):
    """How an ACL names resources. ANY and MATCH are a filter's: MATCH finds every ACL that concerns the name."""

    UNKNOWN = "unknown"
    ANY = "any"
    MATCH = "match"
    LITERAL = "literal"
    PREFIXED = "prefixed"


class Permission(StrEnum):
    """ANY is a filter's."""

    UNKNOWN = "unknown"
    ANY = "any"
    DENY = "deny"
    ALLOW = "allow"


class Need(NamedTuple):
    """One right that a request needs."""

    operation: Operation
    resource_type: ResourceType
    name: str

    def __str__(self) -> str:
        if self.resource_type is ResourceType.CLUSTER:
            return f"{self.operation.value} on the cluster"
        return f"{self.operation.value} on {self.resource_type.value} {self.name!r}"


_IN_KAFKAS_ORDER: Final = ("principal", "operation", "permission", "host", "pattern_type")
"""The fields that the last five of seven values in Kafka's order fill."""


@dataclass(frozen=True, slots=True)
class AclBinding:
    """One ACL. `principal` is `User:NAME`, or `User:*` for everybody; `host` is an address, or `*` for every one.

    The resource of the type CLUSTER has the name `CLUSTER_NAME`. TypeError for a word of another kind in a place. Seven
    values in the order of Kafka's two classes are taken as well, which programs for release 0.1 have: type, name,
    pattern, principal, host, operation, permission.
    """

    resource_type: ResourceType
    resource_name: str
    principal: str
    operation: Operation
    permission: Permission = Permission.ALLOW
    host: str = WILDCARD
    pattern_type: PatternType = PatternType.LITERAL

    def __post_init__(self) -> None:
        given = [getattr(self, name) for name in _IN_KAFKAS_ORDER]
        if isinstance(given[0], PatternType) and isinstance(given[-1], Permission):
            for name, value in zip(
                ("pattern_type", "principal", "host", "operation", "permission"), given, strict=True
            ):
                object.__setattr__(self, name, value)
        for name, kind in _KINDS.items():
            if not isinstance(value := getattr(self, name), kind):
                article = "an" if kind.__name__[0] in "AO" else "a"
                raise TypeError(f"{name} must be {article} {kind.__name__}, not {value!r}")

    @property
    def counted_host(self) -> str:
        """The host in the form that connections have. An ACL that a controller of an older release has taken may be
        written otherwise, and counts all the same. An ALLOW of an address in one zone only (fe80::1%eth0) does not
        count: connections have no zone, and in another zone the address belongs to another machine."""
        if "%" in self.host and self.permission is not Permission.DENY:
            return self.host
        return as_connected(self.host)

    def __str__(self) -> str:
        prefix = "every " if self.resource_name == WILDCARD and self.pattern_type is PatternType.LITERAL else ""
        name = "" if prefix else f" {self.resource_name!r}"
        pattern = " prefix" if self.pattern_type is PatternType.PREFIXED else ""
        where = "every host" if self.host == WILDCARD else self.host
        return (
            f"{self.permission.value} {self.principal} from {where}: {self.operation.value} on"
            f" {prefix}{self.resource_type.value}{pattern}{name}"
        )


_KINDS: Final[Mapping[str, type]] = {
    "resource_type": ResourceType,
    "resource_name": str,
    "principal": str,
    "operation": Operation,
    "permission": Permission,
    "host": str,
    "pattern_type": PatternType,
}


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Finds ACLs; a field that is None or ANY lets all through."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    @property
    def exact(self) -> AclBinding | None:
        """The one ACL that it can find, if every field says what it must be."""
        name, principal, host = self.resource_name, self.principal, self.host
        if name is None or principal is None or host is None or self.pattern_type is PatternType.MATCH:
            return None
        if any(word.name == "ANY" for word in (self.resource_type, self.pattern_type, self.operation, self.permission)):
            return None
        return AclBinding(self.resource_type, name, principal, self.operation, self.permission, host, self.pattern_type)

    def finds(self, acl: AclBinding) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._finds_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _finds_name(self, acl: AclBinding) -> bool:
        name, pattern = self.resource_name, acl.pattern_type
        if self.pattern_type is PatternType.MATCH:
            if name is None or acl.resource_name == name:
                return True
            if pattern is PatternType.LITERAL:
                return acl.resource_name == WILDCARD
            return name.startswith(acl.resource_name)
        return self.pattern_type in (PatternType.ANY, pattern) and name in (None, acl.resource_name)


@dataclass(frozen=True, slots=True)
class CreateAclsRequest:
    """Each ACL is made or refused by itself; one that there is already is made, too."""

    acls: tuple[AclBinding, ...] = ()
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class AclCreation:
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class CreateAclsResponse:
    """The results, in the order of the request."""

    results: tuple[AclCreation, ...] = ()
    metadata_offset: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class DeleteAclsRequest:
    """All ACLs that one of the filters finds go."""

    filters: tuple[AclFilter, ...] = ()
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class AclDeletion:
    """The ACLs that one filter found, and no earlier one of the request."""

    acls: tuple[AclBinding, ...] = ()
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class DeleteAclsResponse:
    """The results, in the order of the request."""

    results: tuple[AclDeletion, ...] = ()
    metadata_offset: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class DescribeAclsRequest:
    """Asks for the ACLs that match; without a filter, for all."""

    filter: AclFilter | None = None


@dataclass(frozen=True, slots=True)
class DescribeAclsResponse:
    """The ACLs by the answering node's metadata, in an order that depends on nothing else."""

    acls: tuple[AclBinding, ...] = ()
    metadata_offset: int = NO_OFFSET
