"""A partition on three brokers in one process, driven by a seeded random: the real partition, fetcher core and log.

What is simulated is the network (a fetch turn is a call that may be cut off half-way), the controller (a few lines with
the rules of elections and of AlterPartition), flushes and log-start checkpoints (steps of their own), deletions, and
crashes: a crashed broker comes back with its log cut at a random place between what was flushed and what was written,
and with the log start that its checkpoint has. After every step the invariants of `check` hold, or the run ends with
the seed that replays it: `python -m tests.simulation.replication.run --seed N`.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from broker.replication.follower.fetcher_core import (
    AdvanceLogStart,
    Append,
    FetcherCore,
    FetchState,
    StartOver,
    Truncate,
)
from broker.replication.follower.fetcher_effects import perform
from broker.replication.leader.isr_upkeep import check_fetcher_epoch
from broker.replication.leader.leader_state import ProposedIsr, ReplicaPosition
from broker.replication.partition import Partition
from metadata.registrations import PartitionRegistration
from penstock.errors import ApiError, InvariantViolation, NotEnoughReplicasError
from penstock.messages.fetch import PartitionFetchResult
from penstock.record.reader import read_columns
from penstock.types import LeaderHint
from storage.disk.file_names import LEADER_EPOCH_CHECKPOINT
from storage.disk.file_system import OsFileSystem
from storage.log.log import Log
from storage.log.log_types import LogOptions
from storage.log_config import LogConfig
from storage.recovery.recovery import LastKnown
from storage.segment.cold_read import ColdRead
from tests.support.machine import THREADS
from tests.support.partitions import PARTITION, TOPIC_ID, batch, make_log, state

BROKERS = (1, 2, 3)
LAG_MS = 1_000
WALL_MS = 1_700_000_000_000
CRASHES_AFTER_DELETION = 20
"""For so many steps after a deletion was answered, brokers crash often: that is when the answer would prove wrong."""


class InvariantBroken(AssertionError):
    """A promise did not hold; the text says which."""


@dataclass
class Broker:
    """One broker: its partition and, as a follower, its fetcher's core."""

    broker_id: int
    partition: Partition
    fetcher: FetcherCore
    broker_epoch: int
    alive: bool = True
    known_partition_epoch: int = -1
    registered_epochs: dict[int, int] = field(default_factory=dict)
    """As its metadata has them."""
    unacknowledged: list[int] = field(default_factory=list)
    durable_log_start: int = 0
    unreported: list[int] = field(default_factory=list)
    """The leader epochs in which a leader told of a log start that is not durable here."""
    deletions: list[int] = field(default_factory=list)
    """Asked of this leader, and not durable here."""


@dataclass(frozen=True)
class Rules:
    """The mistakes that a run makes on purpose; the defaults make none."""

    partition_class: type[Partition] = Partition
    acknowledge_before_flush: bool = False
    check_epoch: Callable[[Mapping[int, int], int, int], None] = check_fetcher_epoch


