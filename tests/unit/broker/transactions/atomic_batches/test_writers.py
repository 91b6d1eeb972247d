"""Writers: each has a producer of its own, which is used again; their time ends; none can be ended alone."""

from __future__ import annotations

import pytest

from broker.coordination.turn import Client
from broker.transactions.atomic_batches.decisions import ONE_OFF_MS
from broker.transactions.transaction_config import TransactionConfig
from broker.transactions.transaction_metadata import EPOCH_MAX
from broker.transactions.transaction_records import TransactionLogKey
from penstock.errors import (
    ConcurrentTransactionsError,
    InvalidProducerIdMappingError,
    InvalidRequestError,
    InvalidTxnStateError,
    PolicyViolationError,
    ProducerFencedError,
    ResourceExhaustedError,
)
from penstock.messages.transactions import transaction_apis
from penstock.messages.transactions.atomic_batches import (
    ONLY_WRITERS,
    AbortAtomicBatchRequest,
    AbortAtomicBatchResponse,
)
from tests.support.batches_core import BatchesHere, Writer, name_of
from tests.support.transaction_core import P0, P1, TIMEOUT_MS

DAY_MS = 24 * 3_600_000


def test_writers_at_the_same_time_have_different_producers() -> None:
    here = BatchesHere()
    writers = [here.begun(0) for _ in range(5)]
    assert len({one.producer_id for one in writers}) == 5 and {one.epoch for one in writers} == {0}


def test_the_next_versions_writers_have_the_producers_of_the_last_in_their_next_epochs() -> None:
    """A new id for each writer would fill the partitions, which remember every producer for a day."""
    here = BatchesHere()
    ids = set()
    for version in range(20):
        writers = [here.begun(version, P0) for _ in range(3)]
        assert {one.epoch for one in writers} == {version}
        ids |= {one.producer_id for one in writers}
        here.commit(version, *writers[:2])
        here.markers_written()
        if version % 5 == 0:
            here.failover()
    assert len(ids) == 3
    assert here.shard.statistics().transactional_ids == 3


def test_a_producer_is_used_again_when_its_markers_are_written_and_not_before() -> None:
    here = BatchesHere()
    one = here.begun(0, P0)
    here.commit(0, one)
    two = here.begun(1, P0)
    assert two.producer_id != one.producer_id
    here.markers_written()
    assert here.begun(1, P0) == (one.producer_id, 1)


def test_a_writer_of_the_past_can_write_no_more() -> None:
    here = BatchesHere()
    one = here.begun(0, P0)
    here.commit(0, one)
    assert isinstance(here.writes(one, P1), ConcurrentTransactionsError)
    here.markers_written()
    assert isinstance(here.writes(one, P1), ProducerFencedError)
    again = here.begun(1)
    assert again.producer_id == one.producer_id
    assert isinstance(here.writes(one, P1), ProducerFencedError)
    assert here.writes(again, P1) is None


def test_a_writer_that_is_aborted_alone_leaves_the_version_open_for_the_others() -> None:
    """A task that failed: readers do not wait for what it wrote, and its next attempt is another writer."""
    here = BatchesHere()
    failed, finished = here.begun(0, P0), here.begun(0, P1)
    answer = here.ask(AbortAtomicBatchRequest("app", ONLY_WRITERS, writers=(failed,)))
    assert answer == AbortAtomicBatchResponse(False, 0)
    assert here.ends() == {failed.producer_id: False} and here.states(finished) == ["Ongoing"]
    assert isinstance(here.writes(failed, P0), ProducerFencedError)
    with pytest.raises(InvalidTxnStateError, match="no open writer"):
        here.commit(0, failed, finished)
    again = here.begun(0, P0)
    assert here.commit(0, finished, again) is False
    assert here.ends() == {finished.producer_id: True, again.producer_id: True}


