"""Promises of one partition as leader and as follower, over a real log."""

from __future__ import annotations

import errno
import traceback
from pathlib import Path

import pytest

from broker.replication.follower.follower_log import append_as_follower, start_over_at, truncate_to
from broker.replication.leader.follower_fetch import note_follower_fetch
from broker.replication.leader.leader_state import ReplicaPosition
from broker.replication.partition import GAPS_MS, Partition, PartitionReports
from penstock.errors import (
    ApiError,
    CorruptFileError,
    FencedLeaderEpochError,
    KafkaStorageError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    UnknownLeaderEpochError,
)
from penstock.record.builder import build_batch
from penstock.types import Endpoint, EpochEndOffset, LeaderHint, TopicPartition
from storage.disk.file_system import OsFileSystem
from storage.log.log import Log
from storage.log.log_reader import Records
from storage.log.log_types import LogOptions
from storage.recovery.recovery import LastKnown
from tests.support.machine import THREADS
from tests.support.partitions import NOBODY, PARTITION, TOPIC_ID, batch, flush, make_log, make_partition, state

WALL_MS = 1_700_000_000_000


def leading(path: Path, isr: tuple[int, ...] = (1, 2, 3), min_isr: int = 1) -> Partition:
    partition = make_partition(path, min_insync_replicas=min_isr)
    partition.become_leader(state(isr=isr), now_ms=0)
    return partition


def produce(partition: Partition, *values: bytes, acks: int = -1) -> int:
    return partition.append_as_leader(batch(*values), acks, 0, WALL_MS).last_offset + 1


def fetched(partition: Partition, replica_id: int, offset: int, epoch: int = 5) -> EpochEndOffset | None:
    return note_follower_fetch(partition, replica_id, 100 + replica_id, ReplicaPosition(offset, epoch, 0), 5, now_ms=1)


def read(partition: Partition, offset: int, *, is_replica: bool = False) -> bytes:
    found = partition.read(offset, 1 << 20, is_replica=is_replica)
    assert isinstance(found, Records)
    return found.records


def test_a_record_is_acked_only_after_every_isr_disk_has_it(tmp_path: Path) -> None:
    partition, acked = leading(tmp_path), []
    end = produce(partition, b"a", b"b")
    partition.acks_all.add(end, acked.append)
    fetched(partition, 2, end)
    assert not acked, "replica 3 has not fetched"
    fetched(partition, 3, end)
    assert not acked, "the leader itself has not flushed"
    flush(partition)
    assert acked == [None] and partition.high_watermark == end


def test_acks_one_waits_for_the_leaders_own_flush(tmp_path: Path) -> None:
    partition, acked = leading(tmp_path), []
    partition.acks_one.add(produce(partition, acks=1), acked.append)
    assert not acked
    flush(partition)
    assert acked == [None]


def test_whoever_watches_is_told_in_the_order_in_which_it_came(tmp_path: Path) -> None:
    heard: list[int] = []

    class Watcher:
        is_replica = True

        def __init__(self, number: int) -> None:
            self.number = number

        def partition_changed(self, partition: TopicPartition, wake: bool) -> None:
            heard.append(self.number)

    partition = leading(tmp_path)
    for number in range(50):
        partition.watchers[Watcher(number)] = None
    produce(partition, b"a")
    assert heard == list(range(50)), "the order of a set is that of the addresses, and differs from process to process"


def test_below_min_isr_nothing_is_written(tmp_path: Path) -> None:
    partition = leading(tmp_path, isr=(1,), min_isr=2)
    with pytest.raises(NotEnoughReplicasError, match=r"1 replicas in sync, min.insync.replicas is 2"):
        produce(partition)
    assert partition.log.log_end_offset == 0


def test_an_isr_that_shrinks_after_the_append_is_said_so(tmp_path: Path) -> None:
    partition = leading(tmp_path, isr=(1, 2), min_isr=2)
    answers: list[ApiError | None] = []
    partition.acks_all.add(produce(partition), answers.append)
    partition.become_leader(state(isr=(1,), partition_epoch=1), now_ms=1)
    assert isinstance(answers[0], NotEnoughReplicasAfterAppendError)


