"""The driver of kcat (Debian's), one run of the command for each verb."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from typing import Any

from tests.interop.drivers import login
from tests.interop.drivers.serve import WAIT_S, NotOffered, Shared, paced, serve, tell

STRATEGIES = {"eager": "range", "cooperative": "cooperative-sticky"}


FIRST_WITH_SCRAM = (2, 6, 1)
"""librdkafka before it sends a wrong nonce, which Kafka 4 refuses (confluentinc/librdkafka#4895), and so do we."""


def _librdkafka() -> tuple[int, ...]:
    printed = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"librdkafka (\d+)\.(\d+)\.(\d+)", printed)
    return tuple(map(int, found.groups())) if found else FIRST_WITH_SCRAM


class Driver:
    def __init__(self, bootstrap: str) -> None:
        self._kcat = ["kcat", "-b", bootstrap, "-X", "log_level=3"]
        options = login.librdkafka()
        if options and _librdkafka() < FIRST_WITH_SCRAM:
            options["sasl.mechanism"] = "PLAIN"
        self._kcat += [part for name, value in options.items() for part in ("-X", f"{name}={value}")]

    def _run(self, *arguments: str, text: str = "") -> str:
        done = subprocess.run(
            [*self._kcat, *arguments], input=text, capture_output=True, text=True, timeout=3 * WAIT_S, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        return done.stdout

    # -- metadata ------------------------------------------------------------------------------------------------------

    def describe(self, topic: str) -> dict[str, Any]:
        (found,) = json.loads(self._run("-L", "-J", "-t", topic))["topics"]
        if "error" in found:
            raise RuntimeError(found["error"])
        return {
            "partitions": [
                {
                    "leader": p["leader"],
                    "replicas": [r["id"] for r in p["replicas"]],
                    "isr": [r["id"] for r in p["isrs"]],
                }
                for p in sorted(found["partitions"], key=lambda p: p["partition"])
            ]
        }

    def cluster(self) -> dict[str, Any]:
        return {"nodes": {node["id"]: node["name"] for node in json.loads(self._run("-L", "-J"))["brokers"]}}

    def offsets(self, topic: str, partition: int, timestamp: int) -> dict[str, Any]:
        asked = {"earliest": -2, "latest": -1, "at_timestamp": timestamp}
        found = {name: self._run("-Q", "-t", f"{topic}:{partition}:{time_}") for name, time_ in asked.items()}
        return {name: int(line.rpartition("offset ")[2]) for name, line in found.items()}

    # -- producing -----------------------------------------------------------------------------------------------------

    def produce(
        self, topic: str, partition: int, records: list[dict[str, Any]], codec: str, acks: str, idempotent: bool
    ) -> dict[str, Any]:
        if any("timestamp" in record for record in records):
            raise NotOffered("kcat sets no timestamps")
        how = ["-P", "-t", topic, "-p", str(partition), "-z", codec, "-X", f"acks={acks}", "-K", "\t", "-Z"]
        how += ["-X", f"enable.idempotence={str(idempotent).lower()}"]
        for name, value in records[0].get("headers", ()):
            how += ["-H", f"{name}={value}"]
        if any("" in (record["key"], record["value"]) for record in records):
            raise NotOffered("kcat -Z makes null of all that is empty")
        self._run(*how, text="".join(f"{r['key'] or ''}\t{r['value'] or ''}\n" for r in records))
        return {"offsets": [None] * len(records)}

    def stream(self, topic: str, partitions: int, count: int, seconds: float, idempotent: bool) -> dict[str, Any]:
        """One run a partition; an exit code of 0 says that everything was acked, and nothing says where."""
        how = ["-P", "-X", "acks=all", "-X", f"enable.idempotence={str(idempotent).lower()}", "-X", "linger.ms=5"]
        runs = [
            subprocess.Popen(
                [*self._kcat, *how, "-t", topic, "-p", str(partition)],
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for partition in range(partitions)
        ]
        for number in paced(count, seconds):
            if number == count // 3:
                tell({"progress": number})
            stdin = runs[number % partitions].stdin
            assert stdin is not None
            stdin.write(f"{number}\n")
            stdin.flush()
        failed = [error for run in runs for error in [run.communicate(timeout=3 * WAIT_S)[1]] if run.returncode]
        return {"acked": [] if failed else [(n % partitions, None, str(n)) for n in range(count)], "failed": failed}

    # -- consuming -----------------------------------------------------------------------------------------------------

    def consume(self, topic: str, partition: int, at: Any, count: int) -> dict[str, Any]:
        start = f"s@{at['timestamp']}" if isinstance(at, dict) else "beginning" if at == "earliest" else str(at)
        how = ["-C", "-J", "-t", topic, "-p", str(partition), "-o", start, "-c", str(count)]
        return {"records": [_shown(line) for line in self._run(*how).splitlines()]}

    def tail(self, topic: str, partition: int, count: int) -> dict[str, Any]:
        how = ["-C", "-J", "-u", "-t", topic, "-p", str(partition), "-o", "end", "-c", str(count)]
        with subprocess.Popen([*self._kcat, *how], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
            assert run.stderr is not None
            for line in run.stderr:
                if "Reached end" in line:
                    break
            tell({"ready": True})
            out, _ = run.communicate(timeout=WAIT_S)
        return {"records": [_shown(line) for line in out.splitlines()]}

    def follow(self, topic: str, partitions: int, count: int) -> dict[str, Any]:
        records: list[tuple[int, int, str]] = []
        how = ["-C", "-J", "-u", "-t", topic, "-o", "beginning"]
        run = subprocess.Popen([*self._kcat, *how], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        ender = threading.Timer(3 * WAIT_S, run.kill)
        ender.start()
        values: set[str] = set()
        assert run.stdout is not None
        for line in run.stdout:
            found = json.loads(line)
            records.append((found["partition"], found["offset"], found["payload"]))
            values.add(found["payload"])
            if len(values) == count:
                break
        ender.cancel()
        run.kill()
        run.communicate()
        return {"records": records}

    # -- groups --------------------------------------------------------------------------------------------------------

    def _member(self, topic: str, group: str, how: str, *arguments: str) -> list[str]:
        if how not in STRATEGIES:
            raise NotOffered("its librdkafka is older than the consumer protocol")
        shown = ["-J", "-u", *arguments, "-X", f"partition.assignment.strategy={STRATEGIES[how]}"]
        return [*self._kcat, "-G", group, *shown, "-X", "auto.offset.reset=earliest", topic]

    def take(self, topic: str, group: str, how: str, count: int) -> dict[str, Any]:
        done = subprocess.run(
            self._member(topic, group, how, "-c", str(count)), capture_output=True, text=True, timeout=3 * WAIT_S
        )
        return {"records": [_placed(line) for line in done.stdout.splitlines()]}

    def share(self, topic: str, group: str, how: str) -> dict[str, Any]:
        shared = Shared()
        with subprocess.Popen(
            self._member(topic, group, how), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as run:
            assert run.stdout is not None and run.stderr is not None

            def listen(lines: Any, own: set[int]) -> None:
                for line in lines:  # "% Group g rebalanced (…): assigned: t [0], t [1]", or "incremental revoke of …"
                    if "rebalanced" in line:
                        named = {int(number) for number in re.findall(r" \[(\d+)\]", line)}
                        kept = own if "incremental" in line else set()
                        own = own - named if "revoke" in line else kept | named
                        shared.assigned(own)

            listener = threading.Thread(target=listen, args=(run.stderr, set()))
            listener.start()
            for line in run.stdout:
                shared.add(*_placed(line))
                if shared.is_over:
                    break
            run.terminate()
            listener.join()
        return {"records": shared.records}


def _placed(line: str) -> tuple[int, int, str]:
    found = json.loads(line)
    return found["partition"], found["offset"], found["payload"]


def _shown(line: str) -> dict[str, Any]:
    found = json.loads(line)
    flat = found.get("headers", [])
    return {
        "offset": found["offset"],
        "timestamp": found["ts"],
        "key": found["key"],
        "value": found["payload"],
        "headers": [list(pair) for pair in zip(flat[::2], flat[1::2], strict=True)],
    }


if __name__ == "__main__":
    serve(Driver(sys.argv[1]))