def test_an_abort_of_a_writer_reaches_no_other_epoch_of_its_producer_and_no_decision() -> None:
    here = BatchesHere()
    one = here.begun(0, P0)
    here.abort(0)
    here.markers_written()
    again = here.begun(1, P0)
    assert again.producer_id == one.producer_id
    here.ask(AbortAtomicBatchRequest("app", ONLY_WRITERS, writers=(one, Writer(77, 0))))
    assert here.states(again) == ["Ongoing"]
    here.commit(1, again)
    here.ask(AbortAtomicBatchRequest("app", ONLY_WRITERS, writers=(again,)))
    assert here.ends() == {again.producer_id: True}


def test_a_commit_names_the_epoch_so_the_writer_before_is_not_meant() -> None:
    here = BatchesHere()
    one = here.begun(0, P0)
    here.abort(0)
    here.markers_written()
    again = here.begun(0, P0)
    assert again.producer_id == one.producer_id
    with pytest.raises(InvalidTxnStateError, match="in epoch 0 is no open writer"):
        here.commit(0, one)
    assert here.commit(0, again) is False


def test_a_producer_whose_epochs_are_used_up_is_not_used_again() -> None:
    here = BatchesHere()
    one = here.begun(0)
    here.commit(0, one)
    idle = here.transaction(name_of(one))
    used = idle.moved(idle.state, here.wall_ms, producer_epoch=EPOCH_MAX - 2)
    here.take(lambda turn: turn.write(TransactionLogKey(transactional_id=name_of(one)), used))
    last = here.begun(1, P0)
    assert last == (one.producer_id, EPOCH_MAX - 2)
    here.commit(1, last)
    assert here.ends() == {one.producer_id: True}
    fresh = here.begun(2, P0)
    assert fresh.producer_id != one.producer_id and fresh.epoch == 0


@pytest.mark.parametrize("loads", [False, True])
@pytest.mark.parametrize("writes", [False, True])
def test_a_writer_that_nobody_decides_about_ends_by_its_time(loads: bool, writes: bool) -> None:
    here = BatchesHere()
    writer = here.begun(0, *([P0] if writes else []))
    here.wait(TIMEOUT_MS - 1)
    if loads:
        here.failover()
    assert here.states(writer) == ["Ongoing" if writes else "Empty"]
    here.wait(1)
    assert here.states(writer) == ["PrepareAbort" if writes else "CompleteAbort"]
    assert isinstance(here.writes(writer), ConcurrentTransactionsError if writes else ProducerFencedError)
    assert here.counters.timed_out == 1
    with pytest.raises(InvalidTxnStateError):
        here.commit(0, writer)


def test_the_time_of_a_writer_begins_again_with_its_first_batch() -> None:
    here = BatchesHere()
    writer = here.begun(0)
    here.wait(TIMEOUT_MS - 1)
    assert here.writes(writer) is None
    here.wait(TIMEOUT_MS - 1)
    assert here.commit(0, writer) is False


def test_a_writer_that_wrote_nothing_is_accepted() -> None:
    here = BatchesHere()
    one, two = here.begun(0), here.begun(0, P0)
    assert here.commit(0, one, two) is False
    assert here.states(one, two) == ["CompleteAbort", "PrepareCommit"]


def test_a_producer_of_a_client_cannot_end_or_take_a_writers_id() -> None:
    here = BatchesHere()
    writer = here.begun(0, P0)
    name, producer = name_of(writer), (writer.producer_id, writer.epoch)
    for call in (
        lambda: here.end(producer, name=name),
        lambda: here.end(producer, False, name=name, version=1),
        lambda: here.init(name),
        lambda: here.init("penstock.batch:app"),
        lambda: here.add_group(producer, "g", name=name),
    ):
        with pytest.raises(InvalidRequestError, match="belong to writers of atomic batches"):
            call()
    assert here.states(writer) == ["Ongoing"]


def test_a_writer_that_never_was_gets_no_partition() -> None:
    here = BatchesHere()
    writer = here.begun(0)
    assert isinstance(here.writes(writer._replace(producer_id=7)), InvalidProducerIdMappingError)
    assert isinstance(here.writes(writer._replace(epoch=1)), ProducerFencedError)


