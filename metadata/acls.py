"""ACLs as the metadata has them: between a binding and its record.

A word that this node does not know stops it: an ACL that it left out might be one that denies. Not here: which ACLs may
be made (`penstock/messages/security/acl_rules.py`), what follows from many of them (`broker/authorization/`), and the
decisions to make and remove them (`controller/acls.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

from metadata.records import AccessControlEntryRecord
from penstock.errors import InvariantViolation
from penstock.messages.security.acls import (
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)


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
