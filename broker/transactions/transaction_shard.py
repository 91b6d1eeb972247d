"""The core of one partition of `__transaction_state`: takes its records, and passes each request to the class that
decides it.

    InitProducerId                          producer_init.py
    AddPartitionsToTxn, AddOffsetsToTxn     partitions.py
    EndTxn, time-outs, markers              ending.py
    DescribeTransactions, ListTransactions  listing.py
    Begin-, Commit-, AbortAtomicBatch       atomic_batches/decisions.py

After a load every open transaction has its time-out again, and every prepared one sends its markers again. Pure: no
I/O, no time of its own. Not here: the driver, which appends and answers (coordination/led_shard.py, coordinator/).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Final

from broker.coordination.held_memory import ShardMemory
from broker.coordination.memory_shares import CoordinatorMemory
from broker.coordination.record_log import TxnProducer
from broker.coordination.timers import Timers
from broker.coordination.turn import Client, Ticket, Turn
from broker.coordination.watched_time import WatchedTime, WatchedTimeKey
from broker.transactions.atomic_batches.batch_records import BatchApplicationKey
from broker.transactions.atomic_batches.decisions import AtomicBatchDecisions
from broker.transactions.atomic_batches.held_applications import HeldApplications, is_begun, is_of_batch
from broker.transactions.ending import TransactionEnding
from broker.transactions.expiry import TransactionalIdExpiry
from broker.transactions.fresh_ids import WithProducerId
from broker.transactions.listing import TransactionListings
from broker.transactions.marker_port import MarkerPort, MarkersWritten, SendMarkersAgain
from broker.transactions.partitions import TransactionsPartitions
from broker.transactions.producer_init import ProducerInit
from broker.transactions.transaction_config import TransactionConfig
from broker.transactions.transaction_figures import (
    HeldTransactions,
    TransactionCounters,
    TransactionStatistics,
    unit_of,
)
from broker.transactions.transaction_metadata import TransactionMetadata
from broker.transactions.transaction_states import CLOSED
from broker.transactions.waiting_adds import WaitingAdds
from penstock.errors import ApiError, InvariantViolation, UnsupportedVersionError
from penstock.messages.produce import InitProducerIdRequest
from penstock.messages.transactions.atomic_batches import (
    AbortAtomicBatchRequest,
    BeginAtomicBatchRequest,
    CommitAtomicBatchRequest,
    application_id,
)
from penstock.messages.transactions.listing import (
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    TransactionState,
)
from penstock.messages.transactions.producers import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
)
from penstock.record.markers import Marker

LOADED_TRANSACTIONS: Final = 500
"""Transactions that are looked at in one step after the load."""


class TransactionShard:
    """The core of one partition of `__transaction_state`."""

    def __init__(
        self, config: TransactionConfig, markers: MarkerPort, memory: CoordinatorMemory, counters: TransactionCounters
    ) -> None:
        """`markers` is this lead's; `memory` and `counters` are the broker's."""
        self.timers: Timers[Turn] = Timers()
        self.watched = watched = WatchedTime(config.transaction_remove_expired_transaction_cleanup_interval_ms)
        self._memory = held_memory = ShardMemory(memory)
        self._held = held = HeldTransactions(held_memory)
        self._waiting = WaitingAdds(self.timers)
        self._ending = TransactionEnding(
            held=held, timers=self.timers, watched=watched, markers=markers, waiting=self._waiting, counters=counters
        )
        self._partitions = TransactionsPartitions(config, held, self._ending, self._waiting, counters)
        self._listings = TransactionListings(held, watched)
        self._expiry = TransactionalIdExpiry(config, held, self.timers, watched, counters)
        self._init = ProducerInit(config, held, held_memory, self._ending, counters)
        self._applications = HeldApplications(held_memory)
        self._batches = AtomicBatchDecisions(
            config=config,
            held=held,
            applications=self._applications,
            ending=self._ending,
            timers=self.timers,
            watched=watched,
            memory=held_memory,
            counters=counters,
        )
        self._with_id: Mapping[type[Any], Callable[[Turn, Ticket, Any, int | None], None]] = {
            InitProducerIdRequest: self._init.init,
            EndTxnRequest: self._ending.end,
            BeginAtomicBatchRequest: self._batches.begin,
        }
        """Requests that may need a fresh producer id."""
        self._handlers: Mapping[type[Any], Callable[[Turn, Ticket, Any], None]] = {
            AddPartitionsToTxnRequest: self._partitions.add,
            AddOffsetsToTxnRequest: self._partitions.add_group,
            MarkersWritten: self._ending.written,
            SendMarkersAgain: self._ending.asked_again,
            DescribeTransactionsRequest: self._listings.describe,
            ListTransactionsRequest: self._listings.list,
            CommitAtomicBatchRequest: self._batches.commit,
            AbortAtomicBatchRequest: self._batches.abort,
        }

    # -- records -------------------------------------------------------------------------------------------------------

    def replay(self, key: Any, value: Any | None, producer: TxnProducer | None = None) -> None:
        """Take a record into the state: of a decision, or of the log."""
        if producer is not None:
            raise InvariantViolation(f"the state of {key} is part of no transaction")
        if isinstance(key, BatchApplicationKey):
            self._applications.put(key.application, value)
            return
        if isinstance(key, WatchedTimeKey):
            self.watched.replay(key, value)
            return
        self._held.put(key.transactional_id, value)
        if is_of_batch(key.transactional_id):
            self._applications.put_writer(key.transactional_id, value)

    def replay_marker(self, marker: Marker) -> None:
        """No record of this log belongs to a producer's transaction."""

    def loaded(self) -> Sequence[Callable[[Turn], None]]:
        """The state is whole: in steps of some transactions; the shard takes requests in between."""
        found = [one.transactional_id for one in self._held.by_id.values() if one.state not in CLOSED or is_begun(one)]
        ids = iter(found)
        parts = iter(lambda: list(islice(ids, LOADED_TRANSACTIONS)), [])
        looks = self._expiry.look, self._batches.expire
        return (self._batches.loaded, *(partial(self._loaded, part) for part in parts), *looks)

    def _loaded(self, transactional_ids: Sequence[str], turn: Turn) -> None:
        """Requests may have come since the load: each transaction is looked at as it is now. To set a time-out again or
        to send an end twice does no harm."""
        for transactional_id in transactional_ids:
            transaction = self._held.by_id.get(transactional_id)
            if transaction is None:
                continue
            if transaction.state is TransactionState.ONGOING or is_begun(transaction):
                self._ending.opened(turn, transaction)
            elif transaction.is_prepared:
                self._ending.send_again(turn, transaction)

    def unloaded(self) -> Sequence[tuple[Ticket, ApiError]]:
        """The requests that wait, with their answer. The state is used no more."""
        self._held.give_up()
        self._applications.give_up()
        self._memory.give_up()
        return self._waiting.unloaded()

    def topics_changed(self, turn: Turn, changed: frozenset[str], deleted: frozenset[str]) -> None:
        """Does nothing: the sender of markers passes over partitions that are gone."""

    # -- requests ------------------------------------------------------------------------------------------------------

    def handle(self, turn: Turn, ticket: Ticket, request: Any, client: Client) -> None:
        """Decide on a request. An ApiError is raised before anything is written. `NEEDS_PRODUCER_ID` as an answer: the
        request must come again, as `WithProducerId`."""
        fresh: int | None = None
        if isinstance(request, WithProducerId):
            request, fresh = request.request, request.producer_id
        kind = type(request)
        with self._memory.deciding_for(client.party):
            if (with_id := self._with_id.get(kind)) is not None:
                with_id(turn, ticket, request, fresh)
            elif (handler := self._handlers.get(kind)) is not None:
                handler(turn, ticket, request)
            else:
                raise UnsupportedVersionError(f"{kind.__name__} is no request about transactions")
        if (unit := _used_unit(request)) is not None:
            self._memory.claim(unit, client.party)

    # -- figures -------------------------------------------------------------------------------------------------------

    def transaction(self, transactional_id: str) -> TransactionMetadata | None:
        return self._held.by_id.get(transactional_id)

    def statistics(self) -> TransactionStatistics:
        """May be called in any thread."""
        return replace(self._held.statistics(), applications=len(self._applications))

    def __repr__(self) -> str:
        return f"TransactionShard({self._held!r})"


def _used_unit(request: Any) -> str | None:
    """The unit of memory that its owner uses by this request. Partitions are added by leaders, too, and ids are listed
    by administrators."""
    if isinstance(request, BeginAtomicBatchRequest | CommitAtomicBatchRequest | AbortAtomicBatchRequest):
        return application_id(request.application)
    if isinstance(request, InitProducerIdRequest | AddOffsetsToTxnRequest | EndTxnRequest):
        return unit_of(request.transactional_id or "")
    return None
