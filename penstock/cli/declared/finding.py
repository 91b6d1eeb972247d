"""Finds what a cluster has of each kind that a file can declare. What the caller may not see, or does not answer, is
noted with the reason, and nothing is concluded from it.

Not here: what a file declares (penstock/declared/).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any

from penstock.declared.reading import EVERYBODY, RESOURCES
from penstock.declared.state import DeclaredKind, DeclaredState, DeclaredTopic, DeclaredUser
from penstock.errors import AuthorizationFailedError, PenstockError, SecurityDisabledError
from penstock.messages.security.acls import AclBinding, Operation, ResourceType
from penstock.topic_names import INTERNAL_NAMES

if TYPE_CHECKING:
    from penstock.client.admin.admin import Admin
    from penstock.messages.configs import ConfigEntry

_NOT_SEEN = (AuthorizationFailedError, SecurityDisabledError)
_KNOWN_RESOURCES = frozenset((*RESOURCES.values(), ResourceType.CLUSTER))


def find_state(admin: Admin, kinds: Set[DeclaredKind]) -> DeclaredState:
    """The state of these kinds; the others are empty."""
    looks = {
        DeclaredKind.TOPICS: _topics,
        DeclaredKind.CONFIGS: _configs,
        DeclaredKind.USERS: _users,
        DeclaredKind.ACLS: _acls,
        DeclaredKind.QUOTAS: _quotas,
    }
    found: dict[str, Any] = {}
    unseen: dict[DeclaredKind, str] = {}
    for kind in sorted(kinds):
        try:
            found |= looks[kind](admin)
        except _NOT_SEEN as error:
            unseen[kind] = str(error)
    return DeclaredState(**found, unseen=unseen)


def _topics(admin: Admin) -> dict[str, Any]:
    topics = {
        topic.name: DeclaredTopic(topic.name, topic.partition_count, _factor(topic.partitions), dict(topic.config))
        for topic in admin.describe_topics()
        if topic.name not in INTERNAL_NAMES
    }
    return {"topics": topics}


def _factor(partitions: Any) -> int:
    """The replicas of a partition; while it moves, those that it will have."""
    return len([one for one in partitions[0].replicas if one not in partitions[0].removing_replicas])


def _configs(admin: Admin) -> dict[str, Any]:
    """A broker tells its own configuration, so one that is away does not."""
    for_all = _set(admin.describe_broker_config(None), "DYNAMIC_DEFAULT_BROKER_CONFIG")
    configs: dict[int | None, Mapping[str, str]] = {None: for_all} if for_all else {}
    unseen: dict[int, str] = {}
    for broker in admin.describe_cluster().brokers:
        if broker.fenced:
            unseen[broker.node_id] = "the broker is away"
            continue
        try:
            own = _set(admin.describe_broker_config(broker.node_id), "DYNAMIC_BROKER_CONFIG")
        except _NOT_SEEN:
            raise
        except PenstockError as error:
            unseen[broker.node_id] = str(error)
            continue
        if own:
            configs[broker.node_id] = own
    return {"configs": configs, "unseen_brokers": unseen}


def _set(entries: Mapping[str, ConfigEntry], source: str) -> dict[str, str]:
    return {name: entry.value for name, entry in entries.items() if entry.source == source}


def _users(admin: Admin) -> dict[str, Any]:
    found = admin.describe_user_scram_credentials()
    return {"users": {name: DeclaredUser(name, tuple(sorted(one.mechanisms))) for name, one in found.items()}}


def _acls(admin: Admin) -> dict[str, Any]:
    """ACLs with a word that only a newer release knows are left alone."""
    return {"acls": frozenset(filter(_is_known, admin.describe_acls()))}


def _is_known(acl: AclBinding) -> bool:
    return acl.resource_type in _KNOWN_RESOURCES and acl.operation is not Operation.UNKNOWN


def _quotas(admin: Admin) -> dict[str, Any]:
    """A file cannot name a user or a client whose name is `*`: there it is everybody. Such a quota is left alone."""
    found = admin.describe_client_quotas()
    return {"quotas": {entity: values for entity, values in found.items() if EVERYBODY not in entity}}
