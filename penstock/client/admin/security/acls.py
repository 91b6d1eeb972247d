"""ACLs as a user of Admin gives them, and the judgement over one question, with the ACL that decides it.

Brokers judge by an index of their own (`broker/authorization/acl_index.py`); a test holds both against each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from penstock.addresses import as_connected
from penstock.lazy_dataclass import dataclass
from penstock.messages.security.acls import (
    EVERY_USER,
    WILDCARD,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

T = TypeVar("T")
IMPLIED_BY: Final[Mapping[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
_NONE: Final[frozenset[Operation]] = frozenset()


@dataclass(frozen=True, slots=True)
class AclJudgement:
    """The answer of a broker with the authorizer, and the ACL because of which. None: no ACL decides."""

    is_allowed: bool
    because_of: AclBinding | None = None
    is_without_acls: bool = False
    """The resource has no ACL at all, for any principal."""


def judge_right(
    acls: Iterable[AclBinding],
    principal: str,
    operation: Operation,
    resource: ResourceType,
    name: str,
    host: str = WILDCARD,
    *,
    allows_without_acls: bool = False,
) -> AclJudgement:
    """May the principal do this? A host of `*` is one that no ACL names."""
    of_resource = [acl for acl in acls if acl.resource_type is resource and _concerns(acl, name)]
    hosts, principals = (WILDCARD, as_connected(host)), (principal, EVERY_USER)
    mine = [acl for acl in of_resource if acl.principal in principals and acl.counted_host in hosts]
    for acl in mine:
        if acl.permission is Permission.DENY and acl.operation in (operation, Operation.ALL):
            return AclJudgement(False, acl)
    allowing = {operation, Operation.ALL} | IMPLIED_BY.get(operation, _NONE)
    for acl in mine:
        if acl.permission is Permission.ALLOW and acl.operation in allowing:
            return AclJudgement(True, acl)
    return AclJudgement(allows_without_acls and not of_resource, None, not of_resource)


def _concerns(acl: AclBinding, name: str) -> bool:
    if acl.pattern_type is PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, WILDCARD)


def checked_acls(given: Sequence[AclBinding]) -> tuple[AclBinding, ...]:
    """The ACLs that a user gave, each once. TypeError if they are not a list of AclBinding, ValueError if it is
    empty."""
    return _checked(given, AclBinding, "acls")


def checked_filters(given: Sequence[AclFilter]) -> tuple[AclFilter, ...]:
    """The filters that a user gave, each once. TypeError if they are not a list of AclFilter, ValueError if it is
    empty."""
    return _checked(given, AclFilter, "filters")


def _checked(given: Sequence[T], kind: type[T], what: str) -> tuple[T, ...]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise TypeError(f"{what} must be a list of {kind.__name__}, not {type(given).__name__}")
    for one in given:
        if not isinstance(one, kind):
            raise TypeError(f"{what} must be a list of {kind.__name__}, not of {type(one).__name__}")
    if not given:
        raise ValueError(f"{what} is empty: name one")
    return tuple(dict.fromkeys(given))
