"""Faults of disks and files: full, gone, given up, rotten."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock import Producer
from penstock.record.batch import MAGIC_AT
from storage.disk.file_system import OsFileSystem
from storage.log_dirs.meta_properties import format_directory, read_meta_properties
from tests.alerts_fire.stage import NODES, RECORD_BYTES, FaultError, Stage, again_and_again, must_come
from tests.support.machine import IDS
from tests.support.small_disk import fill

ON_THE_DISK = 0
"""The node whose second log dir is a disk of its own."""
SEVERAL_SEGMENTS = 30
KEPT_BYTES = 1024 * 1024
INTO_A_RECORD = 5_000
DAY_MS = 24 * 60 * 60 * 1000


@contextmanager
def full_disk(stage: Stage) -> Iterator[None]:
    """Somebody else's file takes the last byte of a disk, under writes that go on. Node 0 leads what stands there."""
    topic = stage.topic("small", replicas=1, partitions=NODES)
    ballast = stage.log_dirs[ON_THE_DISK][1].parent / "ballast"
    stage.begins()
    fill(ballast)
    with _written_to(stage, topic, NODES):
        yield
        ballast.unlink()
        must_come(lambda: not stage.refused_appends(), "writes after there is room")


@contextmanager
def silent_disk(stage: Stage) -> Iterator[None]:
    """Syncs in a log dir of one node do not come back: clock_of_a_node/ is on the path of every node."""
    silent = stage.cluster.config_path(ON_THE_DISK).with_name("silent-disk")
    topic = _led_by_another(stage, ON_THE_DISK)
    stage.begins()
    silent.write_text(str(stage.log_dirs[ON_THE_DISK][1]))
    with _written_to(stage, topic):
        yield
        silent.unlink()


@contextmanager
def filling_disk(stage: Stage) -> Iterator[None]:
    """Records fill a disk, with room for some hours of the rules; then less is kept, as the alert's page says."""
    topic = stage.topic("growing", replicas=1, partitions=NODES)
    stage.begins()
    with _written_to(stage, topic, NODES):
        yield
        stage.admin.alter_topic_config(topic, {"retention.bytes": KEPT_BYTES})


@contextmanager
def full_disk_of_a_follower(stage: Stage) -> Iterator[None]:
    """The disk has room for checkpoints, but not for the next records."""
    topic = _led_by_another(stage, ON_THE_DISK)
    ballast = stage.log_dirs[ON_THE_DISK][1].parent / "ballast"
    stage.begins()
    fill(ballast, leave_bytes=4 * RECORD_BYTES)
    with _written_to(stage, topic):
        yield
        ballast.unlink()
        must_come(lambda: not stage.refused_appends(), "writes after there is room")


def _led_by_another(stage: Stage, node: int) -> str:
    """A topic that the node follows, with its replica in the node's second log dir."""
    for number in range(40):
        topic = stage.topic(f"small-{number}")
        if stage.leader(topic) != node and (stage.log_dirs[node][1] / f"{topic}-0").is_dir():
            return topic
        stage.admin.delete_topic(topic)
    raise FaultError(f"node {node} leads everything")


@contextmanager
def _written_to(stage: Stage, topic: str, partitions: int = 1) -> Iterator[None]:
    """Every partition of the topic gets records meanwhile."""
    with Producer(stage.cluster.bootstrap, acks=1, delivery_timeout_ms=500) as producer:

        def write() -> None:
            for partition in range(partitions):
                producer.send(topic, value=bytes(RECORD_BYTES), partition=partition)

        with again_and_again(write, pause_s=0.2):
            yield


@contextmanager
def undeletable_file(stage: Stage) -> Iterator[None]:
    """A file of a deleted topic cannot be removed, because somebody has made it immutable."""
    topic = stage.topic("old", replicas=1)
    directory = _segments(stage, stage.leader(topic), topic)[0].parent
    stage.begins()
    _set_immutable(directory, "+i")
    try:
        stage.admin.delete_topic(topic)
        yield
    finally:
        for deleted in directory.parent.glob(f"{topic}-0*"):
            _set_immutable(deleted, "-i")


