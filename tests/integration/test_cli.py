"""The `penstock` command against a live cluster: output, pipes, JSON, exit codes, signals."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random, SystemRandom
from typing import Any
from xml.etree import ElementTree

import pytest

from penstock import Consumer, Producer
from penstock.record.lone_batch import lone_batch_bytes
from penstock.testing import Cluster
from penstock.testing.ports import fixed_ports, free_ports
from tests.support import command_line
from tests.support.amount import at_night

PENSTOCK = (sys.executable, "-c", "from penstock.cli.main import main; main()")
Result = subprocess.CompletedProcess[bytes]
Run = Callable[..., Result]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.fixture
def penstock(cluster: Cluster) -> Run:
    """Runs the command with PENSTOCK_BOOTSTRAP set to the cluster."""
    return functools.partial(command_line.penstock, bootstrap=cluster.bootstrap)


def ok(result: Result) -> bytes:
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout


def as_json(result: Result) -> Any:
    return json.loads(ok(result))


def test_the_blocks_of_the_page_for_users_of_other_clients_run(cluster: Cluster) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "from-other-clients.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 3
    program = "\n".join(blocks).replace("127.0.0.1:9192", cluster.bootstrap)
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120, check=False)
    assert b"acked True" in ok(result)
    assert b"{'source': b'shop'}" in result.stdout


def test_a_topic_is_created_listed_described_and_deleted(penstock: Run) -> None:
    assert b"created orders: 2 partitions, 1 replicas" in ok(
        penstock("topics", "create", "orders", "-p", "2", "-r", "1", "-c", "segment.bytes=1048576")
    )
    assert b"orders\n" in ok(penstock("topics", "list"))
    described = as_json(penstock("topics", "describe", "orders", "--json"))
    assert described["config"] == {"segment.bytes": "1048576"}
    assert [p["isr"] for p in described["partitions"]] == [[0], [0]]
    (log_dir,) = described["partitions"][0]["log_dirs"]
    assert len(log_dir) == 22 and log_dir.encode() in ok(penstock("topics", "describe", "orders", "--log-dirs"))
    lines = ok(penstock("topics", "describe", "orders")).decode().splitlines()
    assert lines[3].split("\t") == ["partition", "leader", "epoch", "replicas", "isr", "elr"] and len(lines) == 6
    assert ok(penstock("topics", "delete", "orders")) == b"deleted orders\n"
    assert "orders" not in as_json(penstock("topics", "list", "--json"))


def test_lines_go_in_and_come_out(penstock: Run) -> None:
    ok(penstock("topics", "create", "lines", "-p", "1"))
    lines = b"".join(b"line %d\n" % number for number in range(100_000))
    assert as_json(penstock("produce", "lines", "--json", "--lines", stdin=lines)) == {
        "topic": "lines",
        "records": 100_000,
    }
    assert ok(penstock("consume", "lines", "--from-beginning", "--exit-at-end")) == lines
    assert ok(penstock("consume", "lines", "--from-beginning", "-n", "2")) == b"line 0\nline 1\n"
    last = ok(penstock("consume", "lines", "-o", "-2", "--exit-at-end", "-f", r"%t-%p@%o %s\n"))
    assert last == b"lines-0@99998 line 99998\nlines-0@99999 line 99999\n"


def test_a_topic_is_kept_in_a_file_and_written_back_byte_for_byte(penstock: Run, cluster: Cluster) -> None:
    far_ahead = {"message.timestamp.after.max.ms": str(2**62)}
    for name in ("kept", "restored"):
        cluster.topic(name, partitions=3, config=far_ahead)
    values: list[bytes | None] = [
        b"text",
        "größe 😀".encode(),
        bytes(range(256)),
        b"",
        None,
        b'a\nb\r\0"\\',
        b"\xff\xfe",
    ]
    with Producer(cluster.bootstrap) as producer:
        for number in range(200):
            value, key = values[number % 7], values[number // 7 % 7]
            headers = [("h", values[number % 5]), ("h", b"2"), ("größe", None)][: number % 4]
            producer.send("kept", value, key, headers, number % 3, 1_700_000_000_000 + number * 10**9)
    kept = ok(penstock("consume", "kept", "--from-beginning", "--exit-at-end", "--json"))
    assert as_json(penstock("produce", "restored", "--json", stdin=kept)) == {"topic": "restored", "records": 200}

    def records(topic: str) -> list[Any]:
        with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign(consumer.partitions_for(topic))
            found: list[Any] = []
            while len(found) < 200:
                found += consumer.poll(timeout_ms=60_000)
        return sorted((r.partition, r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in found)

    assert records("restored") == records("kept")


def test_a_bad_line_is_named_and_what_came_before_it_is_written(penstock: Run, cluster: Cluster) -> None:
    cluster.topic("before")
    lines = [b"%d=v" % number for number in range(60_000)]
    lines[50_123] = b"no separator"
    failed = penstock("produce", "before", "--key-separator", "=", stdin=b"\n".join(lines))
    assert failed.returncode == 2 and failed.stderr == (
        b"penstock: line 50124 'no separator' has no key separator '='; add a key and the separator;"
        b" 50123 records were acked, of all lines before it\n"
    )
    offsets = as_json(penstock("topics", "offsets", "before", "--json"))
    assert offsets[0]["offset"] == 50_123


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_line_at_the_limit_of_its_topic_is_written_and_one_byte_more_is_named(
    penstock: Run, cluster: Cluster, compression: str
) -> None:
    topic = f"large-{compression}"
    cluster.topic(topic, config={"max.message.bytes": "3000000"})
    noise = bytes(byte for byte in Random(1).randbytes(3_100_000) if byte != 10)[:2_999_990]
    largest = next(n for n in range(2_999_990, 0, -1) if lone_batch_bytes(noise[:n]) <= 3_000_000)
    done = penstock("produce", topic, "--compression", compression, stdin=noise[:largest] + b"\n")
    assert (done.returncode, done.stderr) == (0, b"")
    failed = penstock("produce", topic, "--compression", compression, stdin=b"ok\n" + noise[: largest + 1] + b"\n")
    assert (
        failed.returncode == 1
        and b"MESSAGE_TOO_LARGE: line 2: a batch with this record alone has 3000001" in failed.stderr
    )
    assert as_json(penstock("topics", "offsets", topic, "--json"))[0]["offset"] == 2


def test_keys_go_in_and_come_out(penstock: Run) -> None:
    ok(penstock("topics", "create", "keyed", "-p", "3"))
    ok(penstock("produce", "keyed", "--key-separator", ":", stdin=b"a:1\nb:2\na:3\n"))
    printed = ok(penstock("consume", "keyed", "--from-beginning", "--exit-at-end", "--print-key"))
    assert sorted(printed.splitlines()) == [b"a\t1", b"a\t3", b"b\t2"]
    records = [
        json.loads(line)
        for line in ok(penstock("consume", "keyed", "--from-beginning", "--exit-at-end", "--json")).splitlines()
    ]
    assert {(record["key"], record["value"]) for record in records} == {("a", "1"), ("a", "3"), ("b", "2")}
    assert len({record["partition"] for record in records if record["key"] == "a"}) == 1


def test_an_empty_topic_ends_at_once_with_exit_at_end(penstock: Run) -> None:
    ok(penstock("topics", "create", "empty", "-p", "2"))
    assert ok(penstock("consume", "empty", "--from-beginning", "--exit-at-end")) == b""
    assert ok(penstock("produce", "empty", stdin=b"")) == b""


def test_the_cluster_and_the_quorum_are_described(penstock: Run, cluster: Cluster) -> None:
    described = as_json(penstock("cluster", "describe", "--json"))
    assert described["cluster_id"] == cluster.cluster_id and described["controller_id"] == 0
    assert b"in service" in ok(penstock("cluster", "describe"))
    quorum = as_json(penstock("quorum", "describe", "--json"))
    assert quorum["leader_id"] == 0 and [voter["node_id"] for voter in quorum["voters"]] == [0]
    assert b"voter" in ok(penstock("quorum", "describe"))


def test_a_config_is_altered_and_described(penstock: Run) -> None:
    ok(penstock("topics", "create", "configured", "-p", "1", "-c", "retention.ms=5000"))
    changes = ("--set", "segment.ms=9000", "--delete", "retention.ms", "--append", "cleanup.policy=compact")
    assert ok(penstock("configs", "alter", "configured", *changes)) == (
        b"altered configured: cleanup.policy, retention.ms, segment.ms\n"
    )
    assert ok(penstock("configs", "describe", "configured")).decode().splitlines() == [
        "key\tvalue\tsource",
        "cleanup.policy\tdelete,compact\tDYNAMIC_TOPIC_CONFIG",
        "segment.ms\t9000\tDYNAMIC_TOPIC_CONFIG",
    ]
    everything = as_json(penstock("configs", "describe", "configured", "--all", "--json"))
    assert everything["retention.ms"]["is_default"] and everything["segment.ms"]["value"] == "9000"
    of_broker = ("configs", "alter", "--broker", "0", "--set", "log.retention.ms=7000", "--json")
    assert as_json(penstock(*of_broker)) == {"broker": 0, "keys": ["log.retention.ms"], "altered": True}
    found = as_json(penstock("configs", "describe", "--broker", "0", "--json"))
    assert found["node.id"]["value"] == "0" and found["node.id"]["is_read_only"]
    assert found["log.retention.ms"]["source"] == "DYNAMIC_BROKER_CONFIG"
    assert as_json(penstock("configs", "describe", "--broker-default", "--json")) == {}


def test_offsets_are_looked_up_and_records_deleted(penstock: Run) -> None:
    ok(penstock("topics", "create", "trimmed", "-p", "1"))
    ok(penstock("produce", "trimmed", stdin=b"a\nb\nc\n"))
    assert ok(penstock("topics", "offsets", "trimmed")) == b"partition\toffset\ttimestamp_ms\n0\t3\t-\n"
    assert ok(penstock("topics", "offsets", "trimmed", "--time", "2100-01-01")).endswith(b"\n0\t-\t-\n")
    assert as_json(penstock("topics", "delete-records", "trimmed", "--before-offset", "2", "--json")) == [
        {"topic": "trimmed", "partition": 0, "low_watermark": 2}
    ]
    (earliest,) = as_json(penstock("topics", "offsets", "trimmed", "--time", "earliest", "--json"))
    assert earliest["offset"] == 2


def test_bench_reports_its_figures(penstock: Run, tmp_path: Path) -> None:
    ok(penstock("topics", "create", "bench", "-p", "1"))
    picture = tmp_path / "run.svg"
    wrote = as_json(penstock("bench", "produce", "bench", "-n", "20000", "--plot", str(picture), "--json"))
    assert wrote["ack_ms_p99"] > 0 and wrote["intervals"]
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    read = as_json(penstock("bench", "consume", "bench", "-n", "20000", "--json"))
    assert wrote["records"] == 20_000 and read["records"] >= 20_000 and read["records_per_second"] > 0


def test_the_log_on_disk_verifies(penstock: Run, cluster: Cluster) -> None:
    ok(penstock("topics", "create", "disk", "-p", "1"))
    ok(penstock("produce", "disk", stdin=b"a\nb\n"))
    directory = str(cluster.directory(0) / "disk-0")
    summary = json.loads(ok(penstock("log", "verify", directory, "--json")).splitlines()[-1])
    assert summary["records"] == 2
    assert b"base offset" in ok(penstock("log", "dump", directory))


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("topics", "describe", "missing"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("topics", "delete", "missing"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("topics", "create", "../x", "-p", "1"), "INVALID_TOPIC_EXCEPTION"),
        (("topics", "create", "many", "-p", "0"), "INVALID_PARTITIONS"),
        (("topics", "create", "wide", "-r", "3"), "INVALID_REPLICATION_FACTOR"),
        (("topics", "create", "odd", "-c", "no.such=1"), "INVALID_CONFIG"),
        (("consume", "missing", "-n", "1"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("configs", "describe", "missing"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("topics", "delete-records", "missing", "--all"), "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_a_failure_is_one_line_with_the_errors_name(penstock: Run, arguments: tuple[str, ...], name: str) -> None:
    result = penstock(*arguments)
    assert result.returncode == 1 and result.stdout == b""
    assert result.stderr.decode().startswith(f"penstock: {name}: ") and result.stderr.count(b"\n") == 1


def test_nobody_at_the_bootstrap_address_is_one_line(penstock: Run) -> None:
    port = free_ports(1)[0].broker
    result = penstock("topics", "list", "--bootstrap", f"127.0.0.1:{port}")
    assert result.returncode == 1 and f"127.0.0.1:{port}".encode() in result.stderr
    assert result.stderr.count(b"\n") == 1


def test_a_reader_that_goes_away_ends_consume_in_silence(penstock: Run, cluster: Cluster) -> None:
    ok(penstock("topics", "create", "piped", "-p", "1"))
    ok(penstock("produce", "piped", stdin=b"x\n" * 200_000))
    command = [*PENSTOCK, "consume", "piped", "--from-beginning", "--bootstrap", cluster.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as consumer:
        assert consumer.stdout is not None and consumer.stderr is not None
        assert consumer.stdout.readline() == b"x\n"
        consumer.stdout.close()
        assert consumer.stderr.read() == b""
        assert consumer.wait(60) == -signal.SIGPIPE


def test_ctrl_c_ends_consume_with_130(penstock: Run, cluster: Cluster) -> None:
    ok(penstock("topics", "create", "endless", "-p", "1"))
    ok(penstock("produce", "endless", stdin=b"x\n"))
    command = [*PENSTOCK, "consume", "endless", "--from-beginning", "--bootstrap", cluster.bootstrap]
    ours = signal.signal(signal.SIGINT, signal.default_int_handler)  # a child of one who ignores it ignores it too
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as consumer:
        signal.signal(signal.SIGINT, ours)
        assert consumer.stdout is not None and consumer.stderr is not None
        assert consumer.stdout.readline() == b"x\n"
        consumer.send_signal(signal.SIGINT)
        assert consumer.wait(60) == 130
        assert b"Traceback" not in consumer.stderr.read()


def free_first_port(nodes: int) -> int:
    """A port for `dev --port`: it and all that follow from it are free, and held for no node that is down."""
    draw = SystemRandom()
    while True:
        port = draw.randrange(10_000, 30_000)
        with contextlib.suppress(OSError), contextlib.ExitStack() as held:
            for number in (number for node in fixed_ports(nodes, port) for number in node):
                held.enter_context(socket.socket()).bind(("127.0.0.1", number))
            return port


@pytest.mark.parametrize("nodes", at_night([1, 3], long=[3]))
def test_dev_runs_a_cluster_until_ctrl_c_and_finds_its_data_again(tmp_path: Path, nodes: int) -> None:
    port = free_first_port(nodes)
    command = [
        *PENSTOCK,
        "dev",
        "--console",
        "--nodes",
        str(nodes),
        "--data",
        str(tmp_path / "data"),
        "--port",
        str(port),
    ]
    command += ["--kafka-port", str(port + 400)]

    def client(*arguments: str, stdin: bytes = b"") -> bytes:
        return ok(command_line.penstock(*arguments, stdin=stdin, bootstrap=f"127.0.0.1:{port}"))

    for start in range(2):  # the second one has the ports of the first
        with subprocess.Popen(command[: -2 if start else None], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as dev:
            assert dev.stdout is not None and dev.stderr is not None
            expected = ",".join(f"127.0.0.1:{port + index}" for index in range(nodes))
            assert dev.stdout.readline().decode().strip() == expected, dev.stderr.read().decode()
            url = next(line.split()[1] for line in map(bytes.decode, dev.stderr) if line.startswith("console: "))
            with urllib.request.urlopen(f"{url}/overview.json", timeout=60) as answer:
                assert json.load(answer)["brokers"] == nodes
            if start == 0:
                client("topics", "create", "kept", "-p", "1", "-r", str(nodes))
                client("produce", "kept", stdin=b"a\nb\n")
            assert client("consume", "kept", "--from-beginning", "--exit-at-end") == b"a\nb\n"
            assert f"KAFKA://127.0.0.1:{port + 400}".encode() in client("cluster", "describe")
            socket.create_connection(("127.0.0.1", port + 400)).close()
            dev.send_signal(signal.SIGINT)
            assert dev.wait(60) == 0, dev.stderr.read().decode()
    nodes_log = (tmp_path / "data" / "node-0" / "node.log").read_text()
    assert "Traceback" not in nodes_log


def test_dev_says_in_one_line_that_its_port_is_taken(tmp_path: Path, cluster: Cluster) -> None:
    port = cluster.endpoint(0).rpartition(":")[2]
    command = [*PENSTOCK, "dev", "--data", str(tmp_path / "data"), "--port", port]
    result = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert result.returncode == 1 and result.stdout == b""
    assert result.stderr.count(b"\n") == 1 and f"127.0.0.1:{port}: address already in use".encode() in result.stderr
    assert not (tmp_path / "data").exists()


def test_dev_goes_on_until_its_last_node_has_ended(tmp_path: Path) -> None:
    port = free_first_port(2)
    command = [*PENSTOCK, "dev", "--nodes", "2", "--data", str(tmp_path / "data"), "--port", str(port)]
    command += ["--kafka-port", str(port + 400)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as dev:
        assert dev.stdout is not None and dev.stderr is not None
        assert dev.stdout.readline().startswith(f"127.0.0.1:{port}".encode()), dev.stderr.read().decode()
        assert b"2 nodes ready" in dev.stderr.readline()
        metrics = dev.stderr.readline().decode().split()
        assert metrics == ["metrics:", *(f"http://127.0.0.1:{port + 200 + index}/metrics" for index in range(2))]
        assert dev.stderr.readline().startswith(f"for Kafka's clients: 127.0.0.1:{port + 400},".encode())
        children = Path(f"/proc/{dev.pid}/task").glob("*/children")
        first, second = (int(pid) for task in children for pid in task.read_text().split())
        os.kill(first, signal.SIGKILL)
        assert b"was ended by SIGKILL; 1 that this command started still runs" in dev.stderr.readline()
        os.kill(second, signal.SIGKILL)
        assert dev.wait(60) == 1
        assert b"was ended by SIGKILL, and none that this command started is left" in dev.stderr.read()
