"""A stage for transcripts: one partition on a few brokers, in the hands of the script, with a line for what happens.

The partition, the fetcher's core and the log are those of a broker; the disk loses what was not synced. The controller,
the network and the flushes are the script's: nothing moves unless it says so. A record is shown with its epoch: `b@2`.
Every ack that a producer would get is noted, and `must_hold_the_acked` compares.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.replication.follower.effect_runner import perform
from broker.replication.follower.fetcher_core import FetcherCore
from broker.replication.follower.fetcher_values import Append, FetchState, Truncate
from broker.replication.leader.follower_fetch import note_follower_fetch
from broker.replication.leader.leader_state import ReplicaPosition
from broker.replication.partition import Partition
from metadata.registrations import PartitionRegistration
from penstock import epochs
from penstock.errors import ApiError
from penstock.messages.fetch import PartitionFetchResult
from penstock.record.reader import read_records
from penstock.types import EpochEndOffset, LeaderHint
from storage.log.log import Log
from storage.log.log_reader import Records
from storage.log.log_types import LogOptions
from storage.log_config import LogConfig
from storage.recovery.recovery import LastKnown
from tests.support.losing_fs import LosingFileSystem
from tests.support.machine import THREADS
from tests.support.partitions import PARTITION, TOPIC_ID, batch, state

DIRECTORY = f"/{PARTITION}"
WALL_MS = 1_700_000_000_000


@dataclass
class Broker:
    """One broker; `disk` outlives its processes."""

    disk: LosingFileSystem
    partition: Partition
    fetcher: FetcherCore
    checkpointed_high_watermark: int = 0
    is_up: bool = True


class Stage:
    """See the module. Brokers are 1, 2, …; all are in the ISR."""

    def __init__(self, brokers: int = 2, min_insync_replicas: int = 1) -> None:
        self._min_insync_replicas = min_insync_replicas
        self.lines: list[str] = []
        self.acked: list[tuple[int, str]] = []
        self.isr = tuple(range(1, brokers + 1))
        self.leader_id, self.leader_epoch, self._partition_epoch = -1, -1, 0
        self.brokers: dict[int, Broker] = {}
        for broker_id in self.isr:
            disk = LosingFileSystem()
            log = Log.create(disk, DIRECTORY, PARTITION, LogConfig(), LogOptions(THREADS, TOPIC_ID))
            partition = Partition(broker_id, log, 0, min_insync_replicas)
            self.brokers[broker_id] = Broker(disk, partition, FetcherCore(0, 1 << 20))

    def say(self, text: str) -> None:
        self.lines.append(f"# {text}")

    def note(self, broker_id: int, text: str) -> None:
        self.lines.append(f"  broker {broker_id}  {text}")

    # -- what a script does --------------------------------------------------------------------------------------------

    def elect(self, leader_id: int, isr: tuple[int, ...] | None = None) -> None:
        """The controller makes it the leader of the next epoch, and every broker that is up hears of it."""
        self.isr = self.isr if isr is None else isr
        self.leader_id, self.leader_epoch = leader_id, self.leader_epoch + 1
        self.lines.append(f"  controller  leader {leader_id}, leader epoch {self.leader_epoch}, ISR {list(self.isr)}")
        self._partition_epoch += 1
        for broker_id in self.brokers:
            if self.brokers[broker_id].is_up:
                self._tell(broker_id)

    def append(self, *values: str) -> None:
        """To the leader. What it appends is in its page cache; a producer waits with acks=all."""
        partition = self.brokers[self.leader_id].partition
        for value in values:
            info = partition.append_as_leader(batch(value.encode()), -1, 0, WALL_MS)
            partition.acks_all.add(
                info.last_offset + 1, lambda error, v=value, at=info.first_offset: self._ack(v, at, error)
            )
            self.note(self.leader_id, f"appends {value}@{self.leader_epoch} at offset {info.first_offset}")

    def flush(self, broker_id: int) -> None:
        broker = self.brokers[broker_id]
        partition = broker.partition
        before = partition.high_watermark
        partition.log.flush()
        self.note(broker_id, f"flushes up to {partition.log.flushed_offset}")
        partition.flushed(partition.log.flushed_offset)
        self._note_high_watermark(broker_id, before)
        if partition.leading is None:
            broker.fetcher.appended(
                PARTITION, self.leader_epoch, partition.log.log_end_offset, partition.log.latest_epoch
            )

    def fetch(self, broker_id: int, *, answer_is_lost: bool = False) -> None:
        """One fetch of a follower."""
        follower, leader = self.brokers[broker_id], self.brokers[self.leader_id].partition
        turn = follower.fetcher.next_turn(0)
        for wanted in turn.partitions:
            self.note(broker_id, f"fetches at {wanted.fetch_offset} after epoch {wanted.last_fetched_epoch}")
            result = PartitionFetchResult(PARTITION, wanted.topic_id, wanted.fetch_offset)
            position = ReplicaPosition(wanted.fetch_offset, wanted.last_fetched_epoch, wanted.log_start_offset)
            before = leader.high_watermark
            result.diverging_epoch = note_follower_fetch(
                leader, broker_id, -1, position, wanted.current_leader_epoch, 0
            )
            if result.diverging_epoch is None:
                result.records = self._read(leader, wanted.fetch_offset)
            self._note_high_watermark(self.leader_id, before)
            result.high_watermark = leader.high_watermark
            result.log_start_offset = leader.log.log_start_offset
            self._note_answer(result, answer_is_lost)
            if answer_is_lost:
                follower.fetcher.session_lost()
            else:
                self._apply(broker_id, result, turn.number)

    def catch_up(self, broker_id: int) -> None:
        """Fetches, truncates and flushes until the follower has what the leader has; in ten turns, or never."""
        follower, leader = self.brokers[broker_id].partition, self.brokers[self.leader_id].partition
        for _ in range(10):
            self.fetch(broker_id)
            if follower.log.flushed_offset < follower.log.log_end_offset:
                self.flush(broker_id)
            if follower.high_watermark == leader.high_watermark == leader.log.log_end_offset:
                return

    def write_checkpoint(self, broker_id: int) -> None:
        broker = self.brokers[broker_id]
        broker.checkpointed_high_watermark = broker.partition.high_watermark
        self.note(broker_id, f"writes its checkpoint: high watermark {broker.checkpointed_high_watermark}")

    def kill(self, broker_id: int) -> None:
        self.say(f"broker {broker_id} is killed; its page cache survives")
        self._end(broker_id, self.brokers[broker_id].disk.after_kill())

    def cut_power(self, broker_id: int) -> None:
        self.say(f"broker {broker_id} loses power; what was not flushed is gone")
        self._end(broker_id, self.brokers[broker_id].disk.after_crash())

    def start(self, broker_id: int) -> None:
        broker = self.brokers[broker_id]
        options = LogOptions(THREADS, TOPIC_ID, last_known=LastKnown(recovery_point=0))
        log = Log(broker.disk, DIRECTORY, PARTITION, LogConfig(), options)
        checkpointed = broker.checkpointed_high_watermark
        broker.partition = Partition(broker_id, log, checkpointed, self._min_insync_replicas)
        broker.fetcher, broker.is_up = FetcherCore(0, 1 << 20), True
        self.note(broker_id, "starts")
        self._tell(broker_id)
        self.show(broker_id)

    def show(self, *broker_ids: int) -> None:
        for broker_id in broker_ids or self.brokers:
            high_watermark = self.brokers[broker_id].partition.high_watermark
            self.note(
                broker_id, f"has {' '.join(self.records(broker_id)) or 'nothing'}, high watermark {high_watermark}"
            )

    # -- what must hold ------------------------------------------------------------------------------------------------

    def records(self, broker_id: int) -> list[str]:
        log = self.brokers[broker_id].partition.log
        found = read_records(log.reader.read(0, 1 << 20).records)
        return [
            f"{(record.value or b'').decode()}@{epochs.epoch_for_offset(log.epoch_entries, record.offset)}"
            for record in found
        ]

    def must_hold_the_acked(self) -> None:
        """I14 and I23 of this partition: the leader has every acked record, and every replica is equal to it."""
        leader = self.records(self.leader_id)
        for offset, value in self.acked:
            assert leader[offset : offset + 1] and leader[offset].startswith(f"{value}@"), (
                f"{value} was acked: {leader}"
            )
        for broker_id in self.brokers:
            assert self.records(broker_id) == leader, f"broker {broker_id} has {self.records(broker_id)}, not {leader}"

    # -- the machinery -------------------------------------------------------------------------------------------------

    def _tell(self, broker_id: int) -> None:
        broker = self.brokers[broker_id]
        known = self._registration()
        if broker_id == self.leader_id:
            broker.fetcher.remove([PARTITION])
            broker.partition.become_leader(known, 0)
            return
        broker.partition.become_follower(known, LeaderHint(self.leader_id, self.leader_epoch))
        log = broker.partition.log
        log.flush()
        broker.fetcher.add(
            PARTITION,
            FetchState(TOPIC_ID, self.leader_epoch, log.log_end_offset, log.latest_epoch, log.log_start_offset),
        )

    def _registration(self) -> PartitionRegistration:
        """The partition as the controller has it."""
        return state(self.leader_id, self.leader_epoch, self._partition_epoch, self.isr, tuple(self.brokers))

    def _end(self, broker_id: int, disk: LosingFileSystem) -> None:
        self.brokers[broker_id].disk, self.brokers[broker_id].is_up = disk, False

    def _ack(self, value: str, offset: int, error: ApiError | None) -> None:
        if error is None:
            self.acked.append((offset, value))
            self.lines.append(f"  producer  {value} is acked, offset {offset}")

    def _read(self, leader: Partition, offset: int) -> bytes:
        found = leader.read(offset, 1 << 20, is_replica=True)
        if not isinstance(found, Records):
            found.run()
            found = leader.read(offset, 1 << 20, is_replica=True, later=found)
        assert isinstance(found, Records)
        return found.records

    def _apply(self, broker_id: int, result: PartitionFetchResult, turn: int) -> None:
        broker = self.brokers[broker_id]
        log, before = broker.partition.log, broker.partition.high_watermark
        for effect in broker.fetcher.on_result(result, turn, 0):
            perform(effect, broker.partition)
            if isinstance(effect, Append):
                self.note(broker_id, f"appends {' '.join(self.records(broker_id)[result.fetch_offset :])}")
                continue
            if isinstance(effect, Truncate):
                self.note(broker_id, f"cuts its log to {log.log_end_offset}")
                broker.fetcher.truncated(PARTITION, self.leader_epoch, log.log_end_offset, log.latest_epoch, 0)
            else:
                broker.fetcher.appended(PARTITION, self.leader_epoch, result.fetch_offset, log.latest_epoch)
        self._note_high_watermark(broker_id, before)

    def _note_high_watermark(self, broker_id: int, before: int) -> None:
        now = self.brokers[broker_id].partition.high_watermark
        if now != before:
            self.note(broker_id, f"high watermark {before} → {now}")

    def _note_answer(self, result: PartitionFetchResult, is_lost: bool) -> None:
        answer = f"{len(read_records(result.records))} records" if result.records else "no records"
        if isinstance(result.diverging_epoch, EpochEndOffset):
            answer = f"my epoch {result.diverging_epoch.epoch} ends at {result.diverging_epoch.end_offset}: cut there"
        lost = "; the answer is lost" if is_lost else ""
        self.note(self.leader_id, f"answers: {answer}, high watermark {result.high_watermark}{lost}")
