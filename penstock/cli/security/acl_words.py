"""Reads the words of `penstock acls`: the resources, operations and roles that a command names become ACLs. Pure.

A word that is not known raises ConfigError with the words that are. Not here: the commands and their options (acls.py),
and the rights of a role (penstock/client/admin/security/roles.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from penstock.config_keys import did_you_mean
from penstock.errors import ConfigError
from penstock.messages.security.acls import CLUSTER_NAME, AclBinding, Operation, PatternType, Permission, ResourceType

if TYPE_CHECKING:
    from penstock.client.admin.security.roles import Role

OPERATIONS: Final = {one.value.lower(): one for one in Operation if one not in (Operation.UNKNOWN, Operation.ANY)}
SEVERAL_ROLES: Final[Mapping[str, str]] = {
    "process": "a worker of penstock.process has two, in two commands: --role consumer for what it reads, and --role"
    " producer for what it writes, its dead letters as well",
    "spark": "a job of Spark has one for what it reads, spark-source, and one for what it writes, spark-sink",
}
"""Names that are asked for and stand for no single role: what such a program reads and writes is not the same."""


class NamedResources:
    """The resources that a command names."""

    def __init__(
        self,
        topics: Sequence[str] | None,
        groups: Sequence[str] | None,
        transactional_ids: Sequence[str] | None,
        cluster: bool,
        prefixed: bool,
    ) -> None:
        self._names = {
            ResourceType.TOPIC: topics or (),
            ResourceType.GROUP: groups or (),
            ResourceType.TRANSACTIONAL_ID: transactional_ids or (),
        }
        self._cluster, self._prefixed = cluster, prefixed

    def resources(self) -> list[tuple[ResourceType, str]]:
        found = [(kind, name) for kind, names in self._names.items() for name in names]
        return [*found, (ResourceType.CLUSTER, CLUSTER_NAME)] if self._cluster else found

    def acls(
        self, principal: str, host: str, deny: bool, operations: Sequence[Operation], roles: Sequence[Role]
    ) -> list[AclBinding]:
        """One for each pair of an operation and a resource, and those of the roles."""
        from penstock.client.admin.security.roles import role_acls

        resources = self.resources()
        if not resources and not roles:
            raise ConfigError("name a resource: --topic, --group, --transactional-id or --cluster")
        if not operations and not roles:
            raise ConfigError("name an operation, as -o read, or a role, as --producer (`penstock acls roles`)")
        if not operations:
            self._check_taken(roles)
        permission = Permission.DENY if deny else Permission.ALLOW
        pattern = PatternType.PREFIXED if self._prefixed else PatternType.LITERAL
        made = [
            AclBinding(
                kind,
                name,
                principal,
                operation,
                permission,
                host,
                PatternType.LITERAL if kind is ResourceType.CLUSTER else pattern,
            )
            for kind, name in resources
            for operation in operations
        ]
        for role in roles:
            made += role_acls(role, principal, self._names, pattern=pattern, host=host, permission=permission)
        return list(dict.fromkeys(made))

    def _check_taken(self, roles: Sequence[Role]) -> None:
        """ConfigError if a resource is named that no role is about."""
        kinds = {right.resource_type for role in roles for right in role.rights}
        for kind, _ in self.resources():
            if kind not in kinds:
                option = f"--{kind.value.replace(' ', '-')}"
                named = ", ".join(role.name for role in roles)
                raise ConfigError(f"{option}: {named} needs nothing of that kind; leave it out, or name an operation")


def roles_of(names: Sequence[str] | None, producer: bool, consumer: bool) -> list[Role]:
    """The roles of a command, each once."""
    from penstock.client.admin.security.roles import ROLES

    wanted = [*(["producer"] if producer else []), *(["consumer"] if consumer else []), *(names or ())]
    for name in wanted:
        if name not in ROLES:
            hint = f"; {SEVERAL_ROLES[name]}" if name in SEVERAL_ROLES else did_you_mean(name, ROLES)
            raise ConfigError(f"--role {name}: must be one of {', '.join(ROLES)}{hint}")
    return [ROLES[name] for name in dict.fromkeys(wanted)]


def operations_of(names: Sequence[str] | None) -> tuple[Operation, ...]:
    found = []
    for name in names or ():
        word = name.replace("-", "").replace("_", "").lower()
        if word not in OPERATIONS:
            known = ", ".join(one.value for one in OPERATIONS.values())
            near = did_you_mean(word, OPERATIONS)
            raise ConfigError(f"--operation {name}: must be one of {known}{near}")
        found.append(OPERATIONS[word])
    return tuple(dict.fromkeys(found))
