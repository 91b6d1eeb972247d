"""A replica moves to another log dir only when the controller knows of that dir; if it stays, the controller learns
that, too (KIP-858)."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.jobs.log_dir_moves.log_dir_moves import TRY_AGAIN_MS
from broker.jobs.log_dir_moves.move_announcement import (
    ACKNOWLEDGE_MS_MAX,
    UNUSED_MS_MAX,
    WAITS_FOR,
    MoveAnnouncements,
)
from broker.jobs.log_dir_moves.moves import Move
from broker.replication.hosting.directory_reports import DirectoryReports
from broker.replication.partition import Partition
from penstock.errors import NotControllerError, RequestTimedOutError
from penstock.messages.nodes.brokers import AssignedReplica, AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from penstock.types import TopicPartition
from storage.log_dirs.future_directories import MoveDirectory
from tests.support.machine import stop_wait
from tests.support.moving_replica import Stage, played
from tests.support.partitions import PARTITION
from tests.support.storage import TOPIC_ID
from tests.support.virtual_time import run_virtual

VALUES = [b"value %02d" % n for n in range(30)]


class Silent:
    """A controller that does not answer until it may."""

    def __init__(self, made: Stage) -> None:
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()
        made.controller.refuses = self._wait

    async def _wait(self) -> None:
        self.asked.set()
        await self.may_answer.wait()


def ids(made: Stage, *log_dirs: str) -> list[str]:
    return [made.manager.directory_id(log_dir) for log_dir in log_dirs]


async def until_reported(made: Stage, *log_dirs: str) -> None:
    async with asyncio.timeout(10):
        while len(made.controller.reported) < len(log_dirs):
            made.controller.news.clear()
            await made.controller.news.wait()
    assert made.controller.reported == ids(made, *log_dirs)


def test_a_replica_is_served_where_it_is_until_the_controller_knows_its_new_log_dir(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        source, target = made.partition.log.log_dir, made.other
        silent = Silent(made)
        assert await made.alter(target) is None
        moving = asyncio.create_task(made.run())
        await silent.asked.wait()
        assert made.moves.views()[PARTITION].waits_for == WAITS_FOR
        made.write(b"meanwhile")
        made.host(partition_epoch=1)  # with the old log dir: the announcement stays
        assert not made.is_held and made.partition.log.log_dir == source
        silent.may_answer.set()
        await moving
        assert made.partition.log.log_dir == target and made.values() == [*VALUES, b"meanwhile"]
        await until_reported(made, target, target)
        assert made.moves.statistics().put_off == 0 and len(made.replicas.directories) == 0

    played(tmp_path, story)


@pytest.mark.parametrize("suffix", ["-moved", "-future"])
def test_a_swap_that_is_undone_has_the_controller_told_where_the_replica_is(tmp_path: Path, suffix: str) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        source, target = made.partition.log.log_dir, made.other
        assert await made.alter(target) is None
        with made.fs.failing("rename", suffix, errno.ENOSPC):
            await made.run()
        await until_reported(made, target, source)
        made.clock.advance(TRY_AGAIN_MS)
        await made.run()
        await until_reported(made, target, source, target, target)
        assert made.partition.log.log_dir == target

    played(tmp_path, story)


def test_a_destination_that_fails_after_it_was_announced_leaves_the_replica_and_the_controller_is_told(
    tmp_path: Path,
) -> None:
    """The controller takes the replica for offline: it is told that it is not."""

    async def story(made: Stage) -> None:
        made.write(*VALUES)
        source, target = made.partition.log.log_dir, made.other

        async def failing() -> None:
            made.replicas.failures.directory_failed(target, OSError(errno.EIO, "broken"))

        made.controller.refuses = failing
        assert await made.alter(target) is None
        await made.run()
        await until_reported(made, target, source)
        assert made.partition.offline is None and made.moves.views() == {}
        made.write(b"goes on")
        assert made.values() == [*VALUES, b"goes on"] and made.replicas.losses == 0

    played(tmp_path, story)


def test_a_destination_that_fails_before_it_was_announced_is_never_announced(tmp_path: Path) -> None:
    """The controller would take the replica for offline, and elect another leader."""

    async def story(made: Stage) -> None:
        made.write(*VALUES)
        source, target = made.partition.log.log_dir, made.other
        assert await made.alter(target) is None

        def failing(step: int) -> None:
            made.replicas.failures.directory_failed(target, OSError(errno.EIO, "broken"))

        made.throttle.meddle = failing
        await made.run()
        assert made.controller.reported == [] and len(made.replicas.directories) == 0
        assert made.partition.log.log_dir == source and made.values() == VALUES
        made.clock.advance(TRY_AGAIN_MS)
        await made.run()
        assert made.controller.reported == []

    played(tmp_path, story)


def test_a_source_that_fails_after_the_announcement_is_told_to_the_controller(tmp_path: Path) -> None:
    """Which took the replica for one of the other log dir."""

    async def story(made: Stage) -> None:
        made.write(*VALUES)
        source, target = made.partition.log.log_dir, made.other

        async def failing() -> None:
            made.replicas.failures.directory_failed(source, OSError(errno.EIO, "broken"))

        made.controller.refuses = failing
        assert await made.alter(target) is None
        await made.run()
        await until_reported(made, target, source)
        assert made.partition.offline is not None

    played(tmp_path, story)


def test_a_move_that_is_taken_back_does_not_wait_for_the_controller(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        source, target = made.partition.log.log_dir, made.other
        silent = Silent(made)
        assert await made.alter(target) is None
        moving = asyncio.create_task(made.run())
        await silent.asked.wait()
        async with asyncio.timeout(10):
            assert await made.alter(source) is None
        await moving
        assert made.partition.log.log_dir == source and made.values() == VALUES
        silent.may_answer.set()
        await until_reported(made, target, source)

    played(tmp_path, story)


def test_a_topic_that_is_deleted_while_its_move_waits_is_reported_no_more(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        silent = Silent(made)
        assert await made.alter(made.other) is None
        moving = asyncio.create_task(made.run())
        await silent.asked.wait()
        made.replicas.remove(PARTITION, TOPIC_ID)
        async with asyncio.timeout(10):
            await moving
        assert len(made.replicas.directories) == 0
        await made.run()
        await made.replicas.deletions.close(stop_wait())
        assert all(name.endswith("-delete") for name in made.names())

    played(tmp_path, story)


def test_a_stop_does_not_wait_for_the_controller(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        source = made.partition.log.log_dir
        silent = Silent(made)
        assert await made.alter(made.other) is None
        moving = asyncio.create_task(made.run())
        await silent.asked.wait()
        made.moves.stop()
        async with asyncio.timeout(10):
            await moving
        assert made.partition.log.log_dir == source

    played(tmp_path, story)


def test_a_registration_after_the_answer_has_the_move_announced_once_more(tmp_path: Path) -> None:
    """It names the dirs where the replicas are: what was announced before is forgotten."""

    async def story(made: Stage) -> None:
        made.write(*VALUES)
        source, target = made.partition.log.log_dir, made.other

        async def registering() -> None:
            if not made.controller.reported:
                made.replicas.lost.registered(17)

        made.controller.refuses = registering
        assert await made.alter(target) is None
        await made.run()
        assert made.partition.log.log_dir == source
        made.clock.advance(TRY_AGAIN_MS)
        await made.run()
        assert made.partition.log.log_dir == target

    played(tmp_path, story)


# -- time --------------------------------------------------------------------------------------------------------------


class Scene:
    """One replica in /a that moves to /b; the controller fails while it `is_away`."""

    def __init__(self) -> None:
        self.reported: list[str] = []
        self.is_away = False
        self.reports = DirectoryReports(1, lambda: 7, lambda path: path, self._call, pytest.fail, Random(0))
        self.announcements = MoveAnnouncements(self.reports)
        key = TopicPartition("t", 0)
        self.move = Move(MoveDirectory("/b", key, "u" * 22), "id")
        log = SimpleNamespace(log_dir="/a")
        self.partition = cast(Partition, SimpleNamespace(topic_partition=key, topic_id="id", log=log))

    async def _call(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        if self.is_away:
            raise NotControllerError("the controller is away")
        self.reported += [held.log_dir for held in request.replicas]
        return AssignReplicasToDirsResponse((AssignedReplica("id", 0),))

    def run(self, story: Any) -> None:
        async def scenario() -> None:
            self.reports.calls.start()
            await story()
            await self.reports.calls.stop()

        run_virtual(scenario())


def test_a_controller_that_is_away_lets_the_move_wait_and_hears_afterwards_where_the_replica_is() -> None:
    scene = Scene()

    async def story() -> None:
        scene.is_away = True
        began_s = asyncio.get_running_loop().time()
        assert not await scene.announcements.acknowledged(scene.move, scene.partition)
        assert asyncio.get_running_loop().time() - began_s == ACKNOWLEDGE_MS_MAX / 1000
        assert scene.move.waits_for == WAITS_FOR and not scene.announcements.use(scene.move)
        scene.announcements.end(scene.move)
        scene.is_away = False
        await asyncio.sleep(10)
        assert scene.reported == ["/a"]
        assert await scene.announcements.acknowledged(scene.move, scene.partition)
        assert scene.move.waits_for == "" and scene.announcements.use(scene.move)

    scene.run(story)


def test_an_announcement_that_is_not_used_soon_is_taken_back() -> None:
    """The copy's disk may hang before the swap."""
    scene = Scene()

    async def story() -> None:
        assert await scene.announcements.acknowledged(scene.move, scene.partition)
        await asyncio.sleep(UNUSED_MS_MAX / 1000 + 1)
        assert scene.reported == ["/b", "/a"] and not scene.announcements.use(scene.move)

    scene.run(story)


