"""All ACLs, found by principal and resource, and the judgement over those that concern one question. Pure.

As Kafka judges (StandardAuthorizer): one ACL that denies outweighs all that allow; an ACL that allows READ, WRITE,
DELETE or ALTER allows DESCRIBE, too, and one of ALTER_CONFIGS allows DESCRIBE_CONFIGS. A denial implies nothing.
Without any ACL of the resource, for whichever principal, the answer is `allow.everyone.if.no.acl.found`. Hosts are
compared in the form that connections have.

A question costs a look-up for each length that prefixes of the principal have, not one for each ACL. Not here: super
users, and remembered answers (authorizer.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from penstock.messages.security.acls import (
    EVERY_USER,
    WILDCARD,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

IMPLIED_BY: Final[Mapping[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""The operations of which each one allows this one, too."""
_NONE: Final[frozenset[Operation]] = frozenset()
Acls = Mapping[str, AclBinding]
"""ACLs by their ids."""
_NO_ACLS: Final[Acls] = {}


class _Table:
    """ACLs of one principal, or of all, on resources of one type."""

    __slots__ = ("count", "lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, dict[str, AclBinding]] = {}
        self.prefixed: dict[str, dict[str, AclBinding]] = {}
        self.lengths: Counter[int] = Counter()
        """How many prefixes have each length."""
        self.count = 0

    def add(self, acl_id: str, acl: AclBinding) -> None:
        names = self._names(acl)
        known = names.get(acl.resource_name)
        if known is None:
            known = names[acl.resource_name] = {}
            if names is self.prefixed:
                self.lengths[len(acl.resource_name)] += 1
        host = acl.counted_host
        known[acl_id] = acl if host == acl.host else replace(acl, host=host)
        self.count += 1

    def remove(self, acl_id: str, acl: AclBinding) -> None:
        names = self._names(acl)
        known = names[acl.resource_name]
        del known[acl_id]
        self.count -= 1
        if known:
            return
        del names[acl.resource_name]
        if names is self.prefixed:
            length = len(acl.resource_name)
            self.lengths[length] -= 1
            if not self.lengths[length]:
                del self.lengths[length]

    def of(self, name: str) -> Iterator[Acls]:
        """The ACLs that concern the resource."""
        yield self.literal.get(name, _NO_ACLS)
        if name != WILDCARD:
            yield self.literal.get(WILDCARD, _NO_ACLS)
        for length in self.lengths:
            if length <= len(name):
                yield self.prefixed.get(name[:length], _NO_ACLS)

    def all(self) -> Iterator[AclBinding]:
        for names in (self.literal, self.prefixed):
            for acls in names.values():
                yield from acls.values()

    def _names(self, acl: AclBinding) -> dict[str, dict[str, AclBinding]]:
        return self.prefixed if acl.pattern_type is PatternType.PREFIXED else self.literal


class AclIndex:
    """Changed in place, an ACL at a time."""

    def __init__(self, *, allows_without_acls: bool = False) -> None:
        self._allows_without_acls = allows_without_acls
        self._of_principals: dict[tuple[str, ResourceType], _Table] = {}
        self._of_all: dict[ResourceType, _Table] = {}

    def add(self, acl_id: str, acl: AclBinding) -> None:
        """Adds an ACL under an id that no other one has."""
        for tables, key in self._places(acl):
            table = tables.get(key)
            if table is None:
                table = tables[key] = _Table()
            table.add(acl_id, acl)

    def remove(self, acl_id: str, acl: AclBinding) -> None:
        """Removes an ACL that was added under this id."""
        for tables, key in self._places(acl):
            table = tables[key]
            table.remove(acl_id, acl)
            if not table.count:
                del tables[key]

    def _places(self, acl: AclBinding) -> tuple[tuple[dict[Any, _Table], Any], tuple[dict[Any, _Table], Any]]:
        return (self._of_principals, (acl.principal, acl.resource_type)), (self._of_all, acl.resource_type)

    def allows(self, principal: str, host: str, operation: Operation, resource: ResourceType, name: str) -> bool:
        implied_by = IMPLIED_BY.get(operation, _NONE)
        is_allowed = False
        for table in self._tables(principal, resource):
            for acls in table.of(name):
                for acl in acls.values():
                    if acl.host not in (WILDCARD, host):
                        continue
                    is_same = acl.operation is operation or acl.operation is Operation.ALL
                    if acl.permission is Permission.DENY:
                        if is_same:
                            return False
                    elif is_same or acl.operation in implied_by:
                        is_allowed = True
        return is_allowed or (self._allows_without_acls and not self._has_acls(resource, name))

    def denies(self, principal: str, host: str, operation: Operation, resource: ResourceType, name: str) -> bool:
        """An ACL denies it, so that no other one can allow it."""
        return any(
            acl.permission is Permission.DENY
            and acl.host in (WILDCARD, host)
            and acl.operation in (operation, Operation.ALL)
            for table in self._tables(principal, resource)
            for acls in table.of(name)
            for acl in acls.values()
        )

    def allows_any(self, principal: str, host: str, operation: Operation, resource: ResourceType) -> bool:
        """True if there is a name that the principal may do this to (KIP-679). As in Kafka, implied operations do not
        count."""
        allowed: list[AclBinding] = []
        denied: set[tuple[PatternType, str]] = set()
        for table in self._tables(principal, resource):
            for acl in table.all():
                if acl.host not in (WILDCARD, host) or acl.operation not in (operation, Operation.ALL):
                    continue
                if acl.permission is Permission.DENY:
                    denied.add((acl.pattern_type, acl.resource_name))
                else:
                    allowed.append(acl)
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        if self._allows_without_acls:
            return True
        return any(not _is_outweighed(acl, denied) for acl in allowed)

    def _tables(self, principal: str, resource: ResourceType) -> Iterator[_Table]:
        for one in (principal, EVERY_USER):
            table = self._of_principals.get((one, resource))
            if table is not None:
                yield table

    def _has_acls(self, resource: ResourceType, name: str) -> bool:
        table = self._of_all.get(resource)
        return table is not None and any(table.of(name))

    def __repr__(self) -> str:
        return f"AclIndex({sum(table.count for table in self._of_all.values())} ACLs)"


def _is_outweighed(acl: AclBinding, denied: set[tuple[PatternType, str]]) -> bool:
    """Every name that the ACL allows is denied by another one."""
    name = acl.resource_name
    if acl.pattern_type is PatternType.LITERAL:
        if name == WILDCARD:
            return False
        if (PatternType.LITERAL, name) in denied:
            return True
    return any((PatternType.PREFIXED, name[:end]) in denied for end in range(1, len(name) + 1))
