"""`penstock log` on the directory of a real node that was killed in the midst of its work."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.testing import Cluster
from tests.support.python_nursery import quick_python

MAIN = "from penstock.cli.main import main; main()"
CONFIG = {"log.segment.bytes": 16384, "log.flush.offset.checkpoint.interval.ms": 200}
RECORDS = 1500
TOPIC = "orders"


def log(*arguments: object) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and rows."""
    command = [quick_python(), "-c", MAIN, "log", *map(str, arguments), "--json"]
    result = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert result.stderr == b""
    return result.returncode, [json.loads(line) for line in result.stdout.splitlines()]


def kinds(rows: list[dict[str, Any]]) -> set[str]:
    return {row["kind"] for row in rows if row["type"] == "finding"}


def produce(bootstrap: str) -> None:
    with Producer(bootstrap, linger_ms=0) as producer:
        for first in range(0, RECORDS, 100):
            sent = [producer.send(TOPIC, value=b"%d" % n, partition=0) for n in range(first, first + 100)]
            for future in sent:
                future.result(60)


def consume(bootstrap: str) -> list[int]:
    with Consumer(bootstrap) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])
        consumer.seek_to_beginning()
        values: list[int] = []
        while len(values) < RECORDS:
            values += [int(record.value or b"") for record in consumer.poll(timeout_ms=1000)]
        return values


def test_a_killed_node_is_dumped_verified_recovered_and_started(tmp_path: Path) -> None:
    with Cluster(config=CONFIG, directory=tmp_path) as cluster:
        with Admin(cluster.bootstrap) as admin:
            admin.create_topic(TOPIC, partitions=1)
        produce(cluster.bootstrap)
        data = cluster.directory(0)
        assert "in-use" in kinds(log("verify", data)[1])
        refused = subprocess.run(
            [quick_python(), "-c", MAIN, "log", "recover", str(data)], capture_output=True, check=False
        )
        assert refused.returncode == 2 and b"in use by another process" in refused.stderr
        cluster.kill(0)
        *_, newest = files = sorted((data / f"{TOPIC}-0").glob("*.log"))
        batch = next(whole for file in reversed(files) if (whole := file.read_bytes()))  # the newest one may be empty
        newest.write_bytes(newest.read_bytes() + batch[:100])  # a batch that was half written

        code, rows = log("dump", data / f"{TOPIC}-0", "--records")
        assert code == 1 and rows[-1]["type"] == "problem"
        assert [int(row["value"]) for row in rows[:-1]] == list(range(RECORDS))

        code, rows = log("verify", data, "--deep")
        assert code == 3 and {"torn-tail", "unclean-stop"} <= kinds(rows)

        code, rows = log("recover", data)
        assert code == 0
        assert {row["log_end_offset"] for row in rows if row.get("directory", "").endswith(f"{TOPIC}-0")} == {RECORDS}

        code, rows = log("verify", data, "--deep")
        assert (code, kinds(rows)) == (0, {"unclean-stop"})

        cluster.start(0)
        assert consume(cluster.bootstrap) == list(range(RECORDS))
