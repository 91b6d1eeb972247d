"""The figures of this broker's coordinator of transactions, with the metrics that show them. May be read in any thread.

Not here: the verification of partitions (verification/), and requests that wait, which the request channel counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.coordination.coordinator import Coordinator
from broker.coordination.loading import LoadFigures
from broker.coordination.memory_shares import CoordinatorMemory
from broker.coordination.shard_ports import ShardState
from broker.load.party_shares import PartyShare
from broker.transactions.coordinator.marker_sender import MarkerSender
from broker.transactions.transaction_figures import TransactionCounters
from broker.transactions.transaction_shard import TransactionShard
from penstock.metric_fields import counter, gauge, in_seconds, measured

_PARTITIONS = "penstock_transaction_coordinator_partitions"
_PARTITIONS_HELP = (
    "Partitions of __transaction_state that this broker leads: those that serve, load, or cannot be read."
)
_STATES = "penstock_transactions"
_STATES_HELP = (
    "Transactional ids that are coordinated here: with an open transaction, with one that is decided and lacks markers,"
    " or with none."
)
_ENDED = "penstock_transactions_ended"
_ENDED_HELP = "Transactions that were decided here. Aborted ones count those that timed out or were fenced, too."
_BATCHES = "penstock_atomic_batches_decided"
_BATCHES_HELP = (
    "Versions of atomic batches that were decided here. One that nobody decides counts as aborted when another begins."
)


@measured
class TransactionCoordinatorStatistics:
    """The figures of this broker's coordinator of transactions."""

    active: int = gauge(_PARTITIONS, _PARTITIONS_HELP, state="active")
    loading: int = gauge(_PARTITIONS, _PARTITIONS_HELP, state="loading")
    failed: int = gauge(_PARTITIONS, _PARTITIONS_HELP, state="failed")
    ongoing: int = gauge(_STATES, _STATES_HELP, state="ongoing")
    prepared: int = gauge(_STATES, _STATES_HELP, state="prepared")
    idle: int = gauge(_STATES, _STATES_HELP, state="idle")
    memory_bytes: int = gauge(
        "penstock_transaction_coordinator_memory_bytes", "Memory that transactional ids take here, about."
    )
    memory_open_bytes: int = gauge(
        "penstock_transaction_coordinator_memory_open_bytes",
        "Memory that open transactions take here, about. It has a limit of its own, as large.",
    )
    memory_max_bytes: int = gauge(
        "penstock_transaction_coordinator_memory_max_bytes",
        "Memory for transactional ids. A principal may hold as much of it as stays free for others.",
    )
    memory_refusals: int = counter(
        "penstock_transaction_coordinator_memory_refusals",
        "Transactional ids and partitions of transactions that were refused because their principal may not hold more"
        " memory here.",
    )
    begun: int = counter("penstock_transactions_begun", "Transactions that were begun here.")
    committed: int = counter(_ENDED, _ENDED_HELP, outcome="committed")
    aborted: int = counter(_ENDED, _ENDED_HELP, outcome="aborted")
    timed_out: int = counter(
        "penstock_transactions_timed_out", "Transactions that were aborted because their time was up."
    )
    fenced: int = counter(
        "penstock_transactions_fenced", "Transactions that were aborted because a newer producer began."
    )
    expired_ids: int = counter("penstock_transactional_ids_expired", "Transactional ids that were forgotten.")
    applications: int = gauge(
        "penstock_atomic_batch_applications", "Applications of atomic batches that are known here."
    )
    batches_committed: int = counter(_BATCHES, _BATCHES_HELP, outcome="committed")
    batches_aborted: int = counter(_BATCHES, _BATCHES_HELP, outcome="aborted")
    runs_fenced: int = counter(
        "penstock_atomic_batch_runs_fenced",
        "Runs of applications after which another one began, as after each restart. Many of one application: two runs"
        " take turns.",
    )
    markers_waiting: int = gauge(
        "penstock_transaction_markers_waiting", "Partitions that lack the marker of a decided transaction."
    )
    markers_failing: int = gauge(
        "penstock_transaction_markers_failing",
        "Partitions whose leaders have not written a marker in several tries. Their readers of committed records stand"
        " still.",
    )
    oldest_marker_ms: int = gauge(
        "penstock_transaction_markers_oldest_seconds",
        "Time since the decision of the oldest transaction that still lacks markers.",
        in_seconds,
    )
    markers_written: int = counter("penstock_transaction_markers_written", "Markers that leaders have written.")
    marker_failures: int = counter(
        "penstock_transaction_marker_failures", "Tries to have a marker written that failed; each is tried again."
    )
    loads: int = counter("penstock_transaction_loads", "Partitions of __transaction_state that were loaded.")
    loaded_records: int = counter("penstock_transaction_loaded_records", "Records that these loads have read.")
    load_ms: int = gauge("penstock_transaction_load_seconds", "Time that the last load took.", in_seconds)
    load_ms_max: int = gauge("penstock_transaction_load_max_seconds", "Time that the longest load took.", in_seconds)


class TransactionFigures:
    """The parts that the figures are read from."""

    def __init__(
        self,
        led: Coordinator[TransactionShard],
        sender: MarkerSender,
        memory: CoordinatorMemory,
        counters: TransactionCounters,
        loads: LoadFigures,
    ) -> None:
        self._led, self._sender, self._memory = led, sender, memory
        self._counters, self._loads = counters, loads

    def largest_parties(self) -> Sequence[PartyShare]:
        """The parties that hold most of the memory of transactional ids."""
        return self._memory.lasting.largest()

    def statistics(self) -> TransactionCoordinatorStatistics:
        led, loads, counters, sender = tuple(self._led.shards), self._loads, self._counters, self._sender
        states = [shard.state for shard in led]
        cores = [shard.core.statistics() for shard in led]
        ongoing, prepared = sum(core.ongoing for core in cores), sum(core.prepared for core in cores)
        return TransactionCoordinatorStatistics(
            active=states.count(ShardState.ACTIVE),
            loading=states.count(ShardState.LOADING),
            failed=states.count(ShardState.FAILED),
            ongoing=ongoing,
            prepared=prepared,
            idle=max(0, sum(core.transactional_ids for core in cores) - ongoing - prepared),
            memory_bytes=self._memory.lasting.used,
            memory_open_bytes=self._memory.passing.used,
            memory_max_bytes=self._memory.bytes_max,
            memory_refusals=self._memory.refusals,
            begun=counters.begun,
            committed=counters.committed,
            aborted=counters.aborted,
            timed_out=counters.timed_out,
            fenced=counters.fenced,
            expired_ids=counters.expired,
            applications=sum(core.applications for core in cores),
            batches_committed=counters.batches_committed,
            batches_aborted=counters.batches_aborted,
            runs_fenced=counters.runs_fenced,
            markers_waiting=sender.open_partitions,
            markers_failing=sender.failing,
            oldest_marker_ms=sender.oldest_ms,
            markers_written=sender.written,
            marker_failures=sender.failures,
            loads=loads.loads,
            loaded_records=loads.records,
            load_ms=loads.last_ms,
            load_ms_max=loads.longest_ms,
        )
