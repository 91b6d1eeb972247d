"""Another implementation of the protocol looks on: tshark dissects a recorded session of each client.

    python -m tests.interop.matrix.dissect [--clients kcat,kafkajs] [--features produce-none,consume] [--kafka DIR]

The session is captured on loopback while the client goes through its features. For each client: the requests and
responses that tshark knows, those of them that are malformed, and those of versions that it does not know yet, in which
it finds faults of its own. Exit code 1 when one that it knows is malformed. Needs tshark, and the right to capture.
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.interop.matrix import subjects
from tests.interop.matrix.clients import CLIENTS
from tests.interop.matrix.run import outcomes

FEATURES = (
    *("cluster", "create", "describe", "configs", "partitions", "delete-records", "delete", "offsets", "operate"),
    *("produce-none", "produce-gzip", "produce-zstd", "acks-0", "idempotent", "consume", "from-time", "seek", "tail"),
)
FLUSH_S = 1.5
"""Captured packets reach the file a little later; an end of the capture before that would cut the session."""
MESSAGE = re.compile(r"^Kafka \((\S+) v(\d+) (?:Request|Response)\)")
UNKNOWN = re.compile(r"API Version (\S+) \(\S+\) \[Unsupported API version\. Supports v\d+-(\d+)\]")
TOO_NEW = re.compile(r"\[(?:Unsupported|Unknown) .*(?:version|API key)")
OWN_FAULTS = {
    "DeleteTopics v1": "no throttle time is read",
    "ElectLeaders v2": "the compact name of a topic is not read",
    "ListPartitionReassignments v0": "a compact array of partitions is not read to its end",
}
"""Faults of tshark 4.0: it finds the same in sessions with Apache Kafka, where the bytes follow Kafka's definitions."""


@dataclass
class Dissection:
    """Messages by their names; `limits` are the newest versions that tshark knows, where it said so."""

    known: Counter[str] = field(default_factory=Counter)
    malformed: Counter[str] = field(default_factory=Counter)
    newer: Counter[str] = field(default_factory=Counter)


def dissected(text: str) -> Dissection:
    """From the words of `tshark -V`: a message begins with a line `Kafka (Name vN Request)`."""
    found = Dissection()
    limits = {name: int(version) for name, version in UNKNOWN.findall(text)}
    message, is_newer, is_malformed = "", False, False

    def end() -> None:
        if message:
            (found.newer if is_newer else found.known)[message] += 1
            if is_malformed and not is_newer and message not in OWN_FAULTS:
                found.malformed[message] += 1

    for line in text.splitlines():
        begins = MESSAGE.match(line)
        if begins or line.startswith("Frame "):
            end()
            message, is_malformed = (f"{begins[1]} v{begins[2]}", False) if begins else ("", False)
            is_newer = bool(begins) and (int(begins[2]) > limits.get(begins[1], 1 << 15) or begins[1] == "Unknown")
        elif "[Group: Malformed]" in line or "[Malformed Packet" in line:
            is_malformed = True
        elif TOO_NEW.search(line) and not message.startswith("ApiVersions"):
            is_newer = True
    end()
    return found


def recorded(subject: subjects.Subject, client: str, features: list[str], file: Path) -> list[str]:
    """Captures the client's session; returns what failed."""
    ports = [address.rpartition(":")[2] for address in subject.bootstrap.split(",")]
    capture = ["tshark", "-q", "-i", "lo", "-w", str(file), "-f", " or ".join(f"tcp port {port}" for port in ports)]
    with subprocess.Popen(capture, stderr=subprocess.PIPE, text=True) as tshark:
        assert tshark.stderr is not None
        for line in tshark.stderr:
            if "Capturing on" in line:
                break
        failed = [str(outcome) for outcome in outcomes(subject, client, features) if outcome.state != "ok"]
        time.sleep(FLUSH_S)
        tshark.send_signal(signal.SIGINT)
        tshark.communicate(timeout=30)
    return failed


def read(subject: subjects.Subject, file: Path) -> Dissection:
    ports = [address.rpartition(":")[2] for address in subject.bootstrap.split(",")]
    words = [part for port in ports for part in ("-d", f"tcp.port=={port},kafka")]
    done = subprocess.run(
        ["tshark", "-r", str(file), *words, "-Y", "kafka", "-O", "kafka"], capture_output=True, text=True, check=True
    )
    return dissected(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.matrix.dissect", description=__doc__.splitlines()[0])
    parser.add_argument("--clients", default=",".join(CLIENTS), help="names with commas; all without it")
    parser.add_argument("--features", default=",".join(FEATURES), help="names with commas; see the matrix")
    parser.add_argument("--kafka", type=Path, help="the folder of a peers.py: Apache Kafka instead of ours")
    arguments = parser.parse_args()
    if shutil.which("tshark") is None:
        print("tshark is not installed: apt-get install tshark", file=sys.stderr)
        return 1
    malformed = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        subjects.kafka(arguments.kafka) if arguments.kafka else subjects.penstock() as subject,
    ):
        print(f"{subject.name:18} {'dissected':>10} {'malformed':>10} {'of versions that tshark does not know':>38}")
        for client in arguments.clients.split(","):
            file = Path(folder) / f"{client}.pcapng"
            for failure in recorded(subject, client, arguments.features.split(","), file):
                print(failure, file=sys.stderr)
            found = read(subject, file)
            newer = f"{found.newer.total()} ({len(found.newer)} kinds)"
            print(f"{client:18} {found.known.total():10} {found.malformed.total():10} {newer:>38}", flush=True)
            for message, count in found.malformed.items():
                print(f"    {message}: {count} malformed")
            malformed += found.malformed.total()
            file.unlink()
    return 1 if malformed else 0


if __name__ == "__main__":
    sys.exit(main())
