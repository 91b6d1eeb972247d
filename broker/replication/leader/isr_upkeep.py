"""Who leaves and who joins the ISRs that this broker leads: asked on schedule, on a fetch, and when brokers change.

The decision about one follower is leader_state.py's; here is what it needs of the others: which brokers are registered
with which epoch, and which are in service. Sending the proposals is alter_partition.py's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from broker.replication.leader.leader_state import ProposedIsr
from broker.replication.partition import Partition
from penstock.errors import BrokerIdNotRegisteredError, ReplicaNotAvailableError, StaleBrokerEpochError

_log = logging.getLogger(__name__)


class IsrProposals(Protocol):
    """Takes ISR changes to the controller; see alter_partition.py."""

    def propose(self, partition: Partition, proposed: ProposedIsr) -> None: ...


def check_fetcher_epoch(registered_epochs: Mapping[int, int], replica_id: int, broker_epoch: int) -> None:
    """Only the registered broker's own fetch acknowledges anything: its broker epoch is exactly the registered one.

    A lower epoch is of an earlier process. A higher one is of a registration that this broker has not read yet: the
    fetch is refused until it has, because until then anybody could have invented that epoch.
    """
    known = registered_epochs.get(replica_id)
    if known is None:
        raise BrokerIdNotRegisteredError(f"replica id {replica_id} is not a registered broker")
    if broker_epoch < known:
        raise StaleBrokerEpochError(
            f"broker {replica_id} fetches with epoch {broker_epoch}; it is registered with {known}"
        )
    if broker_epoch > known:
        raise ReplicaNotAvailableError(
            f"broker {replica_id} fetches with epoch {broker_epoch}; the metadata here knows {known} so far: try again"
        )


class IsrUpkeep:
    """One per broker."""

    def __init__(self, proposals: IsrProposals, broker_epoch: Callable[[], int], lag_time_ms_max: int) -> None:
        self._proposals = proposals
        self.registered_epochs: Mapping[int, int] = {}
        self.active_brokers: frozenset[int] = frozenset()
        self._broker_epoch = broker_epoch
        self._lag_time_ms_max = lag_time_ms_max

    def brokers_changed(
        self, registered_epochs: Mapping[int, int], active_brokers: frozenset[int], partitions: Iterable[Partition]
    ) -> None:
        """Who is registered, and who of them is in service, as the metadata has it now."""
        self.registered_epochs, self.active_brokers = registered_epochs, active_brokers
        for partition in partitions:
            self.reconsider(partition)

    def check(self, partitions: Iterable[Partition], now_ms: int) -> None:
        """Drop from the ISR who has lagged for `replica.lag.time.max.ms`, and propose again who was refused."""
        for partition in partitions:
            if partition.leading is not None:
                end = partition.log.log_end_offset
                proposed = partition.leading.propose_shrink(end, self._broker_epoch(), now_ms, self._lag_time_ms_max)
                self._propose(partition, proposed)
                self.reconsider(partition)

    def reconsider(self, partition: Partition) -> None:
        """Who caught up while it could not join yet may join now.

        Such a follower was fenced, or another proposal was under way. It has everything, so its session says nothing
        new of this partition (KIP-227), and without records its fetches would never bring the question up again.
        """
        if partition.leading is not None:
            partition.leading.brokers_changed(self.registered_epochs, self.active_brokers)
            partition.check_low_watermark()
            for replica_id in partition.leading.followers:
                self.maybe_expand(partition, replica_id)

    def maybe_expand(self, partition: Partition, replica_id: int) -> None:
        """The follower joins if it has everything, and is the one that is registered now (KIP-903)."""
        leading = partition.leading
        if leading is None or replica_id in leading.isr:
            return
        follower = leading.followers[replica_id]
        eligible = replica_id in self.active_brokers
        eligible = eligible and self.registered_epochs.get(replica_id) == follower.broker_epoch
        # As a leader, who has not deleted yet what is deleted here would bring it back (KIP-107).
        eligible = eligible and follower.log_start_offset >= partition.log.log_start_offset
        self._propose(
            partition,
            leading.propose_expand(replica_id, partition.high_watermark, self._broker_epoch(), eligible),
        )

    def _propose(self, partition: Partition, proposed: ProposedIsr | None) -> None:
        if proposed is not None:
            _log.info("%s: proposing ISR %s", partition, sorted(proposed.ids))
            self._proposals.propose(partition, proposed)

    def __repr__(self) -> str:
        return f"IsrUpkeep({len(self.active_brokers)} of {len(self.registered_epochs)} brokers in service)"
