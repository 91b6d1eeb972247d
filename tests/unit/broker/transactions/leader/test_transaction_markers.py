"""Promises of WriteTxnMarkers: told when committed, each partition by itself, and within a time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.network.request_channel import Request
from broker.replication.leader.leader_appends import LeaderAppends
from broker.replication.leader.purgatory import Waiter
from broker.replication.leader.transaction_guards import ENDS_MAX, DecidedEnd, TransactionGuards
from broker.replication.partition import Partition
from broker.replication.replica_statistics import Traffic
from broker.transactions.leader.transaction_markers import MARKER_WAIT_MS, TransactionMarkersApi
from penstock.clock import ManualClock
from penstock.errors import InvalidTxnStateError, NotLeaderOrFollowerError, RequestTimedOutError
from penstock.messages.transactions.listing import EndHangingTransactionRequest, EndHangingTransactionResponse
from penstock.messages.transactions.markers import (
    MarkedPartition,
    TxnMarker,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from penstock.record.builder import build_batch
from penstock.record.markers import Marker, read_marker
from penstock.types import TopicPartition
from storage.log.log_reader import Records
from tests.support.machine import NOW_NS
from tests.support.partitions import NOBODY, TOPIC_ID, flush, make_log, state
from tests.support.sinks import CALLER, Sink
from tests.support.virtual_time import run_virtual

HERE, ALONE, OFFSETS = TopicPartition("t", 0), TopicPartition("u", 0), TopicPartition("__consumer_offsets", 0)


class GroupsThatWait:
    """A coordinator of groups: the markers that it was given."""

    def __init__(self) -> None:
        self.given: list[tuple[TxnMarker, Waiter]] = []

    def write_marker(self, partition: Partition, marker: TxnMarker, on_committed: Waiter) -> None:
        self.given.append((marker, on_committed))


class Stage:
    """A leader with followers of `t`, alone with `u`, that does not host `v`."""

    def __init__(self, path: Path) -> None:
        self.partitions = {tp: Partition(1, make_log(path, partition=tp), 0, 1) for tp in (HERE, ALONE, OFFSETS)}
        for tp, partition in self.partitions.items():
            partition.become_leader(state(isr=(1, 2) if tp == HERE else (1,)), 0)
        self.groups = GroupsThatWait()
        flushes: Any = SimpleNamespace(request_flush=flush)
        hosted: Any = SimpleNamespace(get=self._get)
        clock = ManualClock()
        self.api = TransactionMarkersApi(hosted, LeaderAppends(flushes, Traffic(), clock), self.groups, clock)

    def _get(self, tp: TopicPartition, topic_id: str) -> Partition:
        if tp not in self.partitions:
            raise NotLeaderOrFollowerError(f"{tp} is elsewhere")
        return self.partitions[tp]

    def ask(self, *markers: TxnMarker) -> Request:
        body = WriteTxnMarkersRequest(markers)
        request = Request("WriteTxnMarkers", body, Sink(), CALLER, NOW_NS)
        self.api.handle(request, body)
        return request


def marker(*partitions: TopicPartition, producer_id: int = 7, committed: bool = True) -> TxnMarker:
    marked = tuple(MarkedPartition(tp, TOPIC_ID) for tp in partitions)
    return TxnMarker(producer_id, 3, committed, 11, marked)


def results(request: Request) -> list[tuple[int, str, str]]:
    assert isinstance(request.response, WriteTxnMarkersResponse)
    return [
        (one.producer_id, str(part.partition), part.error.kafka_name if part.error else "")
        for one in request.response.markers
        for part in one.partitions
    ]


def test_a_marker_is_in_the_log_of_its_partition_and_told_once_it_is_committed(tmp_path: Path) -> None:
    async def story() -> None:
        stage = Stage(tmp_path)
        request = stage.ask(marker(ALONE, committed=False))
        assert results(request) == [(7, "u-0", "")]
        written = stage.partitions[ALONE].read(0, 1_000, is_replica=False)
        assert isinstance(written, Records) and read_marker(bytes(written.records)) == Marker(7, 3, False, 11)

    run_virtual(story())


def test_a_partition_that_is_not_led_here_holds_up_no_other(tmp_path: Path) -> None:
    async def story() -> None:
        elsewhere = TopicPartition("v", 0)
        request = Stage(tmp_path).ask(marker(elsewhere, ALONE), marker(elsewhere, producer_id=8))
        not_here = "NOT_LEADER_OR_FOLLOWER"
        assert results(request) == [(7, "v-0", not_here), (7, "u-0", ""), (8, "v-0", not_here)]

    run_virtual(story())


def test_a_marker_that_is_not_committed_in_time_is_told_so_and_waits_no_more(tmp_path: Path) -> None:
    async def story() -> None:
        stage = Stage(tmp_path)
        request = stage.ask(marker(HERE, ALONE))
        await asyncio.sleep(MARKER_WAIT_MS / 1000 - 1)
        assert not request.is_complete
        await asyncio.sleep(2)
        assert results(request) == [(7, "t-0", "REQUEST_TIMED_OUT"), (7, "u-0", "")]
        assert not len(stage.partitions[HERE].acks_all)

    run_virtual(story())


def test_a_lead_that_ends_answers_what_waits(tmp_path: Path) -> None:
    async def story() -> None:
        stage = Stage(tmp_path)
        request = stage.ask(marker(HERE))
        assert not request.is_complete
        stage.partitions[HERE].become_follower(state(leader_id=2, leader_epoch=6), NOBODY)
        assert results(request) == [(7, "t-0", "NOT_ENOUGH_REPLICAS_AFTER_APPEND")]

    run_virtual(story())


def test_a_marker_for_committed_offsets_is_the_coordinators(tmp_path: Path) -> None:
    async def story() -> None:
        stage = Stage(tmp_path)
        request = stage.ask(marker(OFFSETS, ALONE))
        ((given, on_committed),) = stage.groups.given
        assert given.producer_id == 7 and stage.partitions[OFFSETS].log.log_end_offset == 0
        assert not request.is_complete
        on_committed(None)
        on_committed(NotLeaderOrFollowerError("too late: it was told before"))
        assert results(request) == [(7, "__consumer_offsets-0", ""), (7, "u-0", "")]

    run_virtual(story())


def test_a_marker_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    async def story() -> None:
        stage = Stage(tmp_path)
        log = stage.partitions[ALONE].log
        open_transaction(stage, ALONE)
        for _ in range(2):
            assert results(stage.ask(marker(ALONE))) == [(7, "u-0", "")]
        assert log.log_end_offset == 2

    run_virtual(story())


def test_what_hangs_is_aborted_by_hand_if_it_is_exactly_that(tmp_path: Path) -> None:
    async def story() -> None:
        stage = Stage(tmp_path)
        open_transaction(stage, ALONE)
        log = stage.partitions[ALONE].log
        for epoch, start in ((3, 1), (2, 0)):
            with pytest.raises(InvalidTxnStateError, match="no open transaction of epoch"):
                end_hanging(stage, epoch, start)
        assert log.transactions.open_of(7) == 0
        assert end_hanging(stage, 3, 0).response == EndHangingTransactionResponse()
        assert log.transactions.open_of(7) is None and log.log_end_offset == 2
        with pytest.raises(InvalidTxnStateError):
            end_hanging(stage, 3, 0)
        assert results(stage.ask(marker(ALONE))) == [(7, "u-0", "")]  # the coordinator was not fenced

    run_virtual(story())


def test_an_abort_by_hand_that_is_not_committed_in_time_is_told_so_and_waits_no_more(tmp_path: Path) -> None:
    async def story() -> None:
        stage = Stage(tmp_path)
        open_transaction(stage, HERE)
        request = end_hanging(stage, 3, 0, HERE)
        await asyncio.sleep(MARKER_WAIT_MS / 1000 - 1)
        assert not request.is_complete
        await asyncio.sleep(2)
        assert isinstance(request.error, RequestTimedOutError)
        assert not len(stage.partitions[HERE].acks_all)

    run_virtual(story())


def end_hanging(stage: Stage, epoch: int, start_offset: int, tp: TopicPartition = ALONE) -> Request:
    body = EndHangingTransactionRequest(tp, TOPIC_ID, 7, epoch, start_offset)
    request = Request("EndHangingTransaction", body, Sink(), CALLER, NOW_NS)
    stage.api.end_hanging(request, body)
    return request


def open_transaction(stage: Stage, tp: TopicPartition, sequence: int = 0) -> None:
    """One record of the producer of `marker`."""
    records = build_batch(
        [b"v"], timestamps_ms=1_000, producer_id=7, producer_epoch=3, base_sequence=sequence, is_transactional=True
    )
    stage.partitions[tp].append_as_leader(records, -1, 0, 1_000)
    flush(stage.partitions[tp])


def test_an_old_producers_marker_that_is_there_already_ends_the_guards_all_the_same(tmp_path: Path) -> None:
    """The transaction after it has the same epoch, and has perhaps written nothing here: no marker is written for it,
    and a batch that waits for the coordinator must not begin one."""

    async def main() -> None:
        stage = Stage(tmp_path)
        stage.ask(marker(ALONE))
        guards = stage.partitions[ALONE].guards
        ours, other = guards.set(7), guards.set(8)
        stage.ask(replace(marker(ALONE), transaction_version=2))
        assert ours.stands, "with version 2 it is the last transaction's: each has its own epoch"
        stage.ask(marker(ALONE))
        assert ours.has_marker and other.stands

    run_virtual(main())


def decided(at_ms: int, tp: TopicPartition = ALONE, **changes: Any) -> TxnMarker:
    return replace(marker(tp), decided_ms=at_ms, **changes)


def test_a_call_that_comes_late_does_not_end_the_next_transaction_of_the_epoch(tmp_path: Path) -> None:
    """The coordinator has asked again meanwhile, the transaction is whole, and the producer has begun another."""

    async def main() -> None:
        stage = Stage(tmp_path)
        transactions = stage.partitions[ALONE].log.transactions
        open_transaction(stage, ALONE)
        stage.ask(decided(50))
        open_transaction(stage, ALONE, sequence=1)
        for late in (decided(50), decided(40)):
            assert results(stage.ask(late)) == [(7, "u-0", "")]
            assert transactions.open_of(7) == 2
        assert results(stage.ask(decided(60))) == [(7, "u-0", "")]
        assert transactions.open_of(7) is None

    run_virtual(main())


def test_only_an_end_that_is_committed_counts_as_told(tmp_path: Path) -> None:
    async def main() -> None:
        stage = Stage(tmp_path)
        stage.ask(decided(50, OFFSETS))
        ((_, on_committed),) = stage.groups.given
        on_committed(NotLeaderOrFollowerError("loading"))
        again = stage.ask(decided(50, OFFSETS))
        assert not again.is_complete and len(stage.groups.given) == 2
        stage.groups.given[1][1](None)
        assert results(again) == [(7, "__consumer_offsets-0", "")]

    run_virtual(main())


def test_a_newer_coordinator_has_its_epoch_written_though_the_end_was_told(tmp_path: Path) -> None:
    async def main() -> None:
        stage = Stage(tmp_path)
        stage.ask(decided(50))
        stage.ask(decided(50, coordinator_epoch=12))
        assert stage.partitions[ALONE].log.transactions.coordinator_epoch_of(7) == 12

    run_virtual(main())


@pytest.mark.parametrize(("epoch", "error"), [(4, "FENCED_LEADER_EPOCH"), (5, ""), (6, ""), (None, "")])
def test_a_call_from_before_this_lead_is_refused(tmp_path: Path, epoch: int | None, error: str) -> None:
    """This lead does not know what an earlier one was told, and the partition may have had other leaders between."""

    async def main() -> None:
        stage = Stage(tmp_path)
        assert stage.partitions[ALONE].leader_state().leader_epoch == 5
        asked = replace(marker(), partitions=(MarkedPartition(ALONE, TOPIC_ID, epoch),))
        assert results(stage.ask(asked)) == [(7, "u-0", error)]

    run_virtual(main())


def test_an_end_by_a_coordinator_whose_calendar_is_behind_is_told_when_it_is_committed(tmp_path: Path) -> None:
    """The coordinator before it had a calendar that was ahead, and its stamps say nothing of this one's."""

    async def main() -> None:
        stage = Stage(tmp_path)
        partition = stage.partitions[HERE]
        partition.guards.note_end(7, DecidedEnd(11, 50))
        open_transaction(stage, HERE)
        asked = [stage.ask(decided(40, HERE, coordinator_epoch=12)) for _ in range(2)]
        assert not any(request.is_complete for request in asked), "it is not committed"
        assert partition.log.log_end_offset == 2
        partition.become_follower(state(leader_id=2, leader_epoch=6), NOBODY)

    run_virtual(main())


def test_the_newest_end_counts_whichever_was_told_last() -> None:
    guards = TransactionGuards()
    for end in (DecidedEnd(4, 50), DecidedEnd(5, 30), DecidedEnd(5, 20), DecidedEnd(4, 60)):
        guards.note_end(7, end)
    assert guards.is_late(7, DecidedEnd(5, 30)) and not guards.is_late(7, DecidedEnd(5, 31))
    assert not guards.is_late(7, DecidedEnd(4, 50)), "the log refuses what an earlier coordinator sends"


def test_ends_that_were_told_are_forgotten_beyond_a_number_and_with_the_lead() -> None:
    guards, end = TransactionGuards(), DecidedEnd(11, 50)
    for producer_id in range(ENDS_MAX + 1):
        guards.note_end(producer_id, end)
    assert not guards.is_late(0, end) and guards.is_late(1, end) and not guards.is_late(1, DecidedEnd(11, 51))
    assert not guards.is_late(1, DecidedEnd(11, 0)), "an older coordinator does not tell when"
    guards.end_all()
    assert not guards.is_late(ENDS_MAX, end)
