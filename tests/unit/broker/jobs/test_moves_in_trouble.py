"""Promises of moves between log dirs that meet trouble, are taken back or asked for anew: the replica stays whole."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from broker.jobs.log_dir_moves.log_dir_moves import TRY_AGAIN_MS
from penstock.errors import (
    InvalidTopicError,
    KafkaStorageError,
    LogDirNotFoundError,
    ReplicaNotAvailableError,
)
from penstock.types import METADATA_TOPIC, TopicPartition
from tests.support.moving_replica import Stage, played, stage
from tests.support.partitions import PARTITION, batch
from tests.support.storage import TOPIC_ID, read_all

OTHER_TOPIC_ID = "B" * 22
VALUES = [b"value %02d" % n for n in range(30)]


def test_a_full_disk_lets_the_move_wait(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        target = made.other
        assert await made.alter(target) is None
        with made.fs.failing("write", "-future", errno.ENOSPC):
            await made.run()
        assert "disk is full" in made.moves.views()[PARTITION].waits_for
        made.write(b"goes on")
        await made.run()
        assert made.partition.log.log_dir != target, "it waits"
        made.clock.advance(TRY_AGAIN_MS)
        said: set[str] = set()
        made.throttle.meddle = lambda step: said.update(view.waits_for for view in made.moves.views().values())
        await made.run()
        assert "" in said, "while it goes on, nobody is told that it waits"
        assert made.partition.log.log_dir == target and made.values() == [*VALUES, b"goes on"]
        assert made.replicas.failed_log_dirs == []

    played(tmp_path, story)


def test_a_log_that_cannot_be_read_for_lack_of_descriptors_lets_the_move_wait(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        target = made.other
        assert await made.alter(target) is None
        with made.fs.failing("pread", f"{made.here}/t-0/", errno.EMFILE) as fault:
            async with asyncio.timeout(5):
                await made.run()
        assert 0 < fault.met < 5 and made.moves.views()[PARTITION].waits_for
        made.clock.advance(TRY_AGAIN_MS)
        await made.run()
        assert made.partition.log.log_dir == target and made.values() == VALUES
        assert made.replicas.failed_log_dirs == []

    played(tmp_path, story)


def test_a_lack_of_descriptors_does_not_keep_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that fails before it waits for anything: a loop without a pause would be the end of the node."""

    async def story(made: Stage) -> None:
        made.write(*VALUES)
        target, reads = made.other, 0
        assert await made.alter(target) is None

        def read_nowait(*_: object, **__: object) -> None:
            nonlocal reads
            reads += 1
            assert reads < 100, "it tries without a pause"
            raise OSError(errno.EMFILE, "too many open files")

        with monkeypatch.context() as patched:
            patched.setattr(type(made.partition.log.reader), "read_nowait", read_nowait)
            await made.run()
        assert reads == 1 and made.partition.offline is None

    played(tmp_path, story)


