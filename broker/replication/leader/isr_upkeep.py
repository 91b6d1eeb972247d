"""Lets followers join and leave the ISRs that this broker leads: on schedule, on a fetch, and when brokers change.

leader_state.py decides about one follower. This module adds which brokers are registered, with which epoch, and which
are in service. alter_partition.py sends the proposals.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from broker.replication.leader.leader_state import ProposedIsr
from broker.replication.partition import Partition
from metadata.registrations import BrokerRegistration

_log = logging.getLogger(__name__)


class IsrProposals(Protocol):
    """Takes ISR changes to the controller; see alter_partition.py."""

    def propose(self, partition: Partition, proposed: ProposedIsr) -> None: ...


class IsrUpkeep:
    """Lets followers join and leave the ISRs. There is one per broker."""

    def __init__(self, proposals: IsrProposals, broker_epoch: Callable[[], int], lag_time_ms_max: int) -> None:
        self._proposals = proposals
        self.registered_epochs: Mapping[int, int] = {}
        self.active_brokers: frozenset[int] = frozenset()
        self._with_failed_dirs: Mapping[int, BrokerRegistration] = {}
        self._broker_epoch = broker_epoch
        self._lag_time_ms_max = lag_time_ms_max

    def brokers_changed(
        self,
        registered_epochs: Mapping[int, int],
        active_brokers: frozenset[int],
        partitions: Iterable[Partition],
        with_failed_dirs: Mapping[int, BrokerRegistration],
    ) -> None:
        """The registered brokers, those in service, and those some of whose log dirs have failed, in the present
        metadata."""
        self.registered_epochs, self.active_brokers = registered_epochs, active_brokers
        self._with_failed_dirs = with_failed_dirs
        for partition in partitions:
            self.reconsider(partition)

    def check(self, partitions: Iterable[Partition], now_ms: int) -> None:
        """Drop followers that lag for `replica.lag.time.max.ms` from the ISR, and repeat refused proposals."""
        for partition in partitions:
            if partition.leading is not None:
                end = partition.log.log_end_offset
                proposed = partition.leading.propose_shrink(end, self._broker_epoch(), now_ms, self._lag_time_ms_max)
                self._propose(partition, proposed)
                self.reconsider(partition)

    def reconsider(self, partition: Partition) -> None:
        """Lets a follower join that caught up while it could not join yet.

        The follower was fenced, or another proposal was under way. It has every record, so its session does not name
        the partition again (KIP-227), and no later fetch would lead to a proposal. A follower that lacks records
        joins with its next fetch, and not before, even if the high watermark waits for `min.insync.replicas`: it may be
        silent.
        """
        if partition.leading is not None:
            partition.leading.brokers_changed(self.registered_epochs, self._in_service(partition))
            partition.check_low_watermark()
            for replica_id, follower in partition.leading.followers.items():
                if follower.log_end_offset >= partition.log.log_end_offset:
                    self.maybe_expand(partition, replica_id)

    def maybe_expand(self, partition: Partition, replica_id: int) -> None:
        """Propose that the follower joins, if it has every record and fetches under its registered epoch (KIP-903)."""
        leading = partition.leading
        if leading is None or replica_id in leading.isr:
            return
        follower = leading.followers[replica_id]
        eligible = replica_id in self._in_service(partition)
        eligible = eligible and self.registered_epochs.get(replica_id) == follower.broker_epoch
        # As a leader, a follower that has not yet deleted the deleted records would bring them back (KIP-107).
        eligible = eligible and follower.log_start_offset >= partition.log.log_start_offset
        self._propose(
            partition,
            leading.propose_expand(replica_id, partition.high_watermark, self._broker_epoch(), eligible),
        )

    def _in_service(self, partition: Partition) -> frozenset[int]:
        """The brokers in service, but those whose replica of the partition is in a failed log dir."""
        if not self._with_failed_dirs:
            return self.active_brokers
        return self.active_brokers.difference(
            broker_id
            for broker_id, broker in self._with_failed_dirs.items()
            if not broker.is_online(partition.state.directory_of(broker_id))
        )

    def _propose(self, partition: Partition, proposed: ProposedIsr | None) -> None:
        if proposed is not None:
            _log.info("%s: proposing ISR %s", partition, sorted(proposed.ids))
            self._proposals.propose(partition, proposed)

    def __repr__(self) -> str:
        return f"IsrUpkeep({len(self.active_brokers)} of {len(self.registered_epochs)} brokers in service)"
