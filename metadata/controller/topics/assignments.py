"""The checks and records of new partitions, which a new topic and a topic that gets more partitions share.

A broker that is fenced or shuts down may get a replica, by placement or by hand: it is registered, and will copy the
partition when it is back. At least one replica must be in service, because it leads. A broker that is cordoned gets
none (KIP-1066).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from metadata.controller.configuration.cluster_defaults import ONE_PER_RACK
from metadata.controller.context import DecisionContext
from metadata.controller.topics.owners import NOBODY, partitions_share
from metadata.cordon import cordoned_brokers
from metadata.records import PartitionRecord
from metadata.registrations import BrokerRegistration
from penstock.balance.racks import rack_name
from penstock.errors import (
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    PolicyViolationError,
)

REPLICAS_SHOWN = 10
"""The most replicas of an assignment that an error names."""


def partition_record(
    context: DecisionContext, topic_id: str, partition: int, replicas: tuple[int, ...]
) -> PartitionRecord:
    """A new partition is empty, so every replica that is active is in sync, and no other. One is active at least."""
    isr = tuple(replica for replica in replicas if context.state.is_active(replica))
    directories = tuple(map(context.state.only_log_dir, replicas))
    assigned = directories if any(directories) else ()
    return PartitionRecord(topic_id, partition, replicas, isr, leader_id=isr[0], directories=assigned)


def check_partition_count(context: DecisionContext, name: str, partitions: int, added: int) -> None:
    """InvalidPartitionsError if the topic cannot have this many partitions. `added` are the partitions that the request
    adds until here."""
    config = context.config
    if not 1 <= partitions <= config.max_partitions_per_topic:
        raise InvalidPartitionsError(
            f"topic {name} cannot have {partitions} partitions: a topic has from 1 to {config.max_partitions_per_topic}"
        )
    total = context.state.partition_count + added
    if total > config.max_partitions:
        raise InvalidPartitionsError(
            f"topic {name} cannot have {partitions} partitions: the cluster would have {total}, at most"
            f" {config.max_partitions} are allowed"
        )


def check_share(context: DecisionContext, name: str, owner: str, owned: int, total: int) -> None:
    """PolicyViolationError if the owner's topics may not have `owned` partitions in a cluster that then has `total`."""
    if owner == NOBODY:
        return
    share = partitions_share(context.config.max_partitions, total - owned, context.cluster.partitions_percent)
    if owned > share:
        raise PolicyViolationError(
            f"the topics of {owner} would have {owned} partitions with those of topic {name}; its share is {share}:"
            f" {context.cluster.partitions_percent} % of those that the topics of others leave of the cluster's"
            f" {context.config.max_partitions}. Delete topics of {owner}, or let an administrator make the topic, or"
            " raise max.partitions.per.principal.percent"
        )


def check_record_count(context: DecisionContext, name: str, record_count: int) -> None:
    """PolicyViolationError if the request needs more records than can be committed at once."""
    if record_count > context.config.max_records_per_decision:
        raise PolicyViolationError(
            f"the topics up to {name} need {record_count} records, at most"
            f" {context.config.max_records_per_decision} may be committed at once; ask for fewer in one request"
        )


