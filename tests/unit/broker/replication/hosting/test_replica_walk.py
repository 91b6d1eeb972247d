"""Whatever comes, in whichever order, a broker does with its replicas what their states say, and gets over it.

Drawn events over real logs in two log dirs: topics are made, deleted and made anew, replicas go and come back, logs are
created late or find no room, rot, disks that fail, moves between log dirs, registrations. Between two of them the event
loop has no turn, unless the event is one.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

from broker.replication.hosting.replica_states import LOST, SERVED, HostingState, Replica
from broker.replication.partition import Partition
from metadata.image import EMPTY_IMAGE
from metadata.records import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from penstock.clock import ManualClock
from penstock.errors import CorruptFileError, KafkaStorageError
from penstock.types import TopicPartition
from storage.disk.dir_threads import OnDone
from storage.log.group_commit import GroupCommit
from tests.simulation.cluster.replica_invariants import wrong
from tests.support.faulty_fs import FaultyFileSystem
from tests.support.machine import THREADS, stop_wait
from tests.support.replicas import PublishedMetadata, Replicas
from tests.support.storage import open_manager

ME, ANOTHER = 1, 2
NAMES = ("a", "b", "c")
STEPS, WALKS_MIN = 100, 8


class Late:
    """Creates logs when it is told to."""

    busy: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], object], OnDone]] = []

    def run(self, log_dir: str, work: Callable[[], object], on_done: OnDone) -> None:
        self.waiting.append((work, on_done))

    def go_on(self) -> None:
        while self.waiting:
            work, on_done = self.waiting.pop(0)
            work()
            on_done(None)

    def close(self, given_up: set[str]) -> None:
        """Nothing is under way."""


class Walk:
    def __init__(self, seed: int, path: Path) -> None:
        self.random, self.clock, self.fs = Random(seed), ManualClock(), FaultyFileSystem()
        self.dirs = str(path / "a"), str(path / "b")
        self.log_manager = open_manager(self.fs, self.dirs)
        self.group_commit = GroupCommit(lambda log_dir, error: None, THREADS)
        self.creating, self.epoch, self.made = Late(), 100, 0
        self.replicas = Replicas(ME, self.log_manager, self.group_commit, self.clock, creating=self.creating)
        self.hosted, self.failures = self.replicas.parts.hosted, self.replicas.failures
        self.metadata = PublishedMetadata(self.replicas, self.log_manager, EMPTY_IMAGE)
        self.seen: set[HostingState] = set()
        self.ever: dict[Partition, None] = {}
        """All that were hosted here: a read that was under way finds rot after its partition was dismissed."""
        self.events: tuple[tuple[Callable[[], None], int], ...] = (
            (self.make_or_delete, 12),
            (self.lead_or_follow, 8),
            (self.go_or_come, 8),
            (self.creating.go_on, 8),
            (self.register, 4),
            (self.replicas.revive_lost, 4),
            (self.rot, 4),
            (self.rot_that_may_be_rebuilt, 4),
            (self.find_no_room, 4),
            (self.break_down, 1),
            (self.hold_or_release, 8),
            (self.lose_a_dir, 1),
            (lambda: self.clock.advance(25), 4),
        )

    # -- events --------------------------------------------------------------------------------------------------------

    def make_or_delete(self) -> None:
        name = self.random.choice(NAMES)
        topic = self.metadata.image.topic(name)
        if topic is not None:
            self.metadata.publish(RemoveTopicRecord(topic.topic_id))
        if topic is None or self.random.random() < 0.5:
            self.made += 1
            topic_id = f"{self.made:022d}"
            isr, leader = self.random.choice((((ME, ANOTHER), ME), ((ME, ANOTHER), ANOTHER), ((ANOTHER,), ANOTHER)))
            record = PartitionRecord(topic_id, 0, (ME, ANOTHER), isr, leader)
            self.metadata.publish(TopicRecord(name, topic_id), record)

    def change(self, **changes: object) -> None:
        topic = self.metadata.image.topic(self.random.choice(NAMES))
        if topic is not None and ("replicas" in changes or ME in topic.partitions[0].replicas):
            self.metadata.publish(replace(PartitionChangeRecord(topic.topic_id, 0), **changes))  # type: ignore[arg-type]

    def lead_or_follow(self) -> None:
        leader = self.random.choice((ME, ANOTHER))
        self.change(isr=(leader,), leader_id=leader)

    def go_or_come(self) -> None:
        replicas = self.random.choice(((ANOTHER,), (ME, ANOTHER)))
        self.change(replicas=replicas, replicas_before=(), isr=(ANOTHER,), leader_id=ANOTHER)

    def register(self) -> None:
        self.epoch += 1
        self.replicas.brokers_changed({ME: self.epoch, ANOTHER: 7}, frozenset({ME, ANOTHER}))
        self.replicas.registered(self.epoch)

    def some(self, *states: HostingState) -> Replica | None:
        found = [replica for replica in self.hosted.replicas() if replica.state in states]
        return self.random.choice(found) if found else None

    def rot(self) -> None:
        if self.ever:
            self.failures.disk_error(self.random.choice(tuple(self.ever)), CorruptFileError("0.log", 0, "rot"))

    def rot_that_may_be_rebuilt(self) -> None:
        if (
            replica := self.some(HostingState.LED, HostingState.FOLLOWED)
        ) is not None and replica.partition is not None:
            self.metadata.publish(PartitionChangeRecord(replica.partition.topic_id, 0, (ANOTHER,), ANOTHER))
            self.failures.disk_error(replica.partition, CorruptFileError("0.log", 0, "rot"))
            self.register()

    def find_no_room(self) -> None:
        with self.fs.failing("mkdir", "-0", errno.ENOSPC):
            self.creating.go_on()

    def break_down(self) -> None:
        if hosted := self.hosted.all():
            self.failures.partition_failed(self.random.choice(hosted), OSError(errno.ENOSPC, "in mid-change"))

    def hold_or_release(self) -> None:
        held = self.some(HostingState.HELD, HostingState.BROKEN)
        if held is not None and self.random.random() < 0.7:
            self.release(held)
        elif (replica := self.some(HostingState.LED, HostingState.FOLLOWED)) is not None:
            replica.hold(KafkaStorageError("try again"))

    def release(self, replica: Replica) -> None:
        postponed = replica.release()
        if replica.state in SERVED:
            self.replicas.parts.roles.take(replica)
        for change in postponed:
            change()

    def lose_a_dir(self) -> None:
        if not self.log_manager.offline_log_dirs:
            self.failures.directory_failed(self.random.choice(self.dirs), OSError(errno.EIO, "broken"))

    # -- the walk ------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        for replica in self.hosted.replicas():
            self.seen.add(replica.state)
            if replica.partition is not None:
                self.ever[replica.partition] = None
            assert not (found := wrong(replica, self.log_manager.table)), f"{replica} {found}"
            assert replica.state is HostingState.HELD or self.is_of_the_newest(replica), f"{replica}"

    def is_of_the_newest(self, replica: Replica) -> bool:
        """True if the served replica is of the topic that has the name now, if that is known: what comes is put off
        meanwhile."""
        topic, partition = self.metadata.image.topic(replica.key.topic), replica.partition
        if replica.state not in SERVED or partition is None:
            return True
        return topic is not None and topic.topic_id == partition.topic_id

    async def go(self) -> None:
        events, weights = zip(*self.events, strict=True)
        for _ in range(STEPS):
            self.random.choices(events, weights)[0]()
            self.check()
            if self.random.random() < 0.1:
                await self.replicas.logs_have_left()
                self.check()

    async def settle(self) -> None:
        """Everything ends, and nothing more comes."""
        for replica in self.hosted.replicas():
            if replica.held is not None:
                self.release(replica)
        for _ in range(4):
            self.register()
            async with asyncio.timeout(60):
                while len(self.replicas.parts.creation) or self.creating.waiting or self.replicas.deletions.busy:
                    self.creating.go_on()
                    await asyncio.sleep(0.001)
            self.check()
        for name in NAMES:
            self.check_settled(TopicPartition(name, 0))
        await self.replicas.deletions.close(stop_wait())
        await self.group_commit.close(stop_wait())
        self.log_manager.close()

    def check_settled(self, key: TopicPartition) -> None:
        """An assigned replica is served, or somebody knows why not; of any other nothing is left here."""
        topic, state = self.metadata.image.topic(key.topic), self.hosted.state(key)
        if topic is not None and ME in topic.partitions[0].replicas:
            assert state in LOST | SERVED, f"{key}: {state}"
            assert state in SERVED or key in self.replicas.lost.partitions
        else:
            assert state is HostingState.ABSENT or self.log_manager.table.offline.named(key), f"{key}: {state}"
            assert not self.log_manager.table.logs.named(key)


def test_whatever_happens_to_a_broker_its_replicas_are_what_their_states_say(tmp_path: Path) -> None:
    async def scenario() -> None:
        seen = {HostingState.OPENED}
        for seed in range(40):
            walk = Walk(seed, tmp_path / str(seed))
            await walk.go()
            await walk.settle()
            seen |= walk.seen
            if seed >= WALKS_MIN and seen == set(HostingState):
                return
        raise AssertionError(f"never seen: {set(HostingState) - seen}")

    asyncio.run(scenario())
