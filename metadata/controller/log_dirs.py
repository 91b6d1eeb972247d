"""Decides what follows if a broker comes back with other log dirs than those that it registered with.

    a dir more                      welcome
    a dir whose disk is dead        it stays registered; its replicas are offline there, and nothing takes their place
    a dir less, or another instead  refused, until the operator says that the dir is lost (`--lost-log-dirs`)

The metadata does not say which dir holds which replica. So a broker names the replicas in its dirs when it registers.
If it has lost a dir, a partition is marked `log_lost` if the broker is its last ISR member and does not name it. The
member stays in the ISR, because no other replica is known to have every acked record. It is never elected: an empty log
would silently replace those records. The mark is removed when the broker registers with that replica in one of its
dirs, by an unclean election if the topic allows one, or with the topic. The broker left all other ISRs when it
registered, and joins them again as a new replica does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from metadata.controller.context import DecisionContext
from metadata.records import PartitionChangeRecord
from metadata.registrations import BrokerRegistration, PartitionKey
from metadata.requests import RegisterBrokerRequest
from penstock.errors import InvalidRegistrationError, InvalidRequestError
from penstock.types import NO_LEADER


def check_replica_count(context: DecisionContext, request: RegisterBrokerRequest) -> None:
    """A broker cannot hold more replicas than a cluster may have partitions; topics that are gone may be among them."""
    limit = 2 * context.config.max_partitions
    count = sum(max(1, len(held.partitions)) for held in request.replicas)
    if count > limit:
        raise InvalidRequestError(f"broker {request.broker_id} names {count} replicas; at most {limit} are allowed")


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
            f" {','.join(missing)}: it fetches its replicas anew; partitions that had their only in-sync replica there"
            " stay offline"
        )
    return (*request.log_dirs, *missing)


def changes_of_last_copies(
    context: DecisionContext,
    existing: BrokerRegistration,
    request: RegisterBrokerRequest,
    changes: Iterable[PartitionChangeRecord],
) -> list[PartitionChangeRecord]:
    """`changes`, by which the broker leaves its ISRs, and the marks of the ISRs that it cannot leave."""
    has_lost = bool(set(existing.log_dirs).intersection(request.lost_log_dirs).difference(request.log_dirs))
    held = {PartitionKey(topic_id, number) for topic_id, numbers in request.replicas for number in numbers}
    merged = {PartitionKey(change.topic_id, change.partition): change for change in changes}
    for partition in context.state.partitions_with_isr_member(request.broker_id):
        change = merged.get(partition.key, PartitionChangeRecord(*partition.key))
        log_lost = partition.key not in held and (has_lost or partition.log_lost)
        if change.isr is None and log_lost != partition.log_lost:
            leader_id = NO_LEADER if log_lost and partition.has_leader else change.leader_id
            merged[partition.key] = replace(change, log_lost=log_lost, leader_id=leader_id)
    return [merged[key] for key in sorted(merged)]