def test_a_log_dir_that_dies_as_the_destination_leaves_the_replica_where_it_is(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        target = made.other
        assert await made.alter(target) is None
        with made.fs.failing("fdatasync", "-future", errno.EIO):
            await made.run()
        assert made.replicas.failed_log_dirs == [target]
        assert made.partition.offline is None and made.moves.views() == {}
        made.write(b"goes on")
        assert made.values() == [*VALUES, b"goes on"]
        error = await made.alter(target)
        assert isinstance(error, KafkaStorageError) and "is offline" in str(error)

    played(tmp_path, story)


def test_a_log_dir_that_dies_as_the_source_ends_the_move_and_a_restart_goes_on(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        source = made.partition.log.log_dir

        def meddle(step: int) -> None:
            if step == 3:
                made.replicas.failures.directory_failed(source, OSError(errno.EIO, "broken"))

        made.throttle.meddle = meddle
        assert await made.alter(made.other) is None
        await made.run()
        assert made.partition.offline is not None and made.partition.log.log_dir == source

    played(tmp_path, story)

    async def afterwards(made: Stage) -> None:
        source, target = made.here, made.other
        await made.run()
        assert made.partition.log.log_dir == target != source and made.values() == VALUES

    played(tmp_path, afterwards)


def test_the_copy_of_a_replica_that_was_deleted_before_it_was_served_is_dropped(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        assert await made.alter(made.other) is None

    played(tmp_path, story)

    async def afterwards() -> None:
        async with stage(tmp_path) as made:
            assert made.names() == ["t-0", "t-0-future"]
            made.manager.removal.set_aside_for_deletion(PARTITION, TOPIC_ID)
            await made.run()
            assert made.names() == ["t-0-delete", "t-0-delete"]

    asyncio.run(afterwards())


@pytest.mark.parametrize("moves_again", [False, True])
def test_the_copy_of_a_topic_that_was_made_anew_before_it_was_served_is_dropped_and_not_filled(
    tmp_path: Path, moves_again: bool
) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        assert await made.alter(made.other) is None

    played(tmp_path, story)

    async def afterwards() -> None:
        async with stage(tmp_path) as made:
            made.manager.removal.set_aside_for_deletion(PARTITION, TOPIC_ID)
            made.host(topic_id=OTHER_TOPIC_ID)
            partition = made.replicas.get(PARTITION, OTHER_TOPIC_ID)
            partition.append_as_leader(batch(b"of the new topic"), 1, 1, made.clock.wall_ms())
            source, target = made.dirs
            assert partition.log.log_dir == source and made.moves.views() == {}
            if moves_again:
                assert await made.alter(target) is None
            await made.run()
            assert partition.log.log_dir == (target if moves_again else source)
            assert [value for _, value in read_all(partition.log)] == [b"of the new topic"]
            assert made.moves.statistics().failed_attempts == 0 and "t-0-future" not in made.names()

    asyncio.run(afterwards())


def test_a_move_goes_on_after_a_stop_in_order(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        made.throttle.meddle = lambda step: made.moves.stop() if step == 5 else None
        assert await made.alter(made.other) is None
        await made.run()
        assert made.throttle.steps == 5 and made.moves.views()[PARTITION].bytes_left > 0

    played(tmp_path, story)

    async def afterwards(made: Stage) -> None:
        target = made.other
        assert made.moves.views()[PARTITION].log_dir == target
        await made.run()
        assert made.throttle.steps < 29, "what was copied before is not copied again"
        assert made.partition.log.log_dir == target and made.values() == VALUES

    played(tmp_path, afterwards)


def test_asking_for_where_it_is_ends_a_move_and_asking_twice_is_one_move(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        source, target = made.partition.log.log_dir, made.other
        assert await made.alter(target) is None and await made.alter(target) is None
        assert made.names() == ["t-0", "t-0-future"]
        assert await made.alter(source) is None
        assert made.moves.views() == {}
        assert "t-0-future" not in made.names(), "BEFORE the answer: a start would go on with the move"
        await made.run()
        assert made.partition.log.log_dir == source
        assert not [name for name in made.names() if name.endswith("-future")]

    played(tmp_path, story)


@pytest.mark.parametrize("in_mid_copy", [False, True])
def test_the_copy_of_a_deleted_replica_is_dropped_without_the_job_that_copies(
    tmp_path: Path, in_mid_copy: bool
) -> None:
    """That may be busy with another copy for hours. Its own copy it closes before."""

    async def story(made: Stage) -> None:
        made.write(*VALUES)
        target, copying = made.other, asyncio.Event()
        assert await made.alter(target) is None
        made.throttle.meddle = lambda step: copying.set()
        moving = asyncio.create_task(made.moves.run(target)) if in_mid_copy else None
        if moving is not None:
            await copying.wait()
        made.replicas.remove(PARTITION, TOPIC_ID)
        await made.moves.drop(target)
        assert ("t-0-future" in made.names()) == in_mid_copy
        if moving is not None:
            await moving
        assert "t-0-future" not in made.names()
        assert not made.manager.offline_log_dirs and not made.moves.statistics().failed_attempts

    played(tmp_path, story)


def test_a_move_that_is_taken_back_in_mid_copy_is_dropped_before_the_answer(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        source = made.partition.log.log_dir
        assert await made.alter(made.other) is None
        in_mid_copy = asyncio.Event()
        made.throttle.meddle = lambda step: in_mid_copy.set()
        moving = asyncio.create_task(made.run())
        await in_mid_copy.wait()
        assert await made.alter(source) is None
        assert not [name for name in made.names() if name.endswith("-future")]
        await moving
        assert made.partition.log.log_dir == source and made.values() == VALUES
        assert not made.manager.offline_log_dirs and not made.moves.statistics().failed_attempts

    played(tmp_path, story)


def test_what_is_asked_for_wrongly_is_refused(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        for path in ("", "b", "/somewhere/else", "../b"):
            assert isinstance(await made.alter(path), LogDirNotFoundError)
        target = made.other
        for key in (TopicPartition("t", 1), TopicPartition("nobody", 0)):
            assert isinstance(await made.alter(target, key), ReplicaNotAvailableError)
        assert isinstance(await made.alter(target, TopicPartition(METADATA_TOPIC, 0)), InvalidTopicError)
        made.replicas.failures.directory_failed(made.partition.log.log_dir, OSError(errno.EIO, "broken"))
        assert isinstance(await made.alter(target), KafkaStorageError)
        assert made.names() == ["t-0"]

    played(tmp_path, story)
