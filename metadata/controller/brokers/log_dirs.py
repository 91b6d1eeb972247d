"""Decides what follows if a broker comes back with other log dirs than those that it registered with.

    a dir more                      welcome
    a dir whose disk is dead        it stays registered; its replicas are offline there, and nothing takes their place
    a dir less, or another instead  refused, until the operator says that the dir is lost (`--lost-log-dirs`)

A broker names the replicas in each of its dirs when it registers. The metadata has the dir of each replica; where it
has another dir, or none, it is corrected (KIP-858). A replica in a lost dir has no dir any more.

If a dir is lost, a partition is marked `log_lost` if the broker is its last ISR member, does not name it, and had it
in that dir. If no dir was assigned to it, it counts as lost with any dir. If no process of the broker before this one
can have heard of the partition, there was no log, and none is lost (ADR 0016). If the replica was about to leave the
lost dir, the metadata may have its new dir already; the broker has found its unfinished copy there, and says that it is
lost. The member stays in the ISR, because no other replica is known to have every acked record. It is never elected: an
empty log would silently replace those records. The mark is removed when the broker registers with that replica in one
of its dirs, by an unclean election if the topic allows one, or with the topic. The broker left all other ISRs when it
registered, and joins them again as a new replica does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from metadata.controller.context import DecisionContext
from metadata.records import PartitionChangeRecord
from metadata.registrations import BrokerRegistration, PartitionKey, PartitionRegistration
from penstock.errors import InvalidRegistrationError, InvalidRequestError
from penstock.messages.nodes.brokers import RegisterBrokerRequest
from penstock.types import NO_LEADER


def check_replica_count(context: DecisionContext, request: RegisterBrokerRequest) -> None:
    """A broker cannot hold more replicas than a cluster may have partitions; topics that are gone may be among them."""
    limit = 2 * context.config.max_partitions
    count = sum(max(1, len(held.partitions)) for held in request.replicas)
    if count > limit:
        raise InvalidRequestError(f"broker {request.broker_id} names {count} replicas; at most {limit} are allowed")


def check_replica_dirs(request: RegisterBrokerRequest) -> None:
    """A replica is in one of the log dirs that the broker registers with, or was in one that is given up."""
    unknown = {held.log_dir for held in request.replicas}.difference(request.log_dirs, request.lost_log_dirs, ("",))
    if unknown:
        raise InvalidRequestError(
            f"broker {request.broker_id} names replicas in log dir {min(unknown)[:64]!r}, which it does not register"
        )


def log_dirs_after(existing: BrokerRegistration, request: RegisterBrokerRequest) -> tuple[str, ...]:
    """The log dirs of the new registration; InvalidRegistrationError if one is missing without a reason.

    A dir that does not answer has failed and is not lost, so as many may be missing as do not answer at the broker.
    """
    missing = sorted(set(existing.log_dirs).difference(request.log_dirs, request.lost_log_dirs))
    if len(missing) > request.failed_log_dirs:
        new = sorted(set(request.log_dirs).difference(existing.log_dirs))
        instead = f", and with {', '.join(new)} instead" if new else ""
        raise InvalidRegistrationError(
            f"broker {request.broker_id} comes back without log dir {', '.join(missing)}, with which it is registered"
            f"{instead}. Put the disk back. If it is gone for good, start the node once with --lost-log-dirs"
            f" {','.join(missing)} (it fetches its replicas anew; partitions that had their only in-sync replica there"
            " stay offline)"
        )
    return (*request.log_dirs, *missing)


def dead_log_dirs(existing: BrokerRegistration, request: RegisterBrokerRequest) -> frozenset[str]:
    """The registered log dirs that do not answer. A node that does not tell where its replicas are has none: nobody
    could say which replicas are in them."""
    if any(not held.log_dir for held in request.replicas):
        return frozenset()
    return frozenset(existing.log_dirs).difference(request.log_dirs, request.lost_log_dirs)


def changes_of_last_copies(
    context: DecisionContext,
    existing: BrokerRegistration,
    request: RegisterBrokerRequest,
    changes: Iterable[PartitionChangeRecord],
    unheard_from: int | None,
) -> list[PartitionChangeRecord]:
    """`changes`, by which the broker leaves its ISRs, and the marks of the ISRs that it cannot leave. No process of the
    broker before this one was sent a record at `unheard_from` or behind it; None if that is not known."""
    lost, held, named_lost = _lost(existing, request), held_replicas(request), _named_lost(existing, request)
    merged = {PartitionKey(change.topic_id, change.partition): change for change in changes}
    for partition in context.state.partitions_with_isr_member(request.broker_id):
        change = merged.get(partition.key, PartitionChangeRecord(*partition.key))
        directory = partition.directory_of(request.broker_id)
        had_log = unheard_from is None or not context.state.was_made_from(unheard_from, partition.key)
        was_in_lost = had_log and (directory in lost if directory else bool(lost))
        is_lost = was_in_lost or partition.key in named_lost or partition.log_lost
        log_lost = is_lost and partition.key not in held
        if change.isr is None and log_lost != partition.log_lost:
            leader_id = NO_LEADER if log_lost and partition.has_leader else change.leader_id
            merged[partition.key] = replace(change, log_lost=log_lost, leader_id=leader_id)
    return [merged[key] for key in sorted(merged)]


def with_directories(
    context: DecisionContext,
    existing: BrokerRegistration | None,
    request: RegisterBrokerRequest,
    changes: Iterable[PartitionChangeRecord] = (),
) -> list[PartitionChangeRecord]:
    """`changes`, and the log dirs of the replicas that are elsewhere than the metadata says. Replicas beyond one
    decision's limit are left for the broker to report (directories.py)."""
    merged = {PartitionKey(change.topic_id, change.partition): change for change in changes}
    found = _found(context, existing, request)
    for partition, directory in islice(found, context.config.max_records_per_decision):
        change = merged.get(partition.key, PartitionChangeRecord(*partition.key))
        directories = partition.directories_with(request.broker_id, directory)
        merged[partition.key] = replace(change, directories=directories)
    return [merged[key] for key in sorted(merged)]


