"""Mistakes about transactions: of coordinators, of leaders and their logs, and of clients (I65 to I70)."""

from __future__ import annotations

from broker.apis.fetch_sessions.session_reads import SessionReads
from broker.apis.producing.transactional_produce import TransactionalProduce
from broker.replication import partition_reads
from broker.transactions import end_checks
from broker.transactions.coordinator.marker_sender import MarkerSender
from broker.transactions.ending import TransactionEnding
from broker.transactions.expiry import TransactionalIdExpiry
from broker.transactions.partitions import TransactionsPartitions
from broker.transactions.producer_init import ProducerInit
from broker.transactions.transaction_metadata import TransactionMetadata
from broker.transactions.transaction_shard import TransactionShard
from penstock.client.consumer.isolation import answered_batches
from penstock.client.consumer.isolation.answered_batches import _Dropping
from penstock.client.producer.transactions import whole_flush
from penstock.client.producer.transactions.transaction_core import TransactionCore
from penstock.client.producer.transactions.transactions import Transactions
from storage.append import producer_rules
from storage.append.producer_state import KnownProducers
from storage.append.transaction_state import UndecidedTransactions
from storage.cleaner.cleaned_transactions import CleanedTransactions
from storage.log.log_append import LogAppend
from storage.log.producers.producer_snapshots import ProducerSnapshots
from storage.recovery import producer_recovery
from storage.recovery.transaction_files import TransactionFiles
from tests.simulation.cluster.half_turns import MARKERS
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.stories import CALM as CALM_WEATHER
from tests.simulation.cluster.mutants.stories import LATE_WEATHER, directed, with_parts
from tests.simulation.cluster.network import Weather
from tests.simulation.cluster.plan import (
    Fault,
    Kind,
    Plan,
    StableReaderPlan,
    TopicKind,
    TopicPlan,
    TransactorKind,
    TransactorPlan,
)

CONFIG = {
    "transaction.state.log.num.partitions": 2,
    "transaction.state.log.min.isr": 1,
}
STOPS = tuple(Fault(1.0 + 1.0 * n, Kind.STOP, 1 + n % 3, 0, 0.4, 0.5) for n in range(5))
KILLS = tuple(Fault(1.0 + 1.0 * n, Kind.KILL, 1 + n % 3, 0, 0.4, 0.5) for n in range(5))
POWER = tuple(Fault(1.0 + 1.0 * n, Kind.POWER, 1 + n % 3, 0, 0.4, 0.5) for n in range(5))
BREAKS = tuple(Fault(1.0 + 0.4 * n, Kind.BREAK, 1 + n % 3, 1 + (n + 1) % 3, 0.1, 0.5) for n in range(10))
REPLACED_AND_LEADS = (
    Fault(4.0, Kind.REPLACE_DISK, 1, 0, 0.5, 0.5),
    *(Fault(6.5 + 2.5 * n, Kind.KILL, 2 + n, 0, 2.0, 0.5) for n in range(2)),
)
"""A broker fetches the cleaned logs anew. Then it leads them, while each of the others is down."""
AWAY = tuple(Fault(1.0 + 0.2 * n, Kind.KILL, 1 + n, 0, 3.5, 0.5) for n in range(2))
BETWEEN = tuple(
    fault
    for n in range(2)
    for fault in (
        *(Fault(1.0 + 2.2 * n, Kind.CUT, node, other, 1.4, 0.5) for node, other in ((1, 2), (2, 3), (1, 3))),
        *(Fault(1.4 + 2.2 * n, Kind.KILL, node, 0, 0.2, 0.5) for node in (1, 2, 3)),
    )
)
"""Brokers cannot tell each other how transactions end; then each is killed."""
SET_BACK = tuple(Fault(2.0, Kind.WALL_JUMP, n + 1, 0, 0.1, 0.2) for n in range(3))
"""The calendars of all brokers are set back by six minutes."""
LATE_MARKERS = tuple(Fault(1.0 + 2.2 * n, Kind.HALF_TURN, 1, 0, 2.0, MARKERS) for n in range(3))
CUTS = tuple(
    Fault(1.0 + 1.0 * n, Kind.CUT, 1 + n % 3, other, 1.0, 0.5)
    for n in range(5)
    for other in range(4)
    if other != 1 + n % 3
)
"""Each broker is cut off from all nodes, and not from the clients."""
UNHEARD = tuple(
    Fault(1.0 + 1.2 * n, Kind.CUT_ONE_WAY, 1 + n % 3, other, 1.0, 0.5)
    for n in range(4)
    for other in range(4)
    if other != 1 + n % 3
)
"""No node hears of what a broker appends, but it hears them: markers are in its log when the next one leads."""


