"""InitProducerId of a transactional id: decides its producer from now on, and that producer's id and epoch.

    nothing is open      the next epoch; a new producer id if the epochs of this one are used up
    a transaction is     it is aborted by an epoch above its producer's, and the caller is told to ask again:
    open                 CONCURRENT_TRANSACTIONS
    one is being ended   CONCURRENT_TRANSACTIONS

A producer that goes on (KIP-360) names the id and epoch that it has. It gets the next epoch if they are the newest, and
the same answer again if it repeats the request whose answer was lost, or if it was its own transaction that was
aborted. If another producer has begun meanwhile it is fenced. One whose id has expired meanwhile gets a new one. Two
answers differ from Kafka's: a producer that names an old epoch aborts nothing, and one whose transaction a newer
producer has aborted is fenced at once. Kafka lets it abort and go on until the newer one has come again, and neither
may win. Pure.
"""

from __future__ import annotations

from broker.coordination.held_memory import ShardMemory
from broker.coordination.turn import Ticket, Turn
from broker.transactions.ending import TransactionEnding
from broker.transactions.fresh_ids import NEEDS_PRODUCER_ID
from broker.transactions.transaction_config import TransactionConfig
from broker.transactions.transaction_figures import HeldTransactions, TransactionCounters
from broker.transactions.transaction_memory import id_bytes
from broker.transactions.transaction_metadata import EPOCH_MAX, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TransactionMetadata
from broker.transactions.transaction_records import TransactionLogKey
from broker.transactions.transactional_ids import check_not_reserved, check_transactional_id
from penstock.errors import (
    ConcurrentTransactionsError,
    InvalidRequestError,
    InvalidTransactionTimeoutError,
    ProducerFencedError,
)
from penstock.messages.produce import InitProducerIdRequest, InitProducerIdResponse
from penstock.messages.transactions.listing import TransactionState
from penstock.types import NO_TIMESTAMP


