"""A client in another language, `examples/go`, built from the protos, against real nodes.

Skipped, with the reason, where Go or its modules cannot be had.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.testing import Cluster
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "go"
PARTITIONS = 3
REAUTH_MS = 1_000
COUNT = 3000
BUILD_TIMEOUT_S = 400
"""Without a build cache gRPC is compiled: a minute or two on a busy machine."""
TIMEOUT_S = 60
NO_MODULES = re.compile(r"dial tcp|lookup |i/o timeout|TLS handshake|module lookup disabled|connection refused")


def go(*arguments: str) -> str:
    """The output of the go command in the example's folder."""
    command = shutil.which("go", path=f"{os.environ['PATH']}:/usr/local/go/bin")
    if command is None:
        pytest.skip("Go is not installed: neither on the PATH nor in /usr/local/go")
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
    done = subprocess.run(
        [command, *arguments], cwd=EXAMPLE, env=environment, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S
    )
    if done.returncode and NO_MODULES.search(done.stderr):
        pytest.skip(f"Go's modules cannot be downloaded here: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The built example."""
    binary = tmp_path_factory.mktemp("go") / "penstock-example"
    go("build", "-o", str(binary), "./cmd/penstock-example")
    return str(binary)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as made:
        yield made


class Running:
    """The example as a process; its output is in a file, so that nobody has to read it in time."""

    def __init__(self, client: str, cluster: Cluster, folder: Path, *arguments: str, **variables: str) -> None:
        self._output = folder / arguments[-2]
        self._errors = folder / f"{arguments[-2]}.errors"
        with self._output.open("w") as output, self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                [client, "-bootstrap", cluster.bootstrap, *arguments],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=errors,
                text=True,
                env={**os.environ, **variables},
            )

    def feed(self, numbers: range) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("".join(f"line {number}\n" for number in numbers))
        self.process.stdin.flush()

    def end(self) -> str:
        """The program's stderr, after it ended well."""
        self.process.communicate(timeout=TIMEOUT_S)
        assert self.process.returncode == 0, self._errors.read_text()
        return self._errors.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def lines(self) -> list[tuple[int, int, str]]:
        """Partition, offset and value of each line of output."""
        whole = self._output.read_text().rpartition("\n")[0]
        split = (line.split(" ", 2) for line in whole.splitlines())
        return [(int(partition), int(offset), value) for partition, offset, value in split]


def written(cluster: Cluster, topic: str) -> dict[tuple[int, int], str]:
    """Every record, as Python reads it."""
    with Consumer(cluster.bootstrap, **cluster.client_options) as consumer:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        consumer.seek_to_beginning()
        found: dict[tuple[int, int], str] = {}
        while len(found) < sum(ends.values()):
            for record in consumer.poll(timeout_ms=1000):
                found[record.partition, record.offset] = (record.value or b"").decode()
        return found


def kill_leader(cluster: Cluster, topic: str) -> int:
    """Kills the leader of partition 0; returns its node."""
    with Admin(cluster.bootstrap) as admin:
        leader = admin.describe_topic(topic).partitions[0].leader_id
    cluster.kill(leader)
    return leader


@pytest.mark.long  # the tests below run what they test
@pytest.mark.timeout(2 * BUILD_TIMEOUT_S)
def test_the_examples_own_tests_pass() -> None:
    go("vet", "./...")
    assert "ok" in go("test", "./...")


@pytest.mark.timeout(BUILD_TIMEOUT_S + 2 * TIMEOUT_S)
def test_go_loses_and_reorders_nothing_while_leaders_are_killed(client: str, cluster: Cluster, tmp_path: Path) -> None:
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic("from-go", PARTITIONS, replication_factor=3)
    producer = Running(client, cluster, tmp_path, "produce", "from-go")
    consumer = Running(client, cluster, tmp_path, "consume", "from-go")
    try:
        producer.feed(range(COUNT))
        wait_until(lambda: len(producer.lines()) == COUNT)
        first = kill_leader(cluster, "from-go")
        producer.feed(range(COUNT, 2 * COUNT))
        wait_until(lambda: len(producer.lines()) > COUNT)
        cluster.start(first)
        second = kill_leader(cluster, "from-go")
        producer.feed(range(2 * COUNT, 3 * COUNT))
        shown = producer.end()
        cluster.start(second)

        acked, found = producer.lines(), written(cluster, "from-go")
        assert Counter(value for _, _, value in acked) == Counter(f"line {number}" for number in range(3 * COUNT))
        assert all(found[partition, offset] == value for partition, offset, value in acked)
        for partition in range(PARTITIONS):
            numbers = [int(value.split()[1]) for p, _, value in acked if p == partition]
            assert numbers == sorted(numbers)
        counted = re.fullmatch(r"(\d+) lines acked, (\d+) retries, (\d+) lines may be there twice\n", shown)
        assert counted is not None
        assert (int(counted[1]), int(counted[2]) > 0) == (3 * COUNT, True)
        assert len(found) - len(acked) <= int(counted[3])
        wait_until(lambda: len(consumer.lines()) == len(found))
        assert {(partition, offset): value for partition, offset, value in consumer.lines()} == found
    finally:
        producer.kill()
        consumer.kill()