def transacted(
    *faults: Fault,
    kind: TransactorKind = TransactorKind.OURS,
    tellings: int = 3,
    weather: Weather = CALM_WEATHER,
    timeout_ms: int = 800,
    log: dict[str, object] | None = None,
    topic: str = "",
    records: int = 4,
    copies: int = 3,
    copies_of_state: int = 3,
    **config: object,
) -> tuple[Plan, ...]:
    """Two topics, two writers over all of their partitions, or three over one topic; readers of committed records and
    of all."""
    topics = (
        TopicPlan("transacted-0", 2, copies, log or {}, TopicKind.TRANSACTED),
        TopicPlan("transacted-1", 1, copies, log or {}, TopicKind.TRANSACTED),
    )
    names = tuple(topic.name for topic in topics)
    readers = tuple(StableReaderPlan(name, 0.02, is_committed) for name in names for is_committed in (True, False))
    transactor = TransactorPlan(kind, (topic,) if topic else names, 0.05, records, timeout_ms)
    return with_parts(
        directed(*faults, topics=topics, tellings=tellings, weather=weather, **config),
        {**CONFIG, "transaction.state.log.replication.factor": copies_of_state},
        transactors=(transactor,) * (3 if topic else 2),
        stable_readers=(*readers, StableReaderPlan("transacted-0", 0.02, by_ranges=True)),
    )


CALM = transacted()
OF_KAFKA = transacted(kind=TransactorKind.KAFKA)
STOPPED = transacted(*STOPS)
KILLED = transacted(*KILLS)
UNPLUGGED = transacted(*POWER)
CUT_OFF = transacted(*CUTS)
LATE = transacted(weather=LATE_WEATHER, tellings=5)
SMALL_SEGMENTS = {"segment.bytes": 4096}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": 4096,
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": 400,
}