def test_whoever_waits_is_told_when_leadership_is_lost_and_whom_to_ask(tmp_path: Path) -> None:
    partition = leading(tmp_path)
    answers: list[ApiError | None] = []
    partition.acks_all.add(produce(partition), answers.append)
    partition.become_follower(state(leader_id=2, leader_epoch=6), LeaderHint(2, 6, Endpoint("h", 9)))
    assert isinstance(answers[0], NotEnoughReplicasAfterAppendError), "the records may stand in the new leader's log"
    assert answers[0].leader == LeaderHint(2, 6, Endpoint("h", 9))


def test_a_new_leader_records_its_epoch_before_any_record(tmp_path: Path) -> None:
    partition = leading(tmp_path)
    assert partition.log.end_offset_for_epoch(5) == EpochEndOffset(5, 0)


def test_stale_and_future_epochs_are_refused(tmp_path: Path) -> None:
    partition = leading(tmp_path)
    with pytest.raises(FencedLeaderEpochError):
        partition.leader_state(4)
    with pytest.raises(UnknownLeaderEpochError):
        partition.leader_state(6)


def test_acknowledgements_of_an_older_epoch_do_not_move_the_high_watermark(tmp_path: Path) -> None:
    partition = leading(tmp_path)
    end = produce(partition)
    flush(partition)
    fetched(partition, 2, end)
    partition.become_leader(state(leader_epoch=6), now_ms=2)
    with pytest.raises(FencedLeaderEpochError):
        fetched(partition, 3, end)
    assert partition.high_watermark == 0


def test_a_divergent_tail_acknowledges_nothing(tmp_path: Path) -> None:
    partition = leading(tmp_path, isr=(1, 2))
    end = produce(partition, b"a", b"b")
    flush(partition)
    assert fetched(partition, 2, end, epoch=4) == EpochEndOffset(4, 0)
    assert partition.high_watermark == 0


def test_a_consumer_reads_up_to_the_high_watermark_and_a_replica_to_the_end(tmp_path: Path) -> None:
    partition = leading(tmp_path, isr=(1,))
    produce(partition, b"a")
    flush(partition)
    produce(partition, b"b")
    assert partition.high_watermark == 1
    assert len(read(partition, 0, is_replica=True)) > len(read(partition, 0))
    assert read(partition, 1) == b""


def test_a_consumer_ahead_of_a_new_leaders_high_watermark_waits_and_is_not_out_of_range(tmp_path: Path) -> None:
    partition = leading(tmp_path)
    end = produce(partition, b"a", b"b")
    flush(partition)
    assert (partition.high_watermark, end) == (0, 2)
    assert read(partition, 2) == b""
    assert read(partition, 1) == b""


def test_out_of_range_tells_both_bounds(tmp_path: Path) -> None:
    partition = leading(tmp_path, isr=(1,))
    produce(partition, b"a")
    flush(partition)
    with pytest.raises(OffsetOutOfRangeError) as caught:
        read(partition, 7)
    assert (caught.value.log_start_offset, caught.value.log_end_offset) == (0, 1)


def test_a_stranger_may_not_acknowledge(tmp_path: Path) -> None:
    with pytest.raises(NotLeaderOrFollowerError, match="no replica"):
        fetched(leading(tmp_path), 9, 0)


def test_a_followers_high_watermark_never_passes_its_own_log(tmp_path: Path) -> None:
    partition = make_partition(tmp_path, broker_id=2)
    partition.become_follower(state(), NOBODY)
    partition.follower_high_watermark(50)
    assert partition.high_watermark == 0


def test_an_offline_partition_keeps_nothing_of_the_requests_that_it_refuses(tmp_path: Path) -> None:
    partition = leading(tmp_path)
    partition.stop(KafkaStorageError("the disk failed"))
    frames = []
    for _ in range(3):
        with pytest.raises(KafkaStorageError) as caught:
            partition.leader_state()
        frames.append(len(traceback.extract_tb(caught.value.__traceback__)))
    assert frames[0] == frames[2]


def test_a_held_partition_refuses_requests_and_keeps_those_that_wait_for_an_ack(tmp_path: Path) -> None:
    partition, acked = leading(tmp_path, isr=(1,)), []
    partition.acks_all.add(produce(partition, b"a"), acked.append)
    partition.hold(KafkaStorageError("is being put into another log dir; try again"))
    with pytest.raises(KafkaStorageError, match="try again"):
        produce(partition, b"b")
    partition.log.flush()
    assert not acked and partition.leading is not None, "its role waits, too"
    partition.release()
    assert acked == [None] and produce(partition, b"b") == 2