def brokers_for(context: DecisionContext, what: str, factor: int) -> list[BrokerRegistration]:
    """The brokers to place `factor` replicas on, absent ones too, but no cordoned one. InvalidReplicationFactorError if
    too few are registered, in too few racks, or none is in service; `what` needs them."""
    registered = context.state.brokers
    cordoned = sorted(cordoned_brokers(registered.values(), context.state.configs))
    brokers = [broker for broker_id, broker in registered.items() if broker_id not in cordoned]
    if not 1 <= factor <= len(registered):
        raise InvalidReplicationFactorError(
            f"{what} must be from 1 to the number of registered brokers, {len(registered)}; ask for fewer replicas, or"
            " start more brokers"
        )
    if factor > len(brokers):
        raise InvalidReplicationFactorError(
            f"{what} needs {factor} brokers, and {len(brokers)} of the {len(registered)} registered ones take new"
            f" replicas: {cordoned_text(cordoned)}"
        )
    racks = len({rack_name(broker.broker_id, broker.rack) for broker in brokers})
    if context.cluster.one_replica_per_rack and factor > racks:
        raise InvalidReplicationFactorError(
            f"{what} needs {factor} racks, and the {len(brokers)} brokers that take new replicas are in {racks}:"
            f" {ONE_PER_RACK} is set; ask for fewer replicas, or start brokers in other racks"
        )
    if not any(broker.is_active for broker in brokers):
        raise InvalidReplicationFactorError(
            f"{what} needs a broker in service to lead, and all {len(brokers)} registered brokers"
            f"{' that are not cordoned' if cordoned else ''} are fenced or shutting down; start one of them"
        )
    return brokers


def check_replicas(context: DecisionContext, name: str, replicas: Sequence[int], factor: int) -> None:
    """InvalidReplicaAssignmentError if the partition of that name cannot have these replicas."""
    shown = list(replicas[:REPLICAS_SHOWN])
    if not replicas or len(set(replicas)) < len(replicas):
        raise InvalidReplicaAssignmentError(f"{name}: the replicas {shown} must be at least one, each another broker")
    if len(replicas) != factor:
        raise InvalidReplicaAssignmentError(
            f"{name} has {len(replicas)} replicas, partition 0 has {factor}: all partitions need the same number"
        )
    unknown = [replica for replica in replicas if replica not in context.state.brokers]
    if unknown:
        raise InvalidReplicaAssignmentError(f"{name}: broker {unknown[0]} is not registered")
    check_not_cordoned(context, name, replicas)
    check_one_per_rack(context, name, replicas, ())
    if not any(map(context.state.is_active, replicas)):
        raise InvalidReplicaAssignmentError(
            f"{name}: all of the brokers {shown} are fenced or shutting down; name one that is in service"
        )


def check_not_cordoned(context: DecisionContext, name: str, added: Sequence[int]) -> None:
    """InvalidReplicaAssignmentError if one of the brokers that would get a replica is cordoned."""
    cordoned = sorted(filter(context.state.is_cordoned, added))
    if cordoned:
        raise InvalidReplicaAssignmentError(f"{name} cannot get a replica there: {cordoned_text(cordoned)}")


def check_one_per_rack(context: DecisionContext, name: str, wanted: Sequence[int], present: Sequence[int]) -> None:
    """InvalidReplicaAssignmentError if two of the wanted replicas would share a rack where none may, unless as many of
    the present ones are in that rack: a partition from before the key was set may be mended step by step."""
    if not context.cluster.one_replica_per_rack:
        return
    before = Counter(map(context.state.rack_of, present))
    in_racks: dict[str, list[int]] = {}
    for replica in wanted:
        in_racks.setdefault(context.state.rack_of(replica), []).append(replica)
    for rack, replicas in in_racks.items():
        if len(replicas) > max(1, before[rack]):
            raise InvalidReplicaAssignmentError(
                f"{name}: brokers {replicas[0]} and {replicas[1]} are in one rack, and {ONE_PER_RACK} is set; name"
                " brokers of different racks (`penstock cluster describe` shows them)"
            )


def cordoned_text(cordoned: Sequence[int]) -> str:
    """The cordoned brokers, and the remedy."""
    shown = ", ".join(map(str, cordoned[:REPLICAS_SHOWN])) + (", …" if len(cordoned) > REPLICAS_SHOWN else "")
    one = len(cordoned) == 1
    return (
        f"broker{'' if one else 's'} {shown} {'is' if one else 'are'} cordoned; `penstock brokers uncordon"
        f" {' '.join(map(str, cordoned[:REPLICAS_SHOWN]))}` lets new replicas come again"
    )
