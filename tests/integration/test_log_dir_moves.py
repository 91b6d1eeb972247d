"""A replica moves to another log dir of a real node while it is written to; a kill in mid-move loses nothing. And
`penstock cluster balance --by dirs` evens the log dirs of a node."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.testing import Cluster
from tests.support.command_line import penstock
from tests.support.waiting import wait_until

TP = TopicPartition("t", 0)
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
VALUE = b"x" * 10_000


@contextmanager
def several_log_dirs(directory: Path, names: str) -> Iterator[tuple[Cluster, list[str]]]:
    dirs = [str(directory / name) for name in names]
    node = {"log.dirs": dirs, "metadata.log.dir": dirs[0], "log.segment.bytes": 1 << 20}
    with Cluster(nodes=1, directory=directory / "cluster", node_configs=[node]) as cluster:
        yield cluster, dirs


class Writing:
    """Produces with acks=all until it is told to stop; what was acked, in order."""

    def __init__(self, cluster: Cluster, value: bytes = VALUE, pause_s: float = 0.0) -> None:
        self.acked: list[bytes] = []
        self._value, self._pause_s = value, pause_s
        self._stop = threading.Event()
        self._bootstrap = cluster.bootstrap
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with Producer(self._bootstrap, acks="all", delivery_timeout_ms=120_000) as producer:
            number = 0
            while not self._stop.wait(self._pause_s):
                values = [b"%d " % (number + i) + self._value for i in range(10)]
                number += len(values)
                for future in [producer.send("t", value, partition=0) for value in values]:
                    future.result(120)
                self.acked += values

    def __enter__(self) -> Writing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def read(cluster: Cluster, count: int) -> list[bytes]:
    found: list[bytes] = []
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TP])

        def is_all() -> bool:
            found.extend(record.value or b"" for record in consumer.poll(timeout_ms=200))
            return len(found) >= count

        wait_until(is_all)
    return found


def place(admin: Admin) -> str | None:
    """None before the broker has made the replica: a topic is created when the controller knows it."""
    return next((one.path for one in admin.describe_log_dirs([0])[0].log_dirs if TP in one.replicas), None)


def test_a_replica_moves_under_a_producer_and_a_kill_in_mid_move_loses_nothing(tmp_path: Path) -> None:
    with several_log_dirs(tmp_path, "ab") as (cluster, dirs), Admin(cluster.bootstrap) as admin:
        admin.create_topic("t", 1, 1)
        wait_until(lambda: place(admin) is not None)
        (target,) = set(dirs) - {place(admin)}
        with Writing(cluster) as writing:
            wait_until(lambda: len(writing.acked) >= 300)
            admin.alter_broker_config(0, {RATE: 200_000})
            move = ("log-dirs", "move", f"t-0={target}", "--broker", "0", "--json")
            assert json.loads(penstock(*move, bootstrap=cluster.bootstrap).stdout)[0]["begun"] is True

            def is_copying() -> bool:
                found = admin.describe_log_dirs([0])[0].log_dirs
                return any(one.coming[TP].size_bytes > 100_000 for one in found if TP in one.coming)

            wait_until(is_copying)
            cluster.kill(0)
            assert list(Path(target).glob("t-0.*-future")) and not Path(target, "t-0").exists()
            cluster.start(0)
            wait_until(lambda: any(TP in one.coming for one in admin.describe_log_dirs([0])[0].log_dirs))
            admin.alter_broker_config(0, {RATE: None})
            wait_until(lambda: place(admin) == target)
            known = len(writing.acked)
            wait_until(lambda: len(writing.acked) > known + 50)
        found = read(cluster, len(writing.acked))
        assert [value for value in found if value in set(writing.acked)] == writing.acked
        there = penstock(*move, "--wait", bootstrap=cluster.bootstrap)
        assert there.returncode == 0, there.stderr
        log_dirs = admin.describe_topic("t").partitions[0].log_dirs
        directory_ids = {one.path: one.directory_id for one in admin.describe_log_dirs([0])[0].log_dirs}
        assert tuple(log_dirs) == (directory_ids[target],), "the metadata names the new log dir"
        cluster.restart(0)
        assert place(admin) == target
        assert len(read(cluster, len(writing.acked))) >= len(writing.acked)


def weights(admin: Admin) -> dict[str, float]:
    """The size of each log dir, in MiB; a replica counts for one at least."""
    found = admin.describe_log_dirs([0])[0].log_dirs
    sizes = {one.path: [replica.size_bytes / (1 << 20) for replica in one.replicas.values()] for one in found}
    return {path: sum(max(size, 1.0) for size in known) for path, known in sizes.items()}


@pytest.mark.long  # the other test moves under a producer, unit tests plan
def test_a_balance_evens_the_log_dirs_of_a_node_under_a_producer_and_nothing_is_lost(tmp_path: Path) -> None:
    balance = ("cluster", "balance", "--by", "dirs", "--json")
    with several_log_dirs(tmp_path, "abc") as (cluster, _), Admin(cluster.bootstrap) as admin:
        admin.create_topic("t", 1, 1)
        admin.create_topic("skewed", 23, 1)
        wait_until(lambda: [len(one.replicas) for one in admin.describe_log_dirs([0])[0].log_dirs] == [8, 8, 8])
        heavy, found = place(admin), admin.describe_log_dirs([0])[0].log_dirs
        here = next(list(one.replicas) for one in found if one.path == heavy)
        with Producer(cluster.bootstrap, acks="all") as producer:
            for tp in here:
                for _ in range(0 if tp == TP else 190):
                    producer.send("skewed", VALUE, partition=tp.partition)
        before = weights(admin)
        assert max(before.values()) - min(before.values()) > 5
        with Writing(cluster, b"x" * 50, pause_s=0.02) as writing:
            wait_until(lambda: len(writing.acked) >= 100)
            ran = penstock(*balance, "--throttle", "20000000", bootstrap=cluster.bootstrap)
            assert ran.returncode == 0, ran.stderr
            known = len(writing.acked)
            wait_until(lambda: len(writing.acked) > known + 50)
        shown = json.loads(ran.stdout)["log_dirs"]
        assert (shown["replicas_moved"], shown["failed"]) == (2, []), shown
        after = weights(admin)
        mean = sum(after.values()) / 3
        assert all(abs(weight - mean) <= 0.1 * mean for weight in after.values()), (before, after)
        assert RATE not in admin.describe_broker_config(None), "the throttle is taken back"
        again = penstock(*balance, bootstrap=cluster.bootstrap)
        assert json.loads(again.stdout)["log_dirs"]["moves"] == [], again.stdout
        found_values = read(cluster, len(writing.acked))
        assert [value for value in found_values if value in set(writing.acked)] == writing.acked
        print(f"MiB before {before}, after {after}; {len(writing.acked)} records acked, 0 lost")
