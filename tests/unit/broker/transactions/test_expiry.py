"""Transactional ids that nobody uses are forgotten, and only those."""

from __future__ import annotations

import pytest

from broker.transactions.expiry import LOOKED_AT
from broker.transactions.transaction_config import TransactionConfig
from penstock.errors import InvalidProducerIdMappingError, ProducerFencedError
from tests.support.transaction_core import TransactionsHere

DAY_MS = 24 * 3_600_000
CONFIG = TransactionConfig(transactional_id_expiration_ms=DAY_MS)


def test_an_id_that_was_not_used_for_long_is_forgotten_and_comes_back_with_a_new_producer_id() -> None:
    here = TransactionsHere(CONFIG)
    producer = here.init()
    here.init("later")
    here.failover()
    here.wait(DAY_MS // 2)
    here.init("later")
    here.wait(DAY_MS // 2 + 3_600_000)
    assert here.shard.transaction("t") is None and here.transaction("later").producer_epoch == 1
    assert here.log[-1][1] is None and here.counters.expired == 1
    assert isinstance(here.add(producer)[0], InvalidProducerIdMappingError)
    here.failover()
    assert here.shard.transaction("t") is None
    assert here.init() == (1002, 0)


@pytest.mark.parametrize("is_committed", [True, False])
def test_what_is_decided_does_not_expire_before_it_is_whole(is_committed: bool) -> None:
    here = TransactionsHere(CONFIG)
    producer = here.init()
    here.add(producer)
    here.end(producer, is_committed)
    for _ in range(3):
        here.failover()
        here.wait(10 * DAY_MS)
    assert here.state().startswith("Prepare")
    here.markers_written()
    here.wait(DAY_MS // 2)
    assert here.state().startswith("Complete")
    here.wait(DAY_MS)
    assert here.shard.transaction("t") is None


def test_an_open_transaction_ends_before_its_id_expires() -> None:
    here = TransactionsHere(TransactionConfig(transactional_id_expiration_ms=1))
    here.failover()
    here.add(here.init())
    here.wait(2 * 3_600_000)
    assert here.state() == "PrepareAbort"


def test_many_ids_are_looked_at_in_parts() -> None:
    here = TransactionsHere(CONFIG)
    for number in range(LOOKED_AT + 10):
        here.init(f"id-{number}")
    here.now_ms += DAY_MS
    _, look, _ = here.shard.loaded()
    assert len(here.take(look).records) == LOOKED_AT
    here.wait(0)
    assert here.shard.statistics().transactional_ids == 0
    assert here.memory.used == here.shard.statistics().bytes == 0
    assert here.shard.timers.next_ms == here.now_ms + CONFIG.transaction_remove_expired_transaction_cleanup_interval_ms


def test_a_producer_whose_id_has_expired_goes_on_under_a_new_one_and_a_lost_answer_is_given_again() -> None:
    here = TransactionsHere(CONFIG)
    producer = here.init()
    here.failover()
    here.wait(DAY_MS + 3_600_000)
    assert here.shard.transaction("t") is None
    assert here.init(named=producer) == here.init(named=producer) == (1001, 0)
    here.failover()
    assert here.init(named=producer) == (1001, 0)
    here.init()
    with pytest.raises(ProducerFencedError):
        here.init(named=producer)


def test_a_calendar_that_jumps_or_is_another_nodes_forgets_no_id_early_and_all_in_the_end() -> None:
    for off_ms in (30 * DAY_MS, -30 * DAY_MS, 0):
        here = TransactionsHere(CONFIG)
        here.is_marked = True
        here.init()
        here.failover()
        here.wait(DAY_MS // 2)
        here.calendar_off_ms = off_ms
        here.wait(2 * 3_600_000)
        assert here.shard.transaction("t") is not None
        here.failover()
        here.init("by the wrong calendar")
        here.wait(2 * 3_600_000)
        here.calendar_off_ms = 0
        here.failover()
        here.wait(2 * 3_600_000)
        assert here.shard.transaction("t") is not None
        here.wait(DAY_MS // 4)
        assert here.shard.transaction("t") is None, "watched for a day, by several leads"
        assert here.shard.transaction("by the wrong calendar") is not None
        here.wait(DAY_MS)
        assert here.shard.transaction("by the wrong calendar") is None


def test_an_id_that_a_calendar_far_ahead_has_stamped_is_stamped_anew_by_its_use() -> None:
    here = TransactionsHere(CONFIG)
    here.is_marked = True
    here.calendar_off_ms = 30 * DAY_MS
    here.init()
    here.calendar_off_ms = 0
    here.failover()
    here.wait(DAY_MS - 3_600_000)
    here.init()
    here.wait(DAY_MS - 3_600_000)
    assert here.shard.transaction("t") is not None
