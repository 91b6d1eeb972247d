"""The figures of this broker's coordinator, with the metrics that show them. May be read in any thread.

Not here: the lag of groups (groups/lag/), and requests that wait, which the request channel counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.coordination.coordinator import Coordinator
from broker.coordination.loading import LoadFigures
from broker.coordination.memory_shares import CoordinatorMemory
from broker.coordination.shard_ports import ShardState
from broker.groups.shard.group_totals import GroupTotals
from broker.groups.shard.shard import Shard
from broker.load.party_shares import PartyShare
from penstock.metric_fields import counter, gauge, in_seconds, measured

_PARTITIONS = "penstock_group_coordinator_partitions"
_PARTITIONS_HELP = "Partitions of __consumer_offsets that this broker leads: those that serve, load, or cannot be read."


@measured
class CoordinatorStatistics:
    """The figures of this broker's group coordinator."""

    active: int = gauge(_PARTITIONS, _PARTITIONS_HELP, state="active")
    loading: int = gauge(_PARTITIONS, _PARTITIONS_HELP, state="loading")
    failed: int = gauge(_PARTITIONS, _PARTITIONS_HELP, state="failed")
    members: int = gauge("penstock_group_coordinator_members", "Members of all groups that are coordinated here.")
    offsets: int = gauge("penstock_group_coordinator_offsets", "Committed offsets that are kept here.")
    pending_offsets: int = gauge(
        "penstock_group_coordinator_pending_offsets", "Offsets that wait here for the ends of their transactions."
    )
    memory_bytes: int = gauge(
        "penstock_group_coordinator_memory_bytes", "Memory that the state of groups takes here, about."
    )
    memory_open_bytes: int = gauge(
        "penstock_group_coordinator_memory_open_bytes",
        "Memory that offsets take here until their transactions end, about. It has a limit of its own, as large.",
    )
    memory_max_bytes: int = gauge(
        "penstock_group_coordinator_memory_max_bytes",
        "Memory for groups, members and offsets. A principal may hold as much of it as stays free for others.",
    )
    memory_refusals: int = counter(
        "penstock_group_coordinator_memory_refusals",
        "Joins, assignments and offsets that were refused because their principal may not hold more memory here.",
    )
    commits: int = counter("penstock_group_commits", "Offsets that groups have committed here.")
    rebalances: int = counter("penstock_group_rebalances", "New generations and new epochs of groups.")
    removed_offsets: int = counter(
        "penstock_group_offsets_removed", "Committed offsets that expired, or whose topics were deleted."
    )
    loads: int = counter("penstock_group_loads", "Partitions of __consumer_offsets that were loaded.")
    loaded_records: int = counter("penstock_group_loaded_records", "Records that these loads have read.")
    load_ms: int = gauge("penstock_group_load_seconds", "Time that the last load took.", in_seconds)
    load_ms_max: int = gauge("penstock_group_load_max_seconds", "Time that the longest load took.", in_seconds)


class GroupFigures:
    """The parts that the figures are read from."""

    def __init__(
        self, led: Coordinator[Shard], memory: CoordinatorMemory, totals: GroupTotals, loads: LoadFigures
    ) -> None:
        self._led, self._memory, self._totals, self._loads = led, memory, totals, loads

    def largest_parties(self) -> Sequence[PartyShare]:
        """The parties that hold most of the memory of groups."""
        return self._memory.lasting.largest()

    def statistics(self) -> CoordinatorStatistics:
        led, loads = tuple(self._led.shards), self._loads
        states = [shard.state for shard in led]
        cores = [shard.core.statistics() for shard in led]
        counts = self._totals.with_live(core.counts for core in cores)
        return CoordinatorStatistics(
            active=states.count(ShardState.ACTIVE),
            loading=states.count(ShardState.LOADING),
            failed=states.count(ShardState.FAILED),
            members=sum(core.members for core in cores),
            offsets=sum(core.offsets for core in cores),
            pending_offsets=sum(core.pending_offsets for core in cores),
            memory_bytes=self._memory.lasting.used,
            memory_open_bytes=self._memory.passing.used,
            memory_max_bytes=self._memory.bytes_max,
            memory_refusals=self._memory.refusals,
            commits=counts.commits,
            rebalances=counts.rebalances,
            removed_offsets=counts.removed_offsets,
            loads=loads.loads,
            loaded_records=loads.records,
            load_ms=loads.last_ms,
            load_ms_max=loads.longest_ms,
        )
