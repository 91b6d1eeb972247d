"""Decides which replicas of a broker leave the ELRs of their partitions when the broker registers as a new process.

A replica is eligible while its log has every record that it had before. It stays eligible if the new process names the
replica among those that its log dirs hold, in the dir where the metadata has it, and one of these is true (ADR 0017):

- the process before has ended cleanly, so everything was flushed;
- the replica's `flush.policy` is `fsync`, so everything that it acknowledged was flushed.

A clean-shutdown marker of another registration is on a disk only if an older copy of the disk was put back: a process
removes the marker before it registers. Then no replica of the broker counts as whole.

A replica is not named if its log dir is lost, failed or empty, or if its log has rotted. If the dir has failed, the log
may be there again at the next start, so a last ISR member stays in the ISR. The policy is the topic's own or, where the
topic has none, the broker's: of the process before, which wrote, and of the new one. A broker of an older release does
not say its own; it counts as `os`. Not here: which replicas enter an ELR (election.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from metadata.controller.brokers.log_dirs import dead_log_dirs, held_replicas
from metadata.controller.context import DecisionContext
from metadata.registrations import BrokerRegistration, PartitionRegistration
from metadata.topic_config import FLUSH_POLICY
from penstock.messages.nodes.brokers import RegisterBrokerRequest
from penstock.types import NO_EPOCH

FLUSHED_BEFORE_ACK = "fsync"


class Doubts(NamedTuple):
    """Replicas of one partition that may lack records."""

    unfit: tuple[int, ...]  # may have lost records
    without_log: tuple[int, ...]  # have no log: a part of `unfit`


def ended_cleanly(existing: BrokerRegistration, request: RegisterBrokerRequest) -> bool:
    """True if the process before left a clean-shutdown marker with the epoch of this registration (KIP-966)."""
    return request.previous_broker_epoch == existing.broker_epoch


def doubts_about(
    context: DecisionContext, existing: BrokerRegistration, request: RegisterBrokerRequest
) -> Callable[[PartitionRegistration], Doubts]:
    """Returns the check of one partition: its doubts name the broker if its replica may have lost records, else
    nobody."""
    held, dead = held_replicas(request), dead_log_dirs(existing, request)
    is_clean = ended_cleanly(existing, request)
    is_older_copy = not is_clean and request.previous_broker_epoch != NO_EPOCH
    own_policies = {existing.flush_policy, request.flush_policy}

    def doubts(partition: PartitionRegistration) -> Doubts:
        named = context.state.topic_config(context.state.topics[partition.topic_id].name).get(FLUSH_POLICY)
        policies = own_policies if named is None else {named}
        broker_id = request.broker_id
        before, now = partition.directory_of(broker_id), held.get(partition.key)
        if now is None:
            may_return = before in dead if before else bool(dead)
            return Doubts((broker_id,), () if may_return else (broker_id,))
        is_same = before == now or not before or not now
        is_flushed = is_clean or policies == {FLUSHED_BEFORE_ACK}
        is_whole = is_same and is_flushed and not is_older_copy
        return Doubts(() if is_whole else (broker_id,), ())

    return doubts