def _set_immutable(directory: Path, how: str) -> None:
    files = [str(path) for path in directory.glob("*.log")]
    done = subprocess.run(["chattr", how, *files], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise FaultError(f"chattr is not possible here: {done.stderr.strip()}")


@contextmanager
def lost_log_dir(stage: Stage) -> Iterator[None]:
    """A log dir vanishes under a running node, under writes; other nodes have replicas of all that was in it."""
    topic = stage.topic("orders", partitions=4)
    victim = stage.controllers_follower()
    lost = stage.log_dirs[victim][1]
    was = _directory_id(lost)
    stage.begins()
    with _written_to(stage, topic, partitions=4):
        shutil.rmtree(lost, ignore_errors=True)  # the node may make a file meanwhile
        yield
    stage.cluster.stop(victim)
    shutil.rmtree(lost, ignore_errors=True)
    _format(stage, victim)
    stage.cluster.start(victim, "--lost-log-dirs", was)


@contextmanager
def given_up_log_dir(stage: Stage) -> Iterator[None]:
    """A disk is replaced that had the only replica of a partition."""
    topic = stage.topic("alone", replicas=1)
    victim = stage.leader(topic)
    lost = stage.log_dirs[victim][1]
    was = _directory_id(lost)
    stage.begins()
    stage.cluster.stop(victim)
    shutil.rmtree(lost)
    _format(stage, victim)
    stage.cluster.start(victim, "--lost-log-dirs", was)
    yield
    stage.admin.delete_topic(topic)


def _format(stage: Stage, node: int) -> None:
    format_directory(OsFileSystem(), str(stage.log_dirs[node][1]), stage.cluster.cluster_id, node, IDS.new_id())


def _directory_id(log_dir: Path) -> str:
    found = read_meta_properties(OsFileSystem(), str(log_dir))
    if found is None:
        raise FaultError(f"{log_dir} is not formatted")
    return found.directory_id


@contextmanager
def rot_in_the_only_replica(stage: Stage) -> Iterator[None]:
    """A bit flips while the node is down; its next start finds it, and no other node has the records."""
    topic = stage.topic("alone", replicas=1)
    victim = stage.leader(topic)
    stage.write(topic, SEVERAL_SEGMENTS)
    checkpoint = stage.log_dirs[victim][1] / "recovery-point-offset-checkpoint"
    must_come(lambda: f"{topic} 0 {SEVERAL_SEGMENTS} " in checkpoint.read_text(), "a checkpoint of every record")
    stage.begins()
    stage.cluster.kill(victim)
    _flip(_segments(stage, victim, topic)[-1], INTO_A_RECORD)
    stage.cluster.start(victim)
    yield
    stage.admin.delete_topic(topic)


@contextmanager
def damaged_head_of_a_compacted_log(stage: Stage) -> Iterator[None]:
    """The first bytes of a closed segment rot while the node is down: the cleaner cannot tell how old it is."""
    topic = stage.topic(
        "table",
        replicas=1,
        cleanup_policy="compact",
        min_cleanable_dirty_ratio=1.0,
        max_compaction_lag_ms=DAY_MS,
    )
    leader = stage.leader(topic)
    with Producer(stage.cluster.bootstrap) as producer:
        for number in range(SEVERAL_SEGMENTS):
            producer.send(topic, key=b"%d" % (number % 3), value=bytes(RECORD_BYTES)).result(30)
    stage.begins()
    stage.cluster.stop(leader)
    _flip(_segments(stage, leader, topic)[0], MAGIC_AT)
    stage.cluster.start(leader)
    yield
    stage.admin.delete_topic(topic)


def _flip(path: Path, position: int) -> None:
    """Changes one bit in place: a node may have the file open."""
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 1]))


def _segments(stage: Stage, node: int, topic: str) -> list[Path]:
    """The segments with records: a full one rolls with its flush, and leaves an empty one."""
    found = sorted(path for log_dir in stage.log_dirs[node] for path in (log_dir / f"{topic}-0").glob("*.log"))
    filled = [path for path in found if path.stat().st_size]
    if not filled:
        raise FaultError(f"node {node} has no segment of {topic}")
    return filled
