"""The rights of each caller by the ACLs of this node's metadata, remembered until these change.

A right that was asked for before costs a look into a dict. What is remembered is bounded: clients choose the names that
they ask for. Pure but for the metadata, which it is given as a function. Not here: which ACLs outweigh which
(acl_index.py), what an API needs (rules/), and what a refusal looks like (judge.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from broker.authorization.acl_index import AclIndex
from penstock.addresses import as_connected
from penstock.lazy_dataclass import dataclass
from penstock.messages.security.acls import AclBinding, Operation, ResourceType

Right = tuple[Operation, ResourceType]


@dataclass(frozen=True, slots=True)
class RightsLimits:
    """The bounds of what is remembered. Whatever reaches one is forgotten, and learned again."""

    callers: int = 10_000
    """Callers whose rights are remembered: principals at hosts."""
    rights_of_caller: int = 10_000
    rights: int = 100_000
    """Rights of all callers together, some 30 MiB."""


class _Remembered:
    """Counts the rights that all callers together have asked for."""

    __slots__ = ("count", "limits")

    def __init__(self, limits: RightsLimits) -> None:
        self.limits = limits
        self.count = 0


class Rights:
    """The rights of one principal at one host, until the ACLs change."""

    __slots__ = ("_any", "_index", "_known", "_of_all", "_size", "host", "is_super", "principal", "version")

    def __init__(
        self,
        index: AclIndex,
        principal: str,
        host: str,
        remembered: _Remembered,
        *,
        is_super: bool,
        version: object = None,
    ) -> None:
        """`version` is another object once the ACLs have changed."""
        self.version = version
        self._index, self.principal, self.host, self.is_super = index, principal, host, is_super
        self._of_all = remembered
        self._known: dict[str, dict[Right, bool]] = {}
        self._any: dict[Right, bool] = {}
        self._size = 0

    def allows(self, operation: Operation, resource: ResourceType, name: str) -> bool:
        """The principal may do this to the resource."""
        if self.is_super:
            return True
        known = self._known.get(name)
        if known is None:
            if self._size >= self._of_all.limits.rights_of_caller:
                self._known.clear()
                self._size = 0
            known = self._known[name] = {}
        right = operation, resource
        found = known.get(right)
        if found is None:
            found = self._index.allows(self.principal, self.host, operation, resource, name)
            known[right] = found
            self._size += 1
            self._of_all.count += 1
        return found

    def denies(self, operation: Operation, resource: ResourceType, name: str) -> bool:
        """An ACL denies it to the principal. Not remembered: only refusals ask."""
        return not self.is_super and self._index.denies(self.principal, self.host, operation, resource, name)

    def allows_any(self, operation: Operation, resource: ResourceType) -> bool:
        """True if there is a resource of this type that the principal may do this to."""
        if self.is_super:
            return True
        right = operation, resource
        found = self._any.get(right)
        if found is None:
            found = self._any[right] = self._index.allows_any(self.principal, self.host, operation, resource)
        return found

    def __repr__(self) -> str:
        return f"Rights(of {self.principal} at {self.host}, {self._size} known)"


class Authorizer:
    """Judges callers by the newest ACLs: each look-up first takes in what differs from those it knew."""

    def __init__(
        self,
        acls: Callable[[], Mapping[str, AclBinding]],
        super_users: Collection[str] = (),
        *,
        allows_without_acls: bool = False,
        limits: RightsLimits = RightsLimits(),
    ) -> None:
        """`acls` gives the ACLs of the newest metadata by their ids: the same object as long as they are the same."""
        self._acls, self._super_users = acls, frozenset(super_users)
        self._index = AclIndex(allows_without_acls=allows_without_acls)
        self._seen: Mapping[str, AclBinding] = {}
        self._rights: dict[tuple[str, str], Rights] = {}
        self._limits = limits
        self._remembered = _Remembered(limits)

    def rights_of(self, principal: str, host: str) -> Rights:
        acls = self._acls()
        if acls is not self._seen:
            self._take(acls)
        elif self._remembered.count >= self._limits.rights:
            self._forget()
        key = principal, host
        found = self._rights.get(key)
        if found is None:
            if len(self._rights) >= self._limits.callers:
                self._forget()
            is_super = principal in self._super_users
            found = self._rights[key] = Rights(
                self._index, principal, as_connected(host), self._remembered, is_super=is_super, version=acls
            )
        return found

    def newest(self, rights: Rights) -> Rights:
        """The rights of the same caller by the ACLs as they are now."""
        return rights if rights.version is self._acls() else self.rights_of(rights.principal, rights.host)

    def _take(self, acls: Mapping[str, AclBinding]) -> None:
        """An ACL never changes under its id, so the ids tell what is new and what is gone."""
        before = self._seen
        for acl_id in before.keys() - acls.keys():
            self._index.remove(acl_id, before[acl_id])
        for acl_id in acls.keys() - before.keys():
            self._index.add(acl_id, acls[acl_id])
        self._seen = acls
        self._forget()

    def _forget(self) -> None:
        """Requests under way keep what they hold."""
        self._rights.clear()
        self._remembered = _Remembered(self._limits)

    def __repr__(self) -> str:
        return f"Authorizer({self._index!r}, {len(self._rights)} callers known)"
