"""The table of acts and kinds of absence: what is tried, and what comes of it. A test runs each row at each kind.

    DONE           the act is done, within LIMIT_SECONDS
    WAITS          it is tried again for LIMIT_SECONDS, and not done
    a code's name  it is refused so

What is not done has its reason in REFUSED. docs/while-a-broker-is-away.md is made of both (page.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from tests.support.absence import acts_by_grpc as by_grpc
from tests.support.absence import acts_by_kafka as by_kafka
from tests.support.absence.stage import DIR_FAILED, FENCED, GONE, SILENT, STOPPED, UNREGISTERED, Kind, Stage

LIMIT_SECONDS = 10
"""A broker that is silent is fenced after 2 s here; everything that waits for it may begin then."""
DONE: Final = "done"
WAITS: Final = "waits"
GRPC, KAFKA = "gRPC", "Kafka"
PROTOCOLS: Final = (GRPC, KAFKA)


class Act(NamedTuple):
    """One row. A protocol without a function has no such request."""

    name: str
    grpc: Callable[[Stage], Awaitable[None]] | None
    kafka: Callable[[Stage], Awaitable[None]] | None

    def by(self, protocol: str) -> Callable[[Stage], Awaitable[None]] | None:
        return self.grpc if protocol == GRPC else self.kafka


ACTS: Final = (
    Act("create a topic with three replicas", by_grpc.create_topic, by_kafka.create_topic),
    Act(
        "create a topic with the default of replicas", by_grpc.create_topic_by_default, by_kafka.create_topic_by_default
    ),
    Act("create a topic with two replicas", by_grpc.create_topic_of_two, by_kafka.create_topic_of_two),
    Act(
        "create a topic on brokers by name, the absent one first",
        by_grpc.create_topic_by_hand,
        by_kafka.create_topic_by_hand,
    ),
    Act("have a topic made on demand (`auto.create.topics.enable`)", None, by_kafka.create_topic_on_demand),
    Act("add partitions", by_grpc.add_partitions, by_kafka.add_partitions),
    Act(
        "add a partition on brokers by name, the absent one first",
        by_grpc.add_partitions_by_hand,
        by_kafka.add_partitions_by_hand,
    ),
    Act(
        "write to a new topic with `acks=all` and `min.insync.replicas=2`, and read it",
        by_grpc.write_and_read,
        by_kafka.write_and_read,
    ),
    Act("join the first group of the cluster, read and commit", by_grpc.first_group, by_kafka.first_group),
    Act("commit the first transaction of the cluster", by_grpc.first_transaction, by_kafka.first_transaction),
    Act("get a producer id", by_grpc.producer_id, by_kafka.producer_id),
    Act("elect a preferred leader", by_grpc.elect, by_kafka.elect),
    Act(
        "begin to move a replica to the absent broker, and cancel it",
        by_grpc.move_there_and_cancel,
        by_kafka.move_there_and_cancel,
    ),
    Act("move a replica from the absent broker to another one, to the end", by_grpc.move_away, by_kafka.move_away),
    Act("change the configuration of a topic", by_grpc.alter_topic, by_kafka.alter_topic),
    Act("change the configuration of all brokers", by_grpc.alter_all_brokers, by_kafka.alter_all_brokers),
    Act("change the configuration of a broker in service", by_grpc.alter_present_broker, by_kafka.alter_present_broker),
    Act("change the configuration of the absent broker", by_grpc.alter_absent_broker, by_kafka.alter_absent_broker),
    Act("set the password of a user (SCRAM)", by_grpc.set_user, by_kafka.set_user),
    Act("create and delete an ACL", by_grpc.set_acl, by_kafka.set_acl),
    Act("set a quota", by_grpc.set_quota, by_kafka.set_quota),
    Act("raise a feature level", by_grpc.raise_level, by_kafka.raise_level),
    Act("delete records", by_grpc.delete_records, by_kafka.delete_records),
    Act("delete a group", by_grpc.delete_group, by_kafka.delete_group),
    Act("delete a topic", by_grpc.delete_topic, by_kafka.delete_topic),
    Act("describe the cluster, its quorum and its metadata", by_grpc.look, by_kafka.look),
    Act("describe the log dirs of the others", by_grpc.log_dirs, by_kafka.log_dirs),
    Act("move a replica to another log dir of its broker", by_grpc.move_log_dir, by_kafka.move_log_dir),
    Act(
        "ask for the configuration of the absent broker",
        by_grpc.configuration_of_the_absent,
        None,
    ),
    Act("unregister the absent broker", by_grpc.unregister, by_kafka.unregister),
)


class Refusal(NamedTuple):
    """The acts that are not done at these kinds of absence, what comes of them instead, and why."""

    acts: tuple[str, ...]
    kinds: tuple[Kind, ...]
    outcome: str
    why: str


_ABSENT = (FENCED, STOPPED, GONE)
_IS_ASKED = "ask for the configuration of the absent broker"
_UNREGISTER = "unregister the absent broker"
REFUSED: Final = (
    Refusal(
        (_IS_ASKED,),
        (SILENT,),
        "NETWORK_EXCEPTION",
        "A broker's own configuration is told by that broker alone, as in Kafka.",
    ),
    Refusal((_IS_ASKED,), (*_ABSENT, UNREGISTERED), "BROKER_ID_NOT_REGISTERED", "The same."),
    Refusal(
        (_UNREGISTER,),
        (SILENT, *_ABSENT, DIR_FAILED),
        "POLICY_VIOLATION",
        "It has replicas. Kafka forgets the broker all the same, and its replicas are without one; here they are moved"
        " first: `penstock brokers drain`.",
    ),
    Refusal(
        ("raise a feature level",),
        (*_ABSENT, UNREGISTERED),
        "INVALID_UPDATE_VERSION",
        "The absent one may come back with an older release, which would stop at the level; unregistered, it is still a"
        " voter. Start it, or remove it for good; Kafka believes what a broker registered last.",
    ),
    Refusal((_UNREGISTER,), (UNREGISTERED,), "BROKER_ID_NOT_REGISTERED", "It is done already."),
    Refusal(
        (
            "create a topic with three replicas",
            "create a topic with the default of replicas",
            "have a topic made on demand (`auto.create.topics.enable`)",
        ),
        (UNREGISTERED,),
        "INVALID_REPLICATION_FACTOR",
        "Two brokers are registered, and three replicas need three, as in Kafka: ask for two.",
    ),
    Refusal(
        (
            "create a topic on brokers by name, the absent one first",
            "add a partition on brokers by name, the absent one first",
            "begin to move a replica to the absent broker, and cancel it",
        ),
        (UNREGISTERED,),
        "INVALID_REPLICA_ASSIGNMENT",
        "There is no such broker, as in Kafka.",
    ),
    Refusal(
        ("change the configuration of the absent broker",),
        (UNREGISTERED,),
        "BROKER_ID_NOT_REGISTERED",
        "There is no such broker.",
    ),
    Refusal(
        (
            "join the first group of the cluster, read and commit",
            "commit the first transaction of the cluster",
            "delete a group",
        ),
        (UNREGISTERED,),
        WAITS,
        "`__consumer_offsets` and `__transaction_state` get three replicas in a cluster of three voters, as by Kafka's"
        " defaults, and two brokers are registered. A cluster that is to stay with two has"
        " `offsets.topic.replication.factor` and `transaction.state.log.replication.factor` = 2.",
    ),
)


def refusal(act: Act, kind: Kind) -> Refusal | None:
    return next((found for found in REFUSED if act.name in found.acts and kind in found.kinds), None)


def outcome(act: Act, kind: Kind) -> str:
    """The outcome of the act, by either protocol."""
    found = refusal(act, kind)
    return DONE if found is None else found.outcome