def test_an_application_has_so_many_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.transactions.atomic_batches.decisions.WRITERS_MAX", 3)
    here = BatchesHere()
    writers = [here.begun(0, P0) for _ in range(3)]
    with pytest.raises(ResourceExhaustedError, match="has 3 open writers"):
        here.begin(0)
    here.commit(0, *writers)
    with pytest.raises(ConcurrentTransactionsError, match="still being ended"):
        here.begin(1)
    here.markers_written()
    assert here.begin(1) is not None
    assert transaction_apis.COMMIT_ATOMIC_BATCH.limits.elements == {"writers": transaction_apis.WRITERS_MAX}


def test_above_the_memory_no_writer_and_no_application_is_added() -> None:
    here = BatchesHere()
    one = here.begun(0, P0)
    here.commit(0, one)
    here.markers_written()
    here.memory.bytes_max = 1
    assert here.begin(1) is not None, "an idle producer costs nothing"
    for call in (
        lambda: here.begin(1),
        lambda: here.begin(0, application="b"),
        lambda: here.commit(0, application="b"),
    ):
        with pytest.raises(PolicyViolationError, match=r"transaction.coordinator.memory.max.bytes"):
            call()


def test_all_memory_is_given_back() -> None:
    here = BatchesHere(TransactionConfig(transactional_id_expiration_ms=DAY_MS))
    here.failover()
    for version in range(3):
        here.commit(version, here.begun(version, P0, run=f"{version}" * 100), run=f"{version}" * 100)
        here.markers_written()
    here.wait(4 * DAY_MS)
    assert here.memory.used == 0 and here.shard.statistics().transactional_ids == 0
    here.begun(0, P0)
    here.shard.unloaded()
    assert here.memory.used == 0


def test_an_application_is_forgotten_after_twice_the_time_of_an_id_and_never_while_a_writer_is_open() -> None:
    here = BatchesHere(TransactionConfig(transactional_id_expiration_ms=DAY_MS, transaction_max_timeout_ms=10 * DAY_MS))
    here.failover()
    here.commit(5)
    here.wait(2 * DAY_MS - 3_600_000)
    assert here.begin(5) is None
    here.wait(2 * 3_600_000)
    assert here.shard.statistics().applications == 0
    here.begin(0, timeout_ms=5 * DAY_MS)
    here.wait(5 * DAY_MS - 1)
    assert here.shard.statistics().applications == 1
    here.wait(3_600_001)
    assert here.shard.statistics().applications == 0, "its version is open, and nobody can write it any more"


def test_an_application_that_goes_on_after_all_is_kept_as_others_are() -> None:
    here = BatchesHere()
    here.failover()
    here.begin(0, one_off=True)
    here.commit(0)
    here.begin(1)
    here.commit(1)
    here.wait(5 * ONE_OFF_MS)
    assert here.begin(1) is None


def test_an_application_for_one_version_is_forgotten_soon_with_its_producers() -> None:
    here = BatchesHere()
    here.failover()
    writer = here.begin(0, one_off=True)
    assert writer is not None and here.writes(writer) is None
    here.commit(0, writer)
    here.wait(3 * ONE_OFF_MS)
    assert here.shard.statistics().applications == 1, "its markers are not written yet"
    here.markers_written()
    assert here.commit(0, writer) is True
    here.wait(ONE_OFF_MS)
    assert (here.shard.statistics().applications, here.shard.statistics().transactional_ids) == (0, 0)
    assert here.memory.used == 0


def test_a_tenant_that_fills_the_memory_with_applications_is_refused_and_a_second_principal_begins_one() -> None:
    here = BatchesHere(memory_bytes=1 << 17)
    here.client = Client("app", "/10.0.0.1", party="User:tenant")
    count = 0
    with pytest.raises(PolicyViolationError, match="User:tenant holds"):
        while count < 1_500 and here.begin(0, application=f"t-{count}") is not None:
            count += 1
    assert count > 20 and here.memory.lasting.held_by("User:tenant") <= 1 << 16
    assert here.abort(0, application="t-0") is not None, "an end is never refused"
    here.client = Client("app", "/10.0.0.2", party="User:victim")
    assert here.begin(0, application="v") is not None
