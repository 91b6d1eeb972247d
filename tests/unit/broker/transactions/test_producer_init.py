"""InitProducerId: the first producer of an id, the next, one that goes on, and those that are fenced."""

from __future__ import annotations

import pytest

from broker.transactions.transaction_config import TransactionConfig
from broker.transactions.transaction_metadata import EPOCH_MAX
from broker.transactions.transaction_records import TransactionLogKey
from penstock.errors import (
    ConcurrentTransactionsError,
    InvalidRequestError,
    InvalidTransactionTimeoutError,
    PolicyViolationError,
    ProducerFencedError,
)
from tests.support.transaction_core import P0, TransactionsHere


def at_epoch(here: TransactionsHere, epoch: int) -> tuple[int, int]:
    """A producer, as if so many others of the same id had come before it."""
    here.init()
    before = here.transaction()._replace(producer_epoch=epoch - 1)
    here.take(lambda turn: turn.write(TransactionLogKey(transactional_id="t"), before))
    return here.init()


def test_a_new_id_gets_a_fresh_producer_id_and_the_next_producer_its_next_epoch() -> None:
    here = TransactionsHere()
    assert here.init() == (1000, 0)
    assert here.init() == (1000, 1)
    assert here.init("other") == (1001, 0)
    here.failover()
    assert here.init() == (1000, 2)


def test_a_producer_that_goes_on_gets_the_next_epoch_and_the_same_answer_again() -> None:
    here = TransactionsHere()
    first = here.init()
    assert here.init(named=first) == (1000, 1)
    assert here.init(named=first) == (1000, 1)
    here.failover()
    assert here.init(named=first) == (1000, 1)  # Kafka forgets it with the failover
    assert here.init(named=(1000, 1)) == (1000, 2)


def test_one_that_goes_on_is_fenced_once_another_has_begun() -> None:
    here = TransactionsHere()
    first = here.init()
    here.init()
    with pytest.raises(ProducerFencedError):
        here.init(named=first)


@pytest.mark.parametrize("version", [1, 2])
def test_a_producer_that_has_begun_a_transaction_asks_no_more_for_its_epoch(version: int) -> None:
    """The request is a late one: the producer has the answer."""
    here = TransactionsHere()
    first = here.init()
    producer = here.init(named=first)
    here.add(producer, version=version)
    for _ in range(2):
        with pytest.raises(ProducerFencedError):
            here.init(named=first)
    here.end(producer, version=version)
    here.markers_written()
    with pytest.raises(ProducerFencedError):
        here.init(named=first)


@pytest.mark.parametrize("named", [(999, 0), (1000, 5), (1000, EPOCH_MAX)])
def test_a_producer_that_never_was_is_fenced(named: tuple[int, int]) -> None:
    here = TransactionsHere()
    here.init()
    with pytest.raises(ProducerFencedError):
        here.init(named=named)


def test_a_producer_whose_id_expired_gets_a_new_one() -> None:
    assert TransactionsHere().init(named=(7, 3)) == (1000, 0)


@pytest.mark.parametrize("version", [1, 2])
def test_a_new_producer_aborts_the_open_transaction_first(version: int) -> None:
    here = TransactionsHere()
    old = here.init()
    here.add(old, version=version)
    with pytest.raises(ConcurrentTransactionsError):
        here.init()
    assert here.state() == "PrepareAbort"
    with pytest.raises(ConcurrentTransactionsError):
        here.init()
    (end,) = here.markers_written()
    assert (end.producer_epoch, end.is_committed) == (1, False)
    assert here.init() == (1000, 2)
    for is_committed in (True, False):
        with pytest.raises(ProducerFencedError):
            here.end(old, is_committed, version=version)
    assert isinstance(here.add(old)[0], ProducerFencedError)
    assert here.counters.fenced == 1


def test_a_zombie_that_names_its_old_epoch_aborts_nothing() -> None:
    here = TransactionsHere()
    zombie = here.init()
    newest = here.init()
    here.add(newest)
    with pytest.raises(ProducerFencedError):
        here.init(named=zombie)
    assert here.state() == "Ongoing"
    assert here.end(newest) == (1000, 2)


def test_a_producer_whose_epochs_are_used_up_gets_a_new_id_and_the_old_one_is_fenced() -> None:
    here = TransactionsHere()
    last = at_epoch(here, EPOCH_MAX - 1)
    assert last == (1000, EPOCH_MAX - 1)
    assert here.init() == (1001, 0)
    with pytest.raises(ProducerFencedError):
        here.init(named=last)


def test_one_that_goes_on_with_its_epochs_used_up_may_repeat_the_request() -> None:
    here = TransactionsHere()
    last = at_epoch(here, EPOCH_MAX - 1)
    assert here.init(named=last) == (1001, 0)
    assert here.init(named=last) == (1001, 0)
    here.failover()
    assert here.init(named=last) == (1001, 0)
    here.add((1001, 0))
    with pytest.raises(ProducerFencedError):
        here.init(named=last)


@pytest.mark.parametrize("version", [1, 2])
def test_fencing_the_last_epoch_gives_the_next_producer_a_new_id(version: int) -> None:
    here = TransactionsHere()
    last = at_epoch(here, EPOCH_MAX - 1)
    here.add(last, version=version)
    with pytest.raises(ConcurrentTransactionsError):
        here.init()
    (end,) = here.markers_written()
    assert end.producer_epoch == EPOCH_MAX
    for producer in (last, (1000, EPOCH_MAX)):
        with pytest.raises(ProducerFencedError):
            here.end(producer, False)
        with pytest.raises(ProducerFencedError):
            here.init(named=producer)
    assert here.init() == (1001, 1)


def test_a_producer_aborts_its_own_open_transaction_and_goes_on() -> None:
    here = TransactionsHere()
    for producer, following in (((1000, 0), (1000, 1)), ((1000, EPOCH_MAX - 1), (1001, 0))):
        assert at_epoch(here, producer[1]) == producer
        here.add(producer)
        with pytest.raises(ConcurrentTransactionsError):
            here.init(named=producer)
        with pytest.raises(ConcurrentTransactionsError):
            here.init(named=producer)
        here.failover()
        here.markers_written()
        for _ in range(3):
            assert here.init(named=producer) == following
            here.failover()
    assert here.counters.fenced == 0


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_time_out_that_is_none_or_too_long_is_refused(timeout_ms: int) -> None:
    with pytest.raises(InvalidTransactionTimeoutError):
        TransactionsHere().init(timeout_ms=timeout_ms)


@pytest.mark.parametrize("name", ["", "x" * 256, "penstock.batch:mine"])
def test_an_id_that_no_producer_may_have_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequestError):
        TransactionsHere().init(name)


@pytest.mark.parametrize("named", [(7, -1), (-1, 7), (-2, 0), (7, -2)])
def test_half_a_producer_is_refused(named: tuple[int, int]) -> None:
    here = TransactionsHere()
    with pytest.raises(InvalidRequestError):
        here.init(named=named)


def test_above_the_share_of_memory_no_id_is_added_and_those_that_are_there_go_on() -> None:
    here = TransactionsHere(TransactionConfig(), memory_bytes=3_000)
    here.init("a")
    producer = here.init("b")
    with pytest.raises(PolicyViolationError):
        here.init("c")
    assert here.add(producer, P0, name="b") == [None]
    here.shard.unloaded()
    assert here.memory.used == 0
