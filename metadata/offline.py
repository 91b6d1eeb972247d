"""Why a partition has no leader, and what a person can do about it. One partition and who is in service; no state.

controller/elections/election.py has the rules of elections. The metadata answer, the controller's log and the metrics
all take the reason from here, so they say the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Protocol

from metadata.registrations import BrokerRegistration, PartitionRegistration


class OfflineReason(Enum):
    """The values are labels of a metric."""

    ISR_OUT_OF_SERVICE = "isr_out_of_service"  # each in-sync or eligible replica is on a broker that is down or fenced
    LOG_LOST = "log_lost"  # the only in-sync replica was in a log dir that was given up, and none is eligible
    LOG_DIR_OFFLINE = "log_dir_offline"  # a broker with such a replica is in service, and that log dir has failed
    ELECTING = "electing"  # such a replica is in service: this metadata is older than its election


class InService(Protocol):
    """The brokers that are in service, and those of their replicas that could be served."""

    def find_broker(self, broker_id: int) -> BrokerRegistration | None: ...

    def is_active(self, broker_id: int) -> bool: ...

    def replica_is_online(self, broker_id: int, partition: PartitionRegistration) -> bool: ...


def offline_reason(partition: PartitionRegistration, cluster: InService) -> OfflineReason | None:
    """The reason why a partition has no leader; None if it has one."""
    if partition.has_leader:
        return None
    if partition.log_lost:
        return OfflineReason.LOG_LOST
    active = [broker_id for broker_id in (*partition.isr, *partition.elr) if cluster.is_active(broker_id)]
    if not active:
        return OfflineReason.ISR_OUT_OF_SERVICE
    is_online = any(cluster.replica_is_online(broker_id, partition) for broker_id in active)
    return OfflineReason.ELECTING if is_online else OfflineReason.LOG_DIR_OFFLINE


def offline_text(partition: PartitionRegistration, reason: OfflineReason, cluster: InService) -> str:
    """The fact, with the brokers that could end it and how each stands; then the remedy."""
    isr = ", ".join(map(str, partition.isr))
    waits_for = f"an in-sync replica ({_states_of(partition.isr, partition, cluster)})"
    if partition.elr:
        waits_for += f" or an eligible one ({_states_of(partition.elr, partition, cluster)})"
    match reason:
        case OfflineReason.LOG_LOST:
            return (
                f"no leader: the only in-sync replica, on broker {isr}, was in a log dir that was given up. Start that"
                " broker with that log dir; or order an election (`penstock elect-leaders TOPIC --unclean`), which"
                " loses the records that no other replica has; or delete the topic"
            )
        case OfflineReason.ISR_OUT_OF_SERVICE:
            return (
                f"no leader: no broker with {waits_for} is in service. Start one of them. Only if none"
                " of them will ever come back, order an election (`penstock elect-leaders TOPIC --unclean`): that loses"
                " the records that no other replica has"
            )
        case OfflineReason.LOG_DIR_OFFLINE:
            return (
                f"no leader: no broker can serve {waits_for}. Repair the disk, then start that broker again. Only if"
                " the disk is gone for good, order an election (`penstock elect-leaders TOPIC --unclean`): that loses"
                " the records that no other replica has"
            )
        case OfflineReason.ELECTING:
            return "no leader yet: one is being elected; ask again"


def _states_of(broker_ids: Iterable[int], partition: PartitionRegistration, cluster: InService) -> str:
    """The state of each broker in words, like "1: fenced, 2: its log dir has failed"."""
    return ", ".join(f"{broker_id}: {_state_of(broker_id, partition, cluster)}" for broker_id in broker_ids)


def _state_of(broker_id: int, partition: PartitionRegistration, cluster: InService) -> str:
    broker = cluster.find_broker(broker_id)
    if broker is None:
        return "not registered"
    if broker.fenced or broker.in_controlled_shutdown:
        return "fenced" if broker.fenced else "shutting down"
    return "in service" if cluster.replica_is_online(broker_id, partition) else "its log dir has failed"