class World:
    """See the module."""

    def __init__(self, seed: int, directory: Path, rules: Rules = Rules(), min_isr: int = 2) -> None:
        self.random = random.Random(seed)
        self.rules = rules
        self.min_isr = min_isr
        self.now_ms = 0
        self.directory = directory
        self.acked: dict[int, bytes] = {}
        self.consumed: dict[int, bytes] = {}
        self.deleted_below = 0
        """Records below this offset were answered as deleted."""
        self.maybe_deleted_below = 0
        self.crash_soon_until = 0
        """Somebody who thought that it leads was asked to delete the records below this offset."""
        self.counter = 0
        self.steps = 0
        self.checked_epoch = -1
        self.next_broker_epoch = 100
        self.controller: PartitionRegistration = state(leader_id=1, leader_epoch=1)
        self.brokers: dict[int, Broker] = {}
        for broker_id in BROKERS:
            made = rules.partition_class(broker_id, make_log(directory / str(broker_id)), 0, min_isr)
            self.brokers[broker_id] = self._broker(made)
        for broker in self.brokers.values():
            self.tell(broker)

    def _broker(self, partition: Partition) -> Broker:
        self.next_broker_epoch += 1
        made = Broker(partition.broker_id, partition, FetcherCore(0, 1 << 20), self.next_broker_epoch)
        return made

    @property
    def alive(self) -> list[Broker]:
        return [broker for broker in self.brokers.values() if broker.alive]

    # -- steps ---------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """One random event, then the invariants."""
        self.now_ms += self.random.randrange(0, 100)
        self.steps += 1
        steps: list[tuple[Callable[[], None], int]] = [
            (self.produce, 20),
            (self.flush, 40),
            (self.fetch, 60),
            (self.forge_fetch, 4),
            (self.deliver_metadata, 30),
            (self.propose_isr, 20),
            (self.consume, 4),
            (self.delete_records, 3),
            (self.write_log_starts, 20),
            (self.crash, 20 if self.steps < self.crash_soon_until else 3),
            (self.restart, 6),
            *self.more_steps(),
        ]
        self.random.choices([s for s, _ in steps], [w for _, w in steps])[0]()
        self.check()

    def more_steps(self) -> list[tuple[Callable[[], None], int]]:
        """The further steps of a world in which more may happen, with their weights."""
        return []

    def produce(self) -> None:
        """To any broker that thinks it leads: a stale one too."""
        leaders = [b for b in self.alive if b.partition.leading is not None]
        if not leaders:
            return
        broker = self.random.choice(leaders)
        values = [f"v{self.counter + n}".encode() for n in range(self.random.randrange(1, 4))]
        self.counter += len(values)
        try:
            info = broker.partition.append_as_leader(batch(*values), -1, self.now_ms, WALL_MS)
        except NotEnoughReplicasError:
            return

        def acked(error: ApiError | None) -> None:
            if error is None:
                for index, value in enumerate(values):
                    if self.acked.setdefault(info.first_offset + index, value) != value:
                        raise InvariantBroken(f"offset {info.first_offset + index} was acked with two values")
                self.check_isr(info.last_offset + 1)

        broker.partition.acks_all.add(info.last_offset + 1, acked)

    def flush(self) -> None:
        for broker in self.some(self.alive):
            broker.partition.log.flush()
            broker.partition.flushed(broker.partition.log.flushed_offset)
            self._acknowledge(broker)

    def some(self, brokers: list[Broker]) -> list[Broker]:
        """Each of them or not, in a random order."""
        return [broker for broker in self.random.sample(brokers, len(brokers)) if self.random.random() < 0.6]

    def fetch(self) -> None:
        """One turn of some followers; an answer may get lost."""
        for follower in self.some(self.alive):
            if follower.partition.leading is None and len(follower.fetcher):
                self._fetch(follower)

    def _fetch(self, follower: Broker) -> None:
        leader = self.brokers.get(follower.partition.state.leader_id)
        turn = follower.fetcher.next_turn(self.now_ms)
        for wanted in turn.partitions:
            result = PartitionFetchResult(PARTITION, wanted.topic_id, wanted.fetch_offset)
            if leader is None or not leader.alive or self.random.random() < 0.1:
                follower.fetcher.session_lost()
                return
            position = ReplicaPosition(wanted.fetch_offset, wanted.last_fetched_epoch, wanted.log_start_offset)
            try:
                self.rules.check_epoch(leader.registered_epochs, follower.broker_id, follower.broker_epoch)
                result.diverging_epoch = leader.partition.note_follower_fetch(
                    follower.broker_id, follower.broker_epoch, position, wanted.current_leader_epoch, self.now_ms
                )
                if result.diverging_epoch is None:
                    limit = self.random.choice((1, 200, 1 << 20))
                    found = leader.partition.read(wanted.fetch_offset, limit, is_replica=True)
                    if isinstance(found, ColdRead):  # an index that is not loaded
                        found.run()
                        found = leader.partition.read(wanted.fetch_offset, limit, is_replica=True, cold=found)
                    if isinstance(found, ColdRead):
                        raise InvariantViolation(f"{found} has run, nothing changed, and it is not the answer")
                    result.records = found
                result.high_watermark = leader.partition.high_watermark
                result.log_start_offset = leader.partition.log.log_start_offset
            except ApiError as error:
                result.error = error
            if self.random.random() < 0.1:
                follower.fetcher.session_lost()
                return
            self._apply(follower, result, turn.number)

    def forge_fetch(self) -> None:
        """A stranger fetches at a leader's end in the name of a replica, under a broker epoch that it made up."""
        for leader in self.alive:
            if leader.partition.leading is None:
                continue
            log, replica_id = leader.partition.log, self.random.choice(BROKERS)
            position = ReplicaPosition(log.log_end_offset, log.latest_epoch, log.log_start_offset)
            with contextlib.suppress(ApiError):
                made_up = leader.registered_epochs[replica_id] + self.random.choice((-1, 1, 1 << 60))
                self.rules.check_epoch(leader.registered_epochs, replica_id, made_up)
                leader.partition.note_follower_fetch(replica_id, made_up, position, -1, self.now_ms)

    def _apply(self, follower: Broker, result: PartitionFetchResult, turn: int) -> None:
        for effect in follower.fetcher.on_result(result, turn, self.now_ms):
            log, epoch = follower.partition.log, follower.fetcher.leader_epoch(PARTITION)
            rebased = perform(effect, follower.partition)
            if rebased:
                follower.durable_log_start = log.segments[0].base_offset
                follower.fetcher.log_start_lowered(PARTITION, epoch, follower.durable_log_start)
                follower.unreported.append(epoch)
            if isinstance(effect, Append):
                follower.unacknowledged.append(epoch)
                if self.rules.acknowledge_before_flush:
                    follower.fetcher.appended(PARTITION, epoch, log.log_end_offset, log.latest_epoch)
            elif isinstance(effect, Truncate | StartOver):
                follower.fetcher.truncated(PARTITION, epoch, log.log_end_offset, log.latest_epoch, log.log_start_offset)
                follower.durable_log_start = min(follower.durable_log_start, log.log_start_offset)
            elif isinstance(effect, AdvanceLogStart):
                follower.unreported.append(epoch)
            else:
                follower.fetcher.appended(PARTITION, epoch, result.fetch_offset, log.latest_epoch)

    def _acknowledge(self, broker: Broker) -> None:
        log = broker.partition.log
        for epoch in broker.unacknowledged:
            broker.fetcher.appended(PARTITION, epoch, log.log_end_offset, log.latest_epoch)
        broker.unacknowledged.clear()

    # -- deletion ------------------------------------------------------------------------------------------------------

    def delete_records(self) -> None:
        """Asked of any broker that thinks it leads."""
        leaders = [b for b in self.alive if b.partition.leading is not None]
        if leaders:
            broker = self.random.choice(leaders)
            offset = self.random.randint(0, broker.partition.high_watermark)
            self.maybe_deleted_below = max(self.maybe_deleted_below, broker.partition.delete_records(offset))
            broker.deletions.append(offset)

    def write_log_starts(self) -> None:
        """The log-start checkpoint of some; a leader's deletions wait for the other replicas from now on."""
        for broker in self.some(self.alive):
            self._write_log_start(broker)

    def _write_log_start(self, broker: Broker) -> None:
        partition = broker.partition
        start = broker.durable_log_start = partition.log.log_start_offset
        for epoch in broker.unreported:
            broker.fetcher.log_start_durable(PARTITION, epoch, start)
        for offset in broker.deletions:
            if partition.leading is not None:
                partition.deletions.add(offset, self._deleted(offset))
        broker.unreported.clear()
        broker.deletions.clear()
        if partition.leading is not None:
            partition.leading.active_brokers = frozenset(b.broker_id for b in self.alive)
            partition.check_low_watermark()

    def _deleted(self, offset: int) -> Callable[[ApiError | None], None]:
        def answered(error: ApiError | None) -> None:
            if error is None:
                if offset > self.deleted_below:
                    self.crash_soon_until = self.steps + CRASHES_AFTER_DELETION
                self.deleted_below = max(self.deleted_below, offset)

        return answered

    # -- metadata ------------------------------------------------------------------------------------------------------

    def deliver_metadata(self) -> None:
        for broker in self.some(self.alive):
            self.tell(broker)

    def tell(self, broker: Broker) -> None:
        """The newest image reaches one broker."""
        wanted = self.controller
        broker.registered_epochs = {b.broker_id: b.broker_epoch for b in self.brokers.values()}
        if not broker.alive or broker.known_partition_epoch >= wanted.partition_epoch:
            return
        broker.known_partition_epoch = wanted.partition_epoch
        partition = broker.partition
        if wanted.leader_id == broker.broker_id:
            broker.fetcher.remove([PARTITION])
            partition.become_leader(wanted, self.now_ms)
            return
        hint = LeaderHint(wanted.leader_id, wanted.leader_epoch)
        if partition.become_follower(wanted, hint) or PARTITION not in broker.fetcher:
            partition.log.flush()
            broker.unacknowledged.clear()
            log = partition.log
            broker.fetcher.add(
                PARTITION,
                FetchState(TOPIC_ID, wanted.leader_epoch, log.log_end_offset, log.latest_epoch, log.log_start_offset),
            )

    def propose_isr(self) -> None:
        """The leader wants another ISR; the controller judges; the answer may get lost."""
        for broker in self.alive:
            leading = broker.partition.leading
            if leading is None:
                continue
            end = broker.partition.log.log_end_offset
            proposed = leading.propose_shrink(end, broker.broker_epoch, self.now_ms, LAG_MS)
            for follower in BROKERS:
                proposed = proposed or leading.propose_expand(
                    follower, broker.partition.high_watermark, broker.broker_epoch, self._may_join(broker, follower)
                )
            proposed = proposed or leading.proposed
            if proposed is not None and self.random.random() < 0.8:
                accepted = self._judge(broker, proposed)
                if accepted and self.random.random() < 0.8:
                    wanted = self.controller
                    broker.partition.isr_committed(wanted.isr, wanted.leader_epoch, wanted.partition_epoch)

    def _may_join(self, leader: Broker, follower: int) -> bool:
        """True if the follower may join the ISR, besides having caught up."""
        progress = leader.partition.leading and leader.partition.leading.followers.get(follower)
        if not progress or not self.brokers[follower].alive:
            return False
        return progress.log_start_offset >= leader.partition.log.log_start_offset

    def _judge(self, broker: Broker, proposed: ProposedIsr) -> bool:
        wanted, leading = self.controller, broker.partition.leading
        if leading is None or wanted.leader_id != broker.broker_id or wanted.leader_epoch != leading.leader_epoch:
            return False
        if wanted.partition_epoch != proposed.partition_epoch:
            return False
        for member in proposed.members:
            known = self.brokers[member.broker_id]
            if not known.alive or known.broker_epoch != member.broker_epoch:
                self._change(isr=wanted.isr)
                broker.partition.isr_rejected(proposed)
                return False
        self._change(isr=tuple(sorted(proposed.ids)))
        return True

    def _change(self, isr: tuple[int, ...], leader_id: int | None = None) -> None:
        old = self.controller
        self.controller = state(
            leader_id=old.leader_id if leader_id is None else leader_id,
            leader_epoch=old.leader_epoch + (leader_id is not None),
            partition_epoch=old.partition_epoch + 1,
            isr=isr,
        )

    def crash(self) -> None:
        """kill -9 with a power cut: what was not flushed may be gone. At least one broker stays."""
        if len(self.alive) < 2:
            return
        broker = self.random.choice(self.alive)
        broker.alive = False
        isr = tuple(b for b in self.controller.isr if b != broker.broker_id) or self.controller.isr
        electable = [b for b in isr if self.brokers[b].alive]
        if self.controller.leader_id == broker.broker_id:
            self._change(isr, electable[0] if electable else -1)
        elif isr != self.controller.isr:
            self._change(isr)

    def restart(self) -> None:
        """A dead broker comes back, with a new broker epoch and perhaps without its unflushed tail."""
        dead = [b for b in self.brokers.values() if not b.alive]
        if not dead:
            return
        broker = self.random.choice(dead)
        old = broker.partition.log
        recovery_point, end = old.recovery_point, old.log_end_offset
        old.close()
        if self.random.random() < 0.3:  # a lost checkpoint costs time: epochs are in the batches, too
            Path(old.directory, LEADER_EPOCH_CHECKPOINT).unlink(missing_ok=True)
        log = Log(
            OsFileSystem(),
            old.directory,
            PARTITION,
            LogConfig(),
            LogOptions(
                THREADS,
                TOPIC_ID,
                last_known=LastKnown(recovery_point=recovery_point, log_start_offset=broker.durable_log_start),
            ),
        )
        log.truncate_to(self.random.randint(recovery_point, end))
        checkpointed = self.random.choice((0, broker.partition.high_watermark))
        partition = self.rules.partition_class(broker.broker_id, log, checkpointed, self.min_isr)
        self.brokers[broker.broker_id] = self._broker(partition)
        self.brokers[broker.broker_id].durable_log_start = log.log_start_offset
        if self.controller.leader_id == -1 and broker.broker_id in self.controller.isr:
            self._change(self.controller.isr, broker.broker_id)
        self.tell(self.brokers[broker.broker_id])

    # -- reading and judging -------------------------------------------------------------------------------------------

    def consume(self) -> None:
        """Read everything readable from whoever thinks it leads; I16: what was read never changes."""
        for broker in self.alive:
            if broker.partition.leading is not None:
                for offset, value in self.values(broker, broker.partition.high_watermark).items():
                    if self.consumed.setdefault(offset, value) != value:
                        raise InvariantBroken(f"I16: offset {offset} read as {value!r}, was {self.consumed[offset]!r}")

    def values(self, broker: Broker, below: int) -> dict[int, bytes]:
        log = broker.partition.log
        found: dict[int, bytes] = {}
        offset = log.log_start_offset
        while offset < below:
            columns = read_columns(log.read(offset, 1 << 20, max_offset=below).records, from_offset=offset)
            found.update(zip(columns.offsets, (bytes(v or b"") for v in columns.values), strict=True))
            if not len(columns.offsets):
                raise InvariantBroken(f"{broker.partition}: nothing to read at {offset}, below {below}")
            offset = max(columns.offsets) + 1
        return found

    def check_isr(self, acked_end: int) -> None:
        """I13, I19: every member of the controller's ISR has everything that was acked, on its disk."""
        for broker_id in self.controller.isr:
            log = self.brokers[broker_id].partition.log
            if log.recovery_point < acked_end:
                raise InvariantBroken(f"I13: broker {broker_id} of the ISR has {log.recovery_point} of {acked_end}")

    def check(self) -> None:
        """I7, I10, I12, I14, I17 as far as they can be seen from outside."""
        wanted = self.controller
        self.check_isr(max(self.acked, default=-1) + 1)
        for broker in self.alive:
            partition = broker.partition
            if not partition.log.log_start_offset <= partition.high_watermark <= partition.log.log_end_offset:
                raise InvariantBroken(f"I17: {partition}")
        leader = self.brokers.get(wanted.leader_id)
        if leader is not None and leader.alive:
            leading = leader.partition.leading
            if leading is not None and leading.leader_epoch == wanted.leader_epoch:
                if not leading.maximal_isr >= set(wanted.isr):
                    raise InvariantBroken(f"I12: {sorted(leading.maximal_isr)} lacks some of {wanted.isr}")
                if self.checked_epoch == wanted.leader_epoch and self.steps % 25:
                    return  # what an epoch's leader has can only be lost between epochs
                self.checked_epoch = wanted.leader_epoch
                start = leader.partition.log.log_start_offset
                if not self.deleted_below <= start <= self.maybe_deleted_below:
                    raise InvariantBroken(
                        f"the leader's log starts at {start}; deleted is up to {self.deleted_below}, and nothing from"
                        f" {self.maybe_deleted_below} on"
                    )
                held = self.values(leader, leader.partition.log.log_end_offset)
                for offset, value in self.acked.items():
                    if offset >= start and held.get(offset) != value:
                        raise InvariantBroken(f"I14: acked {value!r} at {offset}; the leader has {held.get(offset)!r}")

    def converge(self) -> None:
        """End: everybody is back, everything is flushed and fetched, and the logs are equal (I21, I23)."""
        while len(self.alive) < len(BROKERS):
            self.restart()
        for _ in range(60):
            for broker in self.brokers.values():
                self.tell(broker)
                broker.partition.log.flush()
                broker.partition.flushed(broker.partition.log.flushed_offset)
                self._acknowledge(broker)
                self._write_log_start(broker)
            self.fetch()
            self.fetch()
            self.now_ms += 50
            self.propose_isr()
        self.check()
        starts = {b.broker_id: b.partition.log.log_start_offset for b in self.brokers.values()}
        if min(starts.values()) < starts[self.controller.leader_id]:
            raise InvariantBroken(f"I23: a replica has what its leader {self.controller.leader_id} deleted: {starts}")
        logs = [
            {offset: value for offset, value in found.items() if offset >= max(starts.values())}
            for found in (self.values(b, b.partition.log.log_end_offset) for b in self.brokers.values())
        ]
        if not logs[0] == logs[1] == logs[2]:
            raise InvariantBroken(f"I23: the replicas differ: ends {[len(log) for log in logs]}")
        if set(self.controller.isr) != set(BROKERS):
            raise InvariantBroken(f"I23: the ISR is {self.controller.isr} at the end")


def run(seed: int, directory: Path, steps: int, rules: Rules = Rules()) -> int:
    """One seed; the number of acked records. Raises what did not hold."""
    return run_world(World(seed, directory, rules), seed, steps)


def run_world(world: World, seed: int, steps: int) -> int:
    for number in range(steps):
        try:
            world.step()
        except (InvariantBroken, InvariantViolation) as error:
            raise InvariantBroken(f"seed {seed}, step {number}: {error}") from error
    try:
        world.converge()
    except (InvariantBroken, InvariantViolation) as error:
        raise InvariantBroken(f"seed {seed}, at the end: {error}") from error
    for broker in world.brokers.values():
        broker.partition.log.close()
    return len(world.acked)