def test_rot_that_the_first_append_finds_takes_the_replica_offline_with_a_retriable_answer(tmp_path: Path) -> None:
    """After a clean stop the indexes are not read; here they are gone, and the log that they would be made from is
    rotten in the middle."""
    log = make_log(tmp_path)
    for _ in range(3):
        log.append.as_leader(batch(), 5, WALL_MS)
    log.close()
    for index in Path(log.directory).glob("*index"):
        index.unlink()
    with (Path(log.directory) / f"{0:020d}.log").open("r+b") as file:
        file.seek(30)
        file.write(b"\xff")
    idle = Log(
        OsFileSystem(),
        log.directory,
        PARTITION,
        log.config,
        LogOptions(THREADS, TOPIC_ID, last_known=LastKnown(True, 3)),
    )
    noticed: list[Exception] = []
    partition = Partition(1, idle, 0, 1, PartitionReports(disk_error=lambda _, error: noticed.append(error)))
    partition.become_leader(state(isr=(1,)), now_ms=0)

    with pytest.raises(KafkaStorageError, match="appending failed"):
        produce(partition)
    assert [type(error) for error in noticed] == [CorruptFileError]
    assert idle.log_end_offset == 3


def test_the_high_watermark_is_not_above_a_log_that_was_cut_at_the_beginning_of_a_batch(tmp_path: Path) -> None:
    partition = make_partition(tmp_path, 2)
    partition.become_follower(state(), NOBODY)
    leader = leading(tmp_path / "leader")
    produce(leader, b"a")
    produce(leader, b"b", b"c", b"d")
    append_as_follower(partition, leader.log.reader.read(0, 1 << 20).records)
    partition.follower_high_watermark(4)

    truncate_to(partition, 3)

    assert (partition.log.log_end_offset, partition.high_watermark) == (1, 1)


def test_the_high_watermark_is_in_a_log_that_began_anew_although_its_flush_found_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_log: Log) -> int:
        raise KafkaStorageError("no room") from OSError(errno.ENOSPC, "no room")

    partition = make_partition(tmp_path, 2)
    partition.become_follower(state(), NOBODY)
    monkeypatch.setattr(Log, "_flush_now", full)

    with pytest.raises(KafkaStorageError):
        start_over_at(partition, 7)

    assert (partition.log.log_start_offset, partition.high_watermark) == (7, 7)


def number(partition: Partition, sequence: int, now_ms: int, acks: int = 1) -> None:
    """Appends the batch of a producer that has this number."""
    records = build_batch([b"v"], timestamps_ms=0, producer_id=3, producer_epoch=0, base_sequence=sequence)
    partition.append_as_leader(records, acks, now_ms, WALL_MS)


def test_a_gap_in_a_sequence_is_no_gap_while_a_batch_before_it_may_have_been_refused(tmp_path: Path) -> None:
    """The first of a pipeline comes a moment too early for the new leader, and the next one does not. librdkafka, told
    of a gap, begins a new epoch and sends both anew, also a batch before that the old leader has appended."""
    partition = leading(tmp_path)
    number(partition, 0, now_ms=0)
    partition.become_follower(state(leader_id=2, leader_epoch=6), NOBODY)
    with pytest.raises(NotLeaderOrFollowerError):
        number(partition, 1, now_ms=9_000)
    partition.become_leader(state(leader_epoch=7), now_ms=9_001)
    with pytest.raises(NotLeaderOrFollowerError, match="the batch begins with sequence 2, the next one is 1"):
        number(partition, 2, now_ms=9_002)
    number(partition, 1, now_ms=9_003)
    number(partition, 2, now_ms=9_004)
    with pytest.raises(OutOfOrderSequenceError):
        number(partition, 9, now_ms=9_001 + GAPS_MS)


def test_a_gap_behind_a_batch_that_too_few_replicas_could_take_is_none_either(tmp_path: Path) -> None:
    partition = leading(tmp_path, min_isr=2)
    number(partition, 0, now_ms=0, acks=-1)
    with pytest.raises(OutOfOrderSequenceError):
        number(partition, 5, now_ms=1, acks=-1)
    partition.become_leader(state(isr=(1,), partition_epoch=1), now_ms=5_000)
    with pytest.raises(NotEnoughReplicasError):
        number(partition, 1, now_ms=5_001, acks=-1)
    partition.become_leader(state(partition_epoch=2), now_ms=5_002)
    with pytest.raises(NotLeaderOrFollowerError):
        number(partition, 2, now_ms=5_003, acks=-1)
    number(partition, 1, now_ms=5_004, acks=-1)