def test_an_announcement_in_use_stays_until_the_move_ends() -> None:
    scene = Scene()

    async def story() -> None:
        assert await scene.announcements.acknowledged(scene.move, scene.partition)
        assert scene.announcements.use(scene.move)
        await asyncio.sleep(UNUSED_MS_MAX / 1000 + 1)
        assert scene.reported == ["/b"]
        scene.partition.log.log_dir = "/b"  # type: ignore[misc]
        scene.announcements.end(scene.move)
        await asyncio.sleep(1)
        assert scene.reported == ["/b", "/b"]

    scene.run(story)


def test_an_answer_that_comes_after_the_announcement_was_taken_back_counts_for_nothing() -> None:
    scene = Scene()

    async def story() -> None:
        asked, may_answer = asyncio.Event(), asyncio.Event()

        async def late(request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
            scene.reports.calls._call = scene._call
            asked.set()
            await may_answer.wait()
            return await scene._call(request)

        scene.reports.calls._call = late
        first = scene.reports.announce(scene.partition, "/b")
        await asked.wait()
        scene.reports.withdraw(first)
        scene.reports.withdraw(first)
        may_answer.set()
        await asyncio.sleep(1)
        assert scene.reported == ["/b", "/a"] and not scene.reports.holds(first)

    scene.run(story)


def test_a_lost_answer_is_asked_for_again() -> None:
    scene = Scene()

    async def story() -> None:
        async def lost(request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
            scene.reports.calls._call = scene._call
            await scene._call(request)
            raise RequestTimedOutError("no answer")

        scene.reports.calls._call = lost
        assert await scene.announcements.acknowledged(scene.move, scene.partition)
        assert scene.reported == ["/b", "/b"]

    scene.run(story)
