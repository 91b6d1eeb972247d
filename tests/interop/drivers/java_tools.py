"""The driver of Apache Kafka's shell tools: the classes that kafka-topics.sh and the others start. A JVM each time."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path
from typing import Any

from tests.interop.drivers import login
from tests.interop.drivers.serve import RESET_TO, WAIT_S, NotOffered, answers, paced, serve, tell

TOOLS = "org.apache.kafka.tools."
MEMORY = ["-Xmx256M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
_STRATEGY = "partition.assignment.strategy=org.apache.kafka.clients.consumer."
MEMBERS = {
    "eager": [f"{_STRATEGY}RangeAssignor"],
    "cooperative": [f"{_STRATEGY}CooperativeStickyAssignor"],
    "consumer": ["group.protocol=consumer"],
}
ERROR = re.compile(r"(?m)^.*(?:Error|Exception|rror while).*$")


def _config_command(jars: Path) -> str:
    """Its class, which Kafka 4.4 has moved to the other tools."""
    (tools,) = jars.glob("kafka-tools-[0-9]*.jar")
    with zipfile.ZipFile(tools) as jar:
        is_there = f"{TOOLS}ConfigCommand".replace(".", "/") + ".class" in jar.namelist()
    return f"{TOOLS}ConfigCommand" if is_there else "kafka.admin.ConfigCommand"


class Driver:
    def __init__(self, class_path: str, bootstrap: str) -> None:
        self._java = ["java", *MEMORY, "-cp", class_path]
        self._config_command = _config_command(Path(class_path).parent)
        config = ["--command-config", login.PROPERTIES] if login.PROPERTIES else []
        self._at = ["--bootstrap-server", bootstrap, *config]

    def _run(self, tool: str, *arguments: str, text: str = "") -> str:
        done = subprocess.run(
            [*self._java, tool, *self._at, *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=3 * WAIT_S,
            check=False,
        )
        wrong = ERROR.search(done.stdout + done.stderr)
        if done.returncode or wrong:
            raise RuntimeError(wrong[0] if wrong else (done.stderr or done.stdout).strip())
        return done.stdout

    # -- admin ---------------------------------------------------------------------------------------------------------

    def _topics(self, *arguments: str) -> str:
        return self._run(TOOLS + "TopicCommand", *arguments)

    def create(self, topic: str, partitions: int, replicas: int, configs: dict[str, str]) -> None:
        how = [part for name, value in configs.items() for part in ("--config", f"{name}={value}")]
        how += ["--partitions", str(partitions), "--replication-factor", str(replicas)]
        self._topics("--create", "--topic", topic, *how)

    def describe(self, topic: str) -> dict[str, Any]:
        lines = re.findall(
            r"Leader: (\S+)\s+Replicas: (\S+)\s+Isr: (\S+)", self._topics("--describe", "--topic", topic)
        )
        return {
            "partitions": [
                {
                    "leader": int(leader),
                    "replicas": [int(node) for node in replicas.split(",")],
                    "isr": [int(node) for node in isr.split(",")],
                }
                for leader, replicas, isr in lines
            ]
        }

    def cluster(self) -> dict[str, Any]:
        printed = self._run(TOOLS + "BrokerApiVersionsCommand")
        cluster_id = subprocess.run(
            [*self._java, TOOLS + "ClusterTool", "cluster-id", *self._at], capture_output=True, text=True, check=True
        ).stdout
        nodes = re.findall(r"(?m)^(\S+:\d+) \(id: (\d+)", printed)
        return {
            "cluster_id": cluster_id.strip().rpartition(": ")[2],
            "nodes": {node: address for address, node in nodes},
        }

    def configs(self, topic: str) -> dict[str, Any]:
        printed = self._run(self._config_command, "--describe", "--all", "--topic", topic)
        return {"configs": dict(re.findall(r"(?m)^  ([\w.]+)=(\S*) sensitive", printed))}

    def alter_configs(self, topic: str, configs: dict[str, str]) -> None:
        for name, value in configs.items():
            self._run(self._config_command, "--alter", "--topic", topic, "--add-config", f"{name}={value}")

    def add_partitions(self, topic: str, count: int) -> None:
        self._topics("--alter", "--topic", topic, "--partitions", str(count))

    def delete(self, topic: str) -> None:
        self._topics("--delete", "--topic", topic)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            asked = [{"topic": topic, "partition": partition, "offset": before}]
            file.write(json.dumps({"partitions": asked, "version": 1}))
            file.flush()
            self._run(TOOLS + "DeleteRecordsCommand", "--offset-json-file", file.name)

    def offsets(self, topic: str, partition: int, timestamp: int) -> dict[str, Any]:
        found = {}
        for name, time in (("earliest", "earliest"), ("latest", "latest"), ("at_timestamp", str(timestamp))):
            line = self._run(TOOLS + "GetOffsetShell", "--topic", topic, "--partitions", str(partition), "--time", time)
            found[name] = int(line.strip().rpartition(":")[2])
        return found

    def operate(self, topic: str) -> dict[str, Any]:
        """Other tools, run once; each answer is true, or what was wrong."""
        runs = {
            "log dirs": (TOOLS + "LogDirsCommand", "--describe", "--topic-list", topic),
            "features": (TOOLS + "FeatureCommand", "describe"),
            "quorum": (TOOLS + "MetadataQuorumCommand", "describe", "--status"),
            "replication": (TOOLS + "MetadataQuorumCommand", "describe", "--replication"),
            "reassignments": (TOOLS + "reassign.ReassignPartitionsCommand", "--list"),
            "topics": (TOOLS + "TopicCommand", "--list"),
        }
        answer: dict[str, Any] = {}
        for name, (tool, *arguments) in runs.items():
            try:
                printed = self._run(tool, *arguments).strip()
                answer[name] = bool(printed) or name == "features" or "nothing was printed"  # some clusters have none
            except RuntimeError as error:
                answer[name] = str(error)
        return answer

    # -- producing -----------------------------------------------------------------------------------------------------

    def produce(
        self, topic: str, partition: int, records: list[dict[str, Any]], codec: str, acks: str, idempotent: bool
    ) -> dict[str, Any]:
        if any("timestamp" in record for record in records):
            raise NotOffered("the console producer sets no timestamps")
        fields = {"parse.key": "true", "parse.headers": "true", "null.marker": "NULL", "headers.delimiter": "|"}
        how = [part for name, value in fields.items() for part in ("--reader-property", f"{name}={value}")]
        for name, value in (("acks", acks), ("enable.idempotence", str(idempotent).lower()), ("linger.ms", "50")):
            how += ["--command-property", f"{name}={value}"]
        lines = []
        for record in records:
            headers = ",".join(f"{name}:{value}" for name, value in record.get("headers", ())) or "NULL"
            lines.append(f"{headers}|{_or_null(record['key'])}\t{_or_null(record['value'])}\n")
        how += ["--topic", topic, "--compression-codec", codec]
        self._run(TOOLS + "ConsoleProducer", *how, text="".join(lines))
        return {"offsets": [None] * len(records)}

    def stream(self, topic: str, partitions: int, count: int, seconds: float, idempotent: bool) -> dict[str, Any]:
        """The partitions are the producer's choice. It prints an error for what was not acked."""
        how = [TOOLS + "ConsoleProducer", *self._at, "--topic", topic, "--timeout", "5"]
        how += ["--request-required-acks", "all"]
        how += ["--command-property", f"enable.idempotence={str(idempotent).lower()}"]
        how += ["--message-send-max-retries", "1000000", "--request-timeout-ms", "10000"]
        with subprocess.Popen(
            [*self._java, *how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as run:
            assert run.stdin is not None
            for number in paced(count, seconds):
                if number == count // 3:
                    tell({"progress": number})
                run.stdin.write(f"{number}\n")
                run.stdin.flush()
            output, _ = run.communicate(timeout=3 * WAIT_S)
        wrong = ERROR.findall(output)
        return {"acked": [] if wrong else [(0, None, str(number)) for number in range(count)], "failed": wrong}

    # -- consuming -----------------------------------------------------------------------------------------------------

    def _consumer(self, topic: str, count: int, *arguments: str) -> list[str]:
        shown = ("timestamp", "partition", "offset", "headers", "key", "value")
        how = [part for name in shown for part in ("--formatter-property", f"print.{name}=true")]
        how += ["--formatter-property", "null.literal=NULL", "--command-property", "fetch.max.wait.ms=200"]
        how += ["--topic", topic, "--max-messages", str(count), "--timeout-ms", str(1000 * WAIT_S), *arguments]
        return [TOOLS + "consumer.ConsoleConsumer", *self._at, *how]

    def _consumed(self, *arguments: str) -> list[dict[str, Any]]:
        return [_shown(line) for line in self._printed(*arguments)]

    def _printed(self, *arguments: str) -> list[str]:
        done = subprocess.run([*self._java, *arguments], capture_output=True, text=True, check=False)
        if done.returncode and not done.stdout:
            raise RuntimeError(done.stderr.strip())
        return done.stdout.splitlines()

    def consume(self, topic: str, partition: int, at: Any, count: int) -> dict[str, Any]:
        if isinstance(at, dict):
            at = self.offsets(topic, partition, at["timestamp"])["at_timestamp"]
        how = ("--partition", str(partition), "--offset", str(at))
        return {"records": self._consumed(*self._consumer(topic, count, *how))}

    def tail(self, topic: str, partition: int, count: int) -> dict[str, Any]:
        end = self.offsets(topic, partition, 0)["latest"]  # told, because the tool does not say when it stands there
        how = self._consumer(topic, count, "--partition", str(partition), "--offset", str(end))
        with subprocess.Popen([*self._java, *how], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
            tell({"ready": True})
            out, _ = run.communicate(timeout=2 * WAIT_S)
        return {"records": [_shown(line) for line in out.splitlines()]}

    # -- groups --------------------------------------------------------------------------------------------------------

    def take(self, topic: str, group: str, how: str, count: int) -> dict[str, Any]:
        member = [part for name in MEMBERS[how] for part in ("--command-property", name)]
        how_ = self._consumer(topic, count, "--group", group, "--from-beginning", *member)
        lines = self._printed(*how_)
        return {"records": [(partition, one["offset"], one["value"]) for partition, one in map(_placed, lines)]}

    def _groups(self, *arguments: str) -> str:
        return self._run(TOOLS + "consumer.group.ConsumerGroupCommand", *arguments)

    def committed(self, topic: str, group: str) -> dict[str, Any]:
        rows = re.findall(rf"(?m)^{group}\s+{topic}\s+(\d+)\s+(\d+)", self._groups("--describe", "--group", group))
        return {"offsets": {int(partition): int(offset) for partition, offset in rows}}

    def administer(self, topic: str, group: str) -> dict[str, Any]:
        def reset() -> bool:
            self._groups(
                *("--reset-offsets", "--group", group, "--topic", f"{topic}:0", "--to-offset", str(RESET_TO)),
                "--execute",
            )
            return self.committed(topic, group)["offsets"][0] == RESET_TO

        def delete_offsets() -> bool:
            self._groups("--delete-offsets", "--group", group, "--topic", topic)
            return not self.committed(topic, group)["offsets"]

        def delete() -> bool:
            self._groups("--delete", "--group", group)
            return group not in self._groups("--list")

        return answers(
            {
                "list": lambda: group in self._groups("--list"),
                "describe": lambda: "Empty" in self._groups("--describe", "--state", "--group", group),
                "offsets": lambda: self.committed(topic, group)["offsets"][0] > RESET_TO,
                "reset": reset,
                "delete offsets": delete_offsets,
                "delete": delete,
            }
        )

    def follow(self, topic: str, partitions: int, count: int) -> dict[str, Any]:
        """A console consumer a partition."""
        records: list[tuple[int, int, str]] = []
        values: set[str] = set()
        enough = threading.Event()

        def read(partition: int, run: subprocess.Popen[str]) -> None:
            assert run.stdout is not None
            for line in run.stdout:
                found = _shown(line.rstrip("\n"))
                records.append((partition, found["offset"], found["value"]))
                values.add(found["value"])
                if len(values) == count:
                    enough.set()

        runs = [
            subprocess.Popen(
                [*self._java, *self._consumer(topic, count, "--partition", str(partition), "--offset", "earliest")],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            for partition in range(partitions)
        ]
        readers = [threading.Thread(target=read, args=pair) for pair in enumerate(runs)]
        for reader in readers:
            reader.start()
        enough.wait(3 * WAIT_S)
        for run, reader in zip(runs, readers, strict=True):
            run.kill()
            reader.join()
            run.communicate()
        return {"records": records}


def _or_null(text: str | None) -> str:
    return "NULL" if text is None else text


def _text(shown: str) -> str | None:
    return None if shown == "NULL" else shown


def _placed(line: str) -> tuple[int, dict[str, Any]]:
    """With the partition."""
    return int(line.split("\t")[1].removeprefix("Partition:")), _shown(line)


def _shown(line: str) -> dict[str, Any]:
    timestamp, _, offset, headers, key, value = line.split("\t")
    pairs = [] if headers == "NO_HEADERS" else [pair.split(":", 1) for pair in headers.split(",")]
    return {
        "offset": int(offset.removeprefix("Offset:")),
        "timestamp": int(timestamp.partition(":")[2]),
        "key": _text(key),
        "value": _text(value),
        "headers": [[name, _text(value)] for name, value in pairs],
    }


if __name__ == "__main__":
    serve(Driver(sys.argv[1], sys.argv[2]))
