"""Why a partition has no leader, and what a person can do about it. One partition and who is in service; no state.

controller/election.py has the rules of elections. The metadata answer, the controller's log and the metrics all take
the reason from here, so they say the same.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from metadata.registrations import PartitionRegistration


class OfflineReason(Enum):
    """The values are labels of a metric."""

    ISR_OUT_OF_SERVICE = "isr_out_of_service"  # every in-sync replica is on a broker that is down, fenced or stopping
    LOG_LOST = "log_lost"  # the only in-sync replica was in a log dir that was given up
    ELECTING = "electing"  # an in-sync replica is in service: this metadata is older than its election


def offline_reason(partition: PartitionRegistration, is_active: Callable[[int], bool]) -> OfflineReason | None:
    """None for a partition that has a leader."""
    if partition.has_leader:
        return None
    if partition.log_lost:
        return OfflineReason.LOG_LOST
    if any(map(is_active, partition.isr)):
        return OfflineReason.ELECTING
    return OfflineReason.ISR_OUT_OF_SERVICE


def offline_text(partition: PartitionRegistration, reason: OfflineReason) -> str:
    """The fact, then the remedy."""
    isr = ", ".join(map(str, partition.isr))
    match reason:
        case OfflineReason.LOG_LOST:
            return (
                f"no leader: the only in-sync replica, on broker {isr}, was in a log dir that was given up. Start that"
                " broker with that log dir; or order an election (`penstock elect-leaders TOPIC --unclean`), which"
                " loses the records that no other replica has; or delete the topic"
            )
        case OfflineReason.ISR_OUT_OF_SERVICE:
            return (
                f"no leader: no broker with an in-sync replica ({isr}) is in service. Start one of them. Only if none"
                " of them will ever come back, order an election (`penstock elect-leaders TOPIC --unclean`): that loses"
                " the records that no other replica has"
            )
        case OfflineReason.ELECTING:
            return "no leader yet: one is being elected; ask again"
