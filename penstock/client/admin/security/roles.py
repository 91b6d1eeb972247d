"""The rights that a program needs for what it does, by roles: a table, and the ACLs that follow from it.

    role_acls(ROLES["spark-sink"], "User:lake", {ResourceType.TOPIC: ["orders"]})

A role has no more rights than its tools ask for, so each of them is needed by one tool at least (tests/rights takes
every one away). `producer` and `consumer` are those of Kafka's `kafka-acls.sh`, with rights that others imply. Not
here: authorization itself; brokers judge by the ACLs alone, and know no roles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.messages.security.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from penstock.messages.transactions.atomic_batches import BATCH_PREFIX

_TOPIC, _GROUP, _CLUSTER, _ID = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)


@dataclass(frozen=True, slots=True)
class RoleRight:
    """One operation on the resources that a command names, or on `every` if it names none of the kind."""

    operation: Operation
    resource_type: ResourceType
    use: str
    """The calls that it is needed for."""
    every: str = ""
    """A prefix, or WILDCARD."""
    is_implied: bool = False
    """True if another right of the role implies it."""


@dataclass(frozen=True, slots=True)
class Role:
    """A kind of program, and the rights that it needs."""

    name: str
    summary: str
    rights: tuple[RoleRight, ...]


ROLES: Final[Mapping[str, Role]] = {
    role.name: role
    for role in (
        Role(
            "producer",
            "writes records, idempotent or not, and with a transactional id in transactions",
            (
                RoleRight(Operation.WRITE, _TOPIC, "its records, and a producer id (KIP-679)"),
                RoleRight(Operation.DESCRIBE, _TOPIC, "partitions and leaders", is_implied=True),
                RoleRight(
                    Operation.CREATE, _TOPIC, "a topic that its first record makes (`auto.create.topics.enable`)"
                ),
                RoleRight(Operation.WRITE, _ID, "its transactions, atomic batches as well"),
                RoleRight(Operation.DESCRIBE, _ID, "the id's coordinator", is_implied=True),
            ),
        ),
        Role(
            "consumer",
            "reads topics, and as a member of a group commits offsets",
            (
                RoleRight(Operation.READ, _TOPIC, "its records, and commits of their offsets"),
                RoleRight(Operation.DESCRIBE, _TOPIC, "partitions, leaders, offsets", is_implied=True),
                RoleRight(Operation.READ, _GROUP, "to join the group, and to commit"),
            ),
        ),
        Role(
            "spark-source",
            "reads topics with Spark, as a table or a stream; the jobs bronze and backfill",
            (
                RoleRight(Operation.READ, _TOPIC, "partitions, offsets, records"),
                RoleRight(Operation.READ, _GROUP, "`commitOffsetsToGroup`, `startingOffsets=group`"),
            ),
        ),
        Role(
            "spark-sink",
            "writes topics with Spark exactly once; the jobs silver, gold and table-to-topic",
            (
                RoleRight(Operation.WRITE, _TOPIC, "records"),
                RoleRight(
                    Operation.WRITE, _ID, "its atomic batches: an id for each query, which Spark draws", BATCH_PREFIX
                ),
            ),
        ),
        Role(
            "spark-sink-at-least-once",
            "writes topics with Spark and `semantics=at-least-once`, the jobs as well",
            (RoleRight(Operation.WRITE, _TOPIC, "records, and a producer id"),),
        ),
        Role(
            "mirror-source",
            "reads a cluster for a copy of it, as MirrorMaker 2 does at the cluster that it copies",
            (
                RoleRight(Operation.READ, _TOPIC, "records", WILDCARD),
                RoleRight(Operation.DESCRIBE_CONFIGS, _TOPIC, "the configuration of the copies", WILDCARD),
                RoleRight(Operation.DESCRIBE, _GROUP, "the groups' offsets", WILDCARD),
                RoleRight(Operation.DESCRIBE, _CLUSTER, "the ACLs of topics (`sync.topic.acls.enabled`)"),
            ),
        ),
        Role(
            "monitor",
            "looks at the cluster, its topics, groups, lags and transactions; changes and reads nothing",
            (
                RoleRight(Operation.DESCRIBE, _CLUSTER, "health, brokers, the quorum, log dirs, all groups"),
                RoleRight(Operation.DESCRIBE, _TOPIC, "partitions, and offsets for lags", WILDCARD),
                RoleRight(Operation.DESCRIBE, _GROUP, "members, committed offsets", WILDCARD),
                RoleRight(Operation.DESCRIBE, _ID, "transactions", WILDCARD),
            ),
        ),
        Role(
            "topic-admin",
            "makes, changes and deletes topics",
            (
                RoleRight(Operation.CREATE, _TOPIC, "to make them"),
                RoleRight(Operation.ALTER, _TOPIC, "more partitions; to describe them"),
                RoleRight(Operation.DELETE, _TOPIC, "to delete them, and their records up to an offset"),
                RoleRight(Operation.ALTER_CONFIGS, _TOPIC, "to change and describe their configuration"),
            ),
        ),
        Role(
            "user-admin",
            "makes and removes users, ACLs and quotas, and so may give everything to everybody",
            (
                RoleRight(Operation.ALTER, _CLUSTER, "users and ACLs; to describe them"),
                RoleRight(Operation.ALTER_CONFIGS, _CLUSTER, "quotas; the brokers' configuration"),
            ),
        ),
    )
}

Names = Mapping[ResourceType, Sequence[str]]
"""Resources by their kinds, as a command names them."""


def role_acls(
    role: Role,
    principal: str,
    names: Names,
    *,
    pattern: PatternType = PatternType.LITERAL,
    host: str = WILDCARD,
    permission: Permission = Permission.ALLOW,
) -> list[AclBinding]:
    """The ACLs of a role for these resources; ConfigError if none is named and the role needs one."""
    is_for_topics = any(right.resource_type is _TOPIC and not right.every for right in role.rights)
    if is_for_topics and not any(names.get(right.resource_type) for right in role.rights):
        raise ConfigError(f"the role {role.name} is about topics: name one")
    return [
        AclBinding(right.resource_type, name, principal, right.operation, permission, host, named_by)
        for right in role.rights
        for name, named_by in resources(right, names, pattern)
    ]


def resources(right: RoleRight, names: Names, pattern: PatternType) -> Iterator[tuple[str, PatternType]]:
    """The resources of one right, as ACLs name them."""
    named = names.get(right.resource_type, ())
    if right.resource_type is _CLUSTER:
        yield CLUSTER_NAME, PatternType.LITERAL
    elif named:
        yield from ((name, pattern) for name in named)
    elif right.every:
        yield right.every, PatternType.LITERAL if right.every == WILDCARD else PatternType.PREFIXED