def _found(
    context: DecisionContext, existing: BrokerRegistration | None, request: RegisterBrokerRequest
) -> Iterator[tuple[PartitionRegistration, str]]:
    """The broker's replicas that have another log dir than the metadata says, with that dir; "" for a lost one."""
    state, broker_id, held = context.state, request.broker_id, held_replicas(request)
    lost = frozenset[str]() if existing is None else _lost(existing, request)
    named_lost = frozenset[PartitionKey]() if existing is None else _named_lost(existing, request)
    for key, directory in held.items():
        partition = state.find_partition(key)
        if partition is None or not directory or broker_id not in partition.replicas:
            continue
        if partition.directory_of(broker_id) != directory:
            yield partition, directory
    for topic in state.topics.values() if lost else ():
        for partition in topic.partitions.values():
            directory = partition.directory_of(broker_id)
            is_lost = directory in lost or (directory and partition.key in named_lost)
            if is_lost and not held.get(partition.key):
                yield partition, ""


def held_replicas(request: RegisterBrokerRequest) -> Mapping[PartitionKey, str]:
    """The log dir of each replica that the broker names and has."""
    given_up = frozenset(request.lost_log_dirs).difference(request.log_dirs)
    return {
        PartitionKey(item.topic_id, number): item.log_dir
        for item in request.replicas
        for number in item.partitions
        if item.log_dir not in given_up
    }


def _named_lost(existing: BrokerRegistration, request: RegisterBrokerRequest) -> frozenset[PartitionKey]:
    """The replicas that the broker names in a lost dir. None where a log dir does not answer: they may be there."""
    if dead_log_dirs(existing, request):
        return frozenset()
    lost = _lost(existing, request)
    named = (held for held in request.replicas if held.log_dir in lost)
    return frozenset(PartitionKey(held.topic_id, number) for held in named for number in held.partitions)


def _lost(existing: BrokerRegistration, request: RegisterBrokerRequest) -> frozenset[str]:
    return frozenset(existing.log_dirs).intersection(request.lost_log_dirs).difference(request.log_dirs)