@pytest.mark.timeout(BUILD_TIMEOUT_S + 2 * TIMEOUT_S)
def test_go_ends_by_ctrl_c_while_it_waits_for_a_line(client: str, cluster: Cluster, tmp_path: Path) -> None:
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic("typed", PARTITIONS, replication_factor=1)
    producer = Running(client, cluster, tmp_path, "produce", "typed")
    try:
        producer.feed(range(1))
        wait_until(lambda: len(producer.lines()) == 1)
        producer.process.send_signal(signal.SIGINT)
        assert producer.process.wait(TIMEOUT_S) == 1
    finally:
        producer.kill()


@pytest.mark.timeout(BUILD_TIMEOUT_S + 2 * TIMEOUT_S)
def test_go_reads_a_partition_that_had_no_leader_beside_others_that_had_one(
    client: str, cluster: Cluster, tmp_path: Path
) -> None:
    with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        admin.create_topic("alone", PARTITIONS, replication_factor=1)
        for partition in range(PARTITIONS):
            producer.send("alone", b"line", partition=partition).result(TIMEOUT_S)
        killed = kill_leader(cluster, "alone")
        wait_until(lambda: admin.describe_topic("alone").partitions[0].leader_id == -1)
    consumer = Running(client, cluster, tmp_path, "consume", "alone")
    try:
        wait_until(lambda: len(consumer.lines()) == PARTITIONS - 1)
        cluster.start(killed)
        wait_until(lambda: len(consumer.lines()) == PARTITIONS)
        assert consumer.process.poll() is None, "it waits for more"
    finally:
        consumer.kill()


@pytest.mark.long  # it waits for the end of a session
@pytest.mark.timeout(BUILD_TIMEOUT_S + 2 * TIMEOUT_S)
def test_go_logs_in_over_tls_again_when_its_session_ends_or_the_node_was_restarted(client: str, tmp_path: Path) -> None:
    config = {"listener.name.broker.connections.max.reauth.ms": REAUTH_MS}
    with Cluster(secure=True, config=config) as secured:
        who = {f"PENSTOCK_{name.upper()}": value for name, value in secured.client_options.items()}
        with Admin(secured.bootstrap, **secured.client_options) as admin:
            admin.create_topic("from-go", PARTITIONS)
        producer = Running(client, secured, tmp_path, "produce", "from-go", **who)
        try:
            producer.feed(range(10))
            wait_until(lambda: len(producer.lines()) == 10)
            over = time.monotonic() + REAUTH_MS / 1_000
            wait_until(lambda: time.monotonic() > over)
            producer.feed(range(10, 20))
            wait_until(lambda: len(producer.lines()) == 20)
            secured.stop(0)
            secured.start(0)
            producer.feed(range(20, 30))
            counted = re.fullmatch(r"(\d+) lines acked, (\d+) retries, .*\n", producer.end())
            assert counted is not None
            assert int(counted[1]) == 30 and int(counted[2]) >= 2, "each end of a session is a retry"
            found = written(secured, "from-go")
            assert all(found[partition, offset] == value for partition, offset, value in producer.lines())
        finally:
            producer.kill()


@pytest.mark.timeout(BUILD_TIMEOUT_S + 2 * TIMEOUT_S)
def test_go_is_told_why_it_is_not_let_in(client: str, tmp_path: Path) -> None:
    def refusal(**variables: str) -> str:
        command = [client, "-bootstrap", secured.bootstrap, "-count", "1", "consume", "orders"]
        done = subprocess.run(
            command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        assert done.returncode != 0
        return done.stderr

    (tmp_path / "wrong").write_text("guessed\n")
    with Cluster(secure=True) as secured:
        ca = str(secured.client_options["tls_ca"])
        assert "SASL_AUTHENTICATION_FAILED" in refusal(
            PENSTOCK_TLS_CA=ca, PENSTOCK_USERNAME="admin", PENSTOCK_PASSWORD_FILE=str(tmp_path / "wrong")
        )
        assert "AUTHENTICATION_REQUIRED" in refusal(PENSTOCK_TLS_CA=ca)
        assert "give its password with -password-file" in refusal(PENSTOCK_TLS_CA=ca, PENSTOCK_USERNAME="admin")