class ProducerInit:
    """Answers InitProducerId of transactional ids."""

    def __init__(
        self,
        config: TransactionConfig,
        held: HeldTransactions,
        memory: ShardMemory,
        ending: TransactionEnding,
        counters: TransactionCounters,
    ) -> None:
        self._config, self._held, self._memory = config, held, memory
        self._ending, self._counters = ending, counters

    def init(self, turn: Turn, ticket: Ticket, request: InitProducerIdRequest, fresh: int | None) -> None:
        """`fresh` is a producer id that nobody has, if one was handed in."""
        self._check(request)
        transactional_id = request.transactional_id or ""
        found = self._held.by_id.get(transactional_id)
        if found is None:
            named = request.producer_id, request.producer_epoch  # kept: the same request may be repeated
            before = TransactionMetadata(transactional_id, *named, 0, TransactionState.EMPTY, NO_TIMESTAMP)
            self._memory.must_have_room(id_bytes(before))
            self._give_new_id(turn, ticket, before, request, fresh)
            return
        self._check_named(found, request)
        if found.is_prepared:
            raise ConcurrentTransactionsError(
                f"the last transaction of {transactional_id!r} is still being ended; ask again"
            )
        if found.state is TransactionState.ONGOING:
            self._abort_open(turn, ticket, found, request, fresh)
        elif _is_repeated(found, request):
            if found.state is not TransactionState.EMPTY:
                empty = found.moved(TransactionState.EMPTY, turn.wall_ms, start_ms=NO_TIMESTAMP)
                again = empty._replace(previous_producer_id=found.previous_producer_id)  # it may be repeated once more
                turn.write(TransactionLogKey(transactional_id=transactional_id), again)
            turn.answer(ticket, InitProducerIdResponse(found.producer_id, found.producer_epoch))
        elif found.is_exhausted:
            self._give_new_id(turn, ticket, found, request, fresh)
        else:
            last = found.producer_epoch if _is_named(request) else NO_PRODUCER_EPOCH
            self._give(turn, ticket, found, request, found.producer_id, found.producer_epoch + 1, last)

    def _abort_open(
        self, turn: Turn, ticket: Ticket, found: TransactionMetadata, request: InitProducerIdRequest, fresh: int | None
    ) -> None:
        next_id = NO_PRODUCER_ID
        if found.is_exhausted:
            if fresh is None:
                turn.answer(ticket, NEEDS_PRODUCER_ID)
                return
            next_id = fresh
        self._ending.abort(turn, found, goes_on=_is_named(request), next_producer_id=next_id)
        self._counters.fenced += not _is_named(request)
        why = f"the open transaction of {found.transactional_id!r} is aborted first; ask again"
        turn.answer(ticket, ConcurrentTransactionsError(why))

    def _check(self, request: InitProducerIdRequest) -> None:
        transactional_id, timeout_ms = request.transactional_id or "", request.transaction_timeout_ms
        check_transactional_id(transactional_id)
        check_not_reserved(transactional_id)
        if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
            raise InvalidRequestError(
                f"producer id {request.producer_id} with epoch {request.producer_epoch}: name both, or neither by -1"
            )
        if request.producer_id < NO_PRODUCER_ID or not NO_PRODUCER_EPOCH <= request.producer_epoch <= EPOCH_MAX:
            raise InvalidRequestError(f"there is no producer {request.producer_id} with epoch {request.producer_epoch}")
        timeout_max = self._config.transaction_max_timeout_ms
        if not 0 < timeout_ms <= timeout_max:
            raise InvalidTransactionTimeoutError(
                f"a transaction's time-out of {timeout_ms} ms is not within 1 and {timeout_max} ms"
                " (transaction.max.timeout.ms)"
            )

    def _check_named(self, found: TransactionMetadata, request: InitProducerIdRequest) -> None:
        """ProducerFencedError if the producer that goes on is not the newest."""
        if not _is_named(request) or _is_repeated(found, request):
            return
        named = request.producer_id, request.producer_epoch
        is_newest = named == (found.producer_id, found.producer_epoch)
        may_be_newest = found.is_prepared and named in _of_prepared(found)
        if not is_newest and not may_be_newest:
            raise ProducerFencedError(
                f"producer {named[0]} with epoch {named[1]} is not the newest of {found.transactional_id!r}, which is"
                f" {found.producer_id} with epoch {found.producer_epoch}"
            )

    def _give_new_id(
        self, turn: Turn, ticket: Ticket, before: TransactionMetadata, request: InitProducerIdRequest, fresh: int | None
    ) -> None:
        if fresh is None:
            turn.answer(ticket, NEEDS_PRODUCER_ID)
            return
        is_next = _is_named(request) and before.producer_id != NO_PRODUCER_ID
        self._give(turn, ticket, before, request, fresh, 0, before.producer_epoch if is_next else NO_PRODUCER_EPOCH)

    def _give(
        self,
        turn: Turn,
        ticket: Ticket,
        before: TransactionMetadata,
        request: InitProducerIdRequest,
        producer_id: int,
        epoch: int,
        last_epoch: int,
    ) -> None:
        given = before.moved(
            TransactionState.EMPTY,
            turn.wall_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=request.transaction_timeout_ms,
            start_ms=NO_TIMESTAMP,
        )
        turn.write(TransactionLogKey(transactional_id=given.transactional_id), given)
        turn.answer(ticket, InitProducerIdResponse(producer_id, epoch))


def _is_named(request: InitProducerIdRequest) -> bool:
    return request.producer_id != NO_PRODUCER_ID


def _is_repeated(found: TransactionMetadata, request: InitProducerIdRequest) -> bool:
    """True if the producer has had its next epoch by such a request, and nobody came since."""
    if request.producer_epoch == NO_PRODUCER_EPOCH or request.producer_epoch != found.last_producer_epoch:
        return False
    if found.state is TransactionState.ONGOING or found.is_prepared:
        return False
    return request.producer_id == (found.producer_id if found.producer_epoch > 0 else found.previous_producer_id)


def _of_prepared(found: TransactionMetadata) -> tuple[tuple[int, int], ...]:
    """The producers that may go on when this transaction is complete: by the epoch that it had, by that of the
    markers, and by its next id."""
    return (
        (found.producer_id, found.producer_epoch),
        (found.producer_id, found.last_producer_epoch),
        (found.next_producer_id, 0),
    )