TRANSACTIONS = (
    # -- leaders and their logs
    Mutant(
        "the last stable offset passes over open transactions",
        "KIP-98",
        (
            Edit(
                partition_reads.stable_end,
                "high_watermark if first is None or first > high_watermark else max(first, log.log_start_offset)",
                "high_watermark",
            ),
        ),
        stories=CALM,
    ),
    Mutant(
        "a marker decides before it is committed",
        "KIP-98: a failover loses the marker",
        (Edit(UndecidedTransactions.first_undecided, "self._ended[0].marker_offset < high_watermark", "True"),),
        stories=(*CALM, *STOPPED),
    ),
    Mutant(
        "a leader adds no partition to a transaction",
        "KIP-890: transaction version 2",
        (
            Edit(
                TransactionalProduce.holds,
                "    partition.must_have_enough(",
                "    return False\n    partition.must_have_enough(",
            ),
        ),
        stories=CALM,
    ),
    Mutant(  # alone, each of the two is harmless: the log refuses what the coordinator has let pass, and the other way
        "no epoch is too old for a batch",
        "KIP-360: zombies",
        (
            Edit(producer_rules.must_fit, "elif epoch < known.epoch:", "elif False:"),
            Edit(TransactionsPartitions._known, "if found.producer_epoch != producer_epoch or", "if False or"),
        ),
        stories=(*CALM, *LATE),
    ),
    Mutant(
        "the leader does not tell which transactions were aborted",
        "KIP-98: the aborted list of a fetch",
        (
            Edit(
                SessionReads.read,
                "_aborted(source, watched.wanted.fetch_offset, found.next_offset)",
                "()",
            ),
        ),
        stories=CALM,
    ),
    Mutant(
        "a follower learns nothing of aborted transactions",
        "Redpanda: state of a new leader",
        (
            Edit(
                LogAppend.as_follower,
                "return self._write(fetched_runs(records, batches, room, config.segment_bytes), info, old_below)",
                "self._write(fetched_runs(records, batches, room, config.segment_bytes), info, old_below)\n"
                "    self._producers.aborted.cut(0)\n"
                "    return info",
            ),
        ),
        stories=(*CALM, *STOPPED),
    ),
    Mutant(
        "a start forgets the aborted transactions",
        "KAFKA-14034's kin: the index after a restart",
        (Edit(producer_recovery.read_indexes, "aborted.take_all(iter_entries(entries))", "pass"),),
        stories=transacted(*STOPS, log=SMALL_SEGMENTS),
    ),
    Mutant(
        "an index of aborted transactions that is gone counts as empty",
        "KAFKA-14034's kin: the index after a restart",
        (
            Edit(ProducerSnapshots.write, "for file in one.files:", "for file in ():"),
            Edit(
                producer_recovery.read_indexes,
                "        if entries is None:",
                "        if content is None:\n            continue\n        if entries is None:",
            ),
        ),
        stories=transacted(*STOPS, log=SMALL_SEGMENTS),
    ),
    Mutant(
        "a truncation leaves aborted transactions that are cut",
        "KAFKA-14034's kin: the index after a truncation",
        (Edit(TransactionFiles.cut, "if self.aborted.cut(log_end_offset):", "if False:"),),
        stories=transacted(*UNHEARD, tellings=6, timeout_ms=400, copies_of_state=1),
    ),
    Mutant(
        "a log that is opened forgets the open transactions",
        "KAFKA-14034: state and log differ",
        (
            Edit(
                KnownProducers.__init__,
                "dict(producers or {})",
                "{one: known._replace(transaction=known.transaction and"
                " known.transaction._replace(first_offset=NO_OFFSET)) for one, known in (producers or {}).items()}",
            ),
        ),
        stories=(*transacted(*KILLS, log=SMALL_SEGMENTS), *STOPPED),
    ),
    Mutant(
        "a producer is forgotten while its transaction is open",
        "KIP-98: producer expiration",
        (Edit(KnownProducers._idle, "if not one[1].has_open_transaction", "if True"),),
        stories=transacted(timeout_ms=3_000, producer_id_expiration_ms=400),
    ),
    Mutant(
        "the cleaner takes markers that are needed",
        "KIP-534",
        (Edit(CleanedTransactions.is_needed, "if marker.producer_id not in self._has_batches:", "if True:"),),
        stories=transacted(*REPLACED_AND_LEADS, log=COMPACTED, log_cleaner_backoff_ms=200, seconds=11.0),
    ),
    # -- the coordinator
    Mutant(
        "markers leave before the decision is committed",
        "KIP-98",
        (
            Edit(
                TransactionEnding.send_again,
                "turn.answer(MarkersTicket(self._markers, end), end)",
                "self._markers.send(end)",
            ),
        ),
        stories=CALM,
    ),
    Mutant(  # three lines forbid it
        "a time-out undoes a decision",
        "KIP-98",
        (
            Edit(TransactionEnding._prepare, "self._timers.cancel(prepared.transactional_id)", "pass"),
            Edit(TransactionEnding._time_up, "transaction.state in _OPEN", "True"),
            Edit(TransactionMetadata.moved, "if state not in MOVES[self.state]:", "if False:"),
        ),
        stories=(*CUT_OFF, *transacted(*CUTS, tellings=6, timeout_ms=300)),
    ),
    Mutant(
        "a transactional id expires with a decision that is not carried out",
        "KIP-98: transactional.id.expiration.ms",
        (
            Edit(
                TransactionalIdExpiry._is_expired,
                "transaction.state in CLOSED",
                "(transaction.state in CLOSED or transaction.is_prepared)",
            ),
        ),
        stories=transacted(
            *AWAY[:1],
            copies=1,
            tellings=8,
            delivery_timeout_ms=2_600,
            transactional_id_expiration_ms=2_000,
            transaction_remove_expired_transaction_cleanup_interval_ms=100,
        )[2:],  # in those before, an id expires under a producer that waits
    ),
    Mutant(
        "a marker of a coordinator that was replaced is taken",
        "KIP-98: the coordinator's epoch",
        (Edit(producer_rules.must_be_newest_coordinator, "marker.coordinator_epoch < newest", "False"),),
        stories=transacted(
            *LATE_MARKERS,
            kind=TransactorKind.KAFKA,
            topic="transacted-1",
            records=40,
            timeout_ms=4_000,
            tellings=6,
            seconds=8.0,
        ),
    ),
    Mutant(
        "whoever has been a producer ends the transaction",
        "KIP-588: fencing",
        (Edit(end_checks.check_end, "if not is_next and not is_repeated:", "if False:"),),
        stories=(*CALM, *LATE),
    ),
    Mutant(
        "the other end is answered like the one that was decided",
        "KIP-588: a commit after the time-out",
        (Edit(end_checks._check_same_end, "if _ENDS[found.state] is not request.is_committed:", "if False:"),),
        stories=transacted(timeout_ms=300, tellings=5),
    ),
    Mutant(
        "a new producer has the epoch of the one before",
        "KIP-360",
        (Edit(ProducerInit.init, "found.producer_epoch + 1, last)", "found.producer_epoch, last)"),),
        stories=CALM,
    ),
    Mutant(
        "an end gives no other epoch",
        "KIP-890: transaction version 2",
        (
            Edit(
                TransactionEnding.end,
                "transaction.producer_epoch + 1,",
                "transaction.producer_epoch,",
            ),
        ),
        stories=CALM,
    ),
    Mutant(
        "a load passes over what is prepared",
        "KIP-98: a new coordinator sends the markers again",
        (Edit(TransactionShard._loaded, "elif transaction.is_prepared:", "elif False:"),),
        stories=transacted(*BETWEEN, tellings=5, copies_of_state=1),
    ),
    Mutant(
        "a marker that was not written is not sent again",
        "KIP-98",
        (Edit(MarkerSender._failed, "self._rest(sent, partition, error)", "pass"),),
        stories=transacted(*AWAY, tellings=3, timeout_ms=400, min_isr=2),  # a leader refuses it meanwhile
    ),
    Mutant(
        "the stamps of decisions fall with the calendar",
        "2026: leaders took the ends of transactions for calls that come late after a calendar was set back",
        (Edit(MarkerSender.stamp_ms, "max(decided_ms, self._newest_ms + 1)", "decided_ms"),),
        stories=transacted(*SET_BACK, kind=TransactorKind.KAFKA),
    ),
    Mutant(
        "one partition hears of the end",
        "KIP-98: atomic over partitions",
        (
            Edit(
                TransactionEnding.send_again,
                "tuple(sorted(transaction.partitions))",
                "tuple(sorted(transaction.partitions))[:1]",
            ),
        ),
        stories=CALM,
    ),
    # -- clients
    Mutant(
        "a reader of committed records is given all",
        "KIP-98",
        (
            Edit(
                answered_batches.read_answer,
                "_Dropping(aborted) if aborted else None",
                "None",
            ),
        ),
        stories=CALM,
    ),
    Mutant(
        "a reader is given the first batch of an aborted transaction",
        "KIP-98",
        (
            Edit(
                _Dropping.look,
                "self._later[-1].first_offset <= header.base_offset",
                "self._later[-1].first_offset < header.base_offset",
            ),
        ),
        stories=CALM,
    ),
    Mutant(
        "a reader leaves out what a producer commits after it has aborted",
        "KIP-98",
        (Edit(_Dropping.look, "self._open.discard(header.producer_id)", "pass"),),
        stories=CALM,
    ),
    Mutant(
        "a commit does not wait for its records",
        "KIP-98",
        (Edit(whole_flush.flush_whole, "while not accumulator.partitions.is_idle:", "while False:"),),
        stories=CALM,
    ),
    Mutant(
        "an end whose answer was lost counts as ended",
        "KIP-98: the outcome of a commit",
        (
            Edit(
                Transactions._answer,
                "self._core.on_not_ended(error)",
                "return EndTxnResponse(question.producer_id, question.producer_epoch)",
            ),
        ),
        stories=(*transacted(*BREAKS), *STOPPED),
    ),
    Mutant(
        "a producer commits what has failed in part",
        "KIP-98",
        (Edit(TransactionCore.on_failed, "self.phase not in (Phase.OPEN, Phase.FLUSHING)", "True"),),
        stories=transacted(*AWAY, copies=1, timeout_ms=8_000, delivery_timeout_ms=2_600),
    ),
)
