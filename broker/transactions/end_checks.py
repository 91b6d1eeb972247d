"""EndTxn: which producer may end which transaction how, and which request repeats one that was answered before.

                     version 1, same id and epoch          version 2, same id and epoch    …and the epoch before it
    Ongoing          decided                               decided                         PRODUCER_FENCED
    Empty            INVALID_TXN_STATE                     an abort: decided, or           PRODUCER_FENCED
                                                           INVALID_TXN_STATE
    Prepare*         CONCURRENT_TRANSACTIONS, or           CONCURRENT_TRANSACTIONS         as version 1
                     INVALID_TXN_STATE for the other end
    Complete*        the answer again, or                  as Empty                        as version 1
                     INVALID_TXN_STATE for the other end

Every end in version 2 gives the next epoch, so a request with the epoch before it is the one that was decided, and one
with the newest is the end of the next transaction, which may be empty. The last epoch before a new producer id counts
as the one before that. Pure. Not here: what a decision is (ending.py).
"""

from __future__ import annotations

from broker.transactions.transaction_metadata import EPOCH_MAX, NO_PRODUCER_EPOCH, TransactionMetadata
from broker.transactions.transactional_ids import check_not_reserved, check_transactional_id
from penstock.errors import (
    ConcurrentTransactionsError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
)
from penstock.messages.transactions.listing import TransactionState
from penstock.messages.transactions.producers import EndTxnRequest

_ENDS = {
    TransactionState.PREPARE_COMMIT: True,
    TransactionState.COMPLETE_COMMIT: True,
    TransactionState.PREPARE_ABORT: False,
    TransactionState.COMPLETE_ABORT: False,
}
"""True for a commit."""


def check_end(found: TransactionMetadata | None, request: EndTxnRequest) -> TransactionMetadata | None:
    """The transaction that is to be ended; None if it has ended so, and the answer is the same again. Raises what the
    producer is told otherwise."""
    check_transactional_id(request.transactional_id)
    check_not_reserved(request.transactional_id)
    if found is None:
        raise _no_mapping(request)
    is_next, is_repeated = _is_next(found, request), _is_repeated(found, request)
    if not is_next and not is_repeated:
        known = {found.producer_id, found.next_producer_id}
        if request.bumps_epoch:
            known.add(found.previous_producer_id)
        if request.producer_id not in known:
            raise _no_mapping(request)
        raise found.fenced(request.producer_id, request.producer_epoch)
    if found.state is TransactionState.ONGOING:
        return found
    if is_repeated:
        _check_same_end(found, request)
        return None
    if found.is_prepared:
        raise _still_being_ended(request)
    if request.bumps_epoch and not request.is_committed:
        return found
    raise InvalidTxnStateError(
        f"{request.transactional_id!r} has no open transaction to {_word(request.is_committed)}: it is"
        f" {found.state.value}"
    )


def _is_next(found: TransactionMetadata, request: EndTxnRequest) -> bool:
    """True if the request is of the producer that is the newest, or will be when the last transaction is complete."""
    if found.next_producer_id >= 0:
        return (request.producer_id, request.producer_epoch) == (found.next_producer_id, 0)
    is_newest = (request.producer_id, request.producer_epoch) == (found.producer_id, found.producer_epoch)
    return is_newest and request.producer_epoch < EPOCH_MAX


def _is_repeated(found: TransactionMetadata, request: EndTxnRequest) -> bool:
    """True if the request is of the producer whose last transaction is decided."""
    if found.state not in _ENDS:
        return False
    of_request = request.producer_id, request.producer_epoch
    if not request.bumps_epoch:
        return of_request == (found.producer_id, found.producer_epoch)
    if request.producer_epoch == NO_PRODUCER_EPOCH or request.producer_epoch != found.last_producer_epoch:
        return False
    is_first_of_new_id = found.producer_epoch == 0
    return of_request[0] == (found.previous_producer_id if is_first_of_new_id else found.producer_id)


def _check_same_end(found: TransactionMetadata, request: EndTxnRequest) -> None:
    if _ENDS[found.state] is not request.is_committed:
        raise InvalidTxnStateError(
            f"the transaction of {request.transactional_id!r} cannot {_word(request.is_committed)}:"
            f" {found.why_aborted or f'it is {found.state.value}'}"
        )
    if found.is_prepared:
        raise _still_being_ended(request)


def _still_being_ended(request: EndTxnRequest) -> ConcurrentTransactionsError:
    return ConcurrentTransactionsError(
        f"the last transaction of {request.transactional_id!r} is still being ended; ask again"
    )


def _no_mapping(request: EndTxnRequest) -> InvalidProducerIdMappingError:
    return InvalidProducerIdMappingError(
        f"transactional id {request.transactional_id!r} does not belong to producer {request.producer_id}"
    )


def _word(is_committed: bool) -> str:
    return "commit" if is_committed else "abort"
