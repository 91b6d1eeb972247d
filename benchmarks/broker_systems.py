"""The systems of benchmarks/broker.py behind one face: start, ready, a topic, a client, what it costs, stop.

Ours is penstock.testing's Cluster with a node's own defaults, in a process of its own (broker_cluster.py), of this
checkout or of another one; Kafka is started by the `peers.py` of the folder that `--peers` names. All on loopback, one
at a time, each with a directory of its own. What a client does to them is in broker_client_penstock.py and
broker_client_kafka.py.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from benchmarks.broker_client_kafka import SETTINGS as KAFKA_CLIENT_SETTINGS

ROOT = Path(__file__).resolve().parent.parent
PARTITIONS = 6
SOURCES = ("penstock", "broker", "metadata", "raft", "storage")
STOP_TIMEOUT_S = 30
NOT_IDEMPOTENT = "not-idempotent"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class System(Protocol):
    """A running cluster. `settings` is what was set on it and on its clients, beside their own defaults."""

    name: str
    bootstrap: str
    kafka_bootstrap: str
    """For clients of Kafka's protocol."""
    ready_seconds: float
    settings: dict[str, Any]

    def pids(self) -> Sequence[int]: ...

    def create_topic(self, name: str, partitions: int = PARTITIONS) -> None: ...

    def client(self, *arguments: str) -> tuple[list[str], Path]:
        """The command of one client process, and the folder to run it in."""
        ...

    def kafka_client(self, *arguments: str) -> tuple[list[str], Path]:
        """The same for the client of Kafka's protocol."""
        ...

    def index_of(self, node_id: int) -> int:
        """The place of a node in `kafka_bootstrap`."""
        ...

    def end(self, node_id: int, *, gently: bool) -> Callable[[], object]:
        """Stops a node in order, or kills it (-9); what is returned waits until it has ended."""
        ...

    def start(self, node_id: int) -> None:
        """Again, on its directories."""
        ...


def rss_bytes(system: System) -> int:
    """Resident memory of all nodes together."""
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES for pid in system.pids())


def cpu_seconds(system: System) -> float:
    """User and system time of all nodes together, since each started."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in system.pids()]
    return sum(int(f[11]) + int(f[12]) for f in fields) / TICKS_PER_SECOND


class Penstock:
    """Ours: fsync before the ack, on every in-sync replica."""

    def __init__(
        self, name: str, tree: Path, host: subprocess.Popen[str], options: Mapping[str, Any] | None = None
    ) -> None:
        self.name = name
        self._options = [json.dumps(options)] if options else []  # of its producers
        self._tree = tree
        self._host = host
        ready = self._answer()
        self.bootstrap: str = ready["bootstrap"]
        self.kafka_bootstrap: str = ready["kafka_bootstrap"]
        self.ready_seconds: float = ready["ready_s"]
        self._pids: list[int] = ready["pids"]
        self.settings: dict[str, Any] = {"tree": tree.name, "acks": "all", "flush": "fdatasync before the ack"}

    def _answer(self) -> dict[str, Any]:
        line = self._host.stdout.readline() if self._host.stdout is not None else ""
        if not line:
            raise RuntimeError(f"the cluster of {self._tree} ended: its own message stands above")
        shown: dict[str, Any] = json.loads(line)
        return shown

    def pids(self) -> list[int]:
        return self._pids

    def _tell(self, command: str) -> None:
        if self._host.stdin is not None:
            self._host.stdin.write(f"{command}\n")
            self._host.stdin.flush()

    def create_topic(self, name: str, partitions: int = PARTITIONS) -> None:
        self._tell(f"{name} {partitions}")
        self._answer()

    def index_of(self, node_id: int) -> int:
        return node_id

    def end(self, node_id: int, *, gently: bool) -> Callable[[], object]:
        self._tell(f"{'stop' if gently else 'kill'} {node_id}")
        return self._answer

    def start(self, node_id: int) -> None:
        self._tell(f"start {node_id}")
        self._pids = self._answer()["pids"]

    def client(self, *arguments: str) -> tuple[list[str], Path]:
        command = [str(_python_of(self._tree)), "-m", "benchmarks.broker_client_penstock", *arguments]
        return command + self._options, self._tree

    def kafka_client(self, *arguments: str) -> tuple[list[str], Path]:
        return _kafka_client(arguments)


class Kafka:
    """Theirs: plain, which acks from the page cache, or with an fsync before the ack, which is what ours does."""

    def __init__(self, peer: Any, *, fsync: bool) -> None:
        self.name = "kafka-fsync" if fsync else "kafka"
        self._peer = peer
        self.bootstrap = self.kafka_bootstrap = peer.bootstrap
        self.ready_seconds = peer.ready_seconds
        self.settings: dict[str, Any] = {"broker": peer.config, "heap": peer.heap, **KAFKA_CLIENT_SETTINGS}

    def pids(self) -> list[int]:
        return [process.pid for process in self._peer.processes]

    def index_of(self, node_id: int) -> int:
        return node_id - 1

    def end(self, node_id: int, *, gently: bool) -> Callable[[], object]:
        process = self._peer.processes[node_id - 1]
        process.send_signal(signal.SIGTERM if gently else signal.SIGKILL)
        return functools.partial(process.wait, STOP_TIMEOUT_S)

    def start(self, node_id: int) -> None:
        self._peer.restart(node_id - 1)

    def create_topic(self, name: str, partitions: int = PARTITIONS) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for created in admin.create_topics([NewTopic(name, partitions, self._peer.nodes)]).values():
            created.result(60)

    def client(self, *arguments: str) -> tuple[list[str], Path]:
        return _kafka_client(arguments)

    def kafka_client(self, *arguments: str) -> tuple[list[str], Path]:
        return _kafka_client(arguments)


def _kafka_client(arguments: Sequence[str]) -> tuple[list[str], Path]:
    return [sys.executable, "-m", "benchmarks.broker_client_kafka", *arguments], ROOT


def _python_of(tree: Path) -> Path:
    """The Python of another checkout is the one of its own environment."""
    return Path(sys.executable) if tree == ROOT else tree / ".venv" / "bin" / "python"


@cache
def _compile_once(tree: Path) -> None:
    """Writes the byte code, as pip does for an installed package: otherwise a start would be the compiler's time."""
    command = [str(_python_of(tree)), "-m", "compileall", "-q", *SOURCES]
    subprocess.run(command, cwd=tree, check=True)


@contextmanager
def penstock(
    nodes: int,
    *,
    name: str = "penstock",
    tree: Path = ROOT,
    options: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
) -> Iterator[System]:
    """Started within, from empty directories; the start includes their formatting."""
    _compile_once(tree)
    command = [str(_python_of(tree)), str(ROOT / "benchmarks" / "broker_cluster.py"), str(nodes)]
    command += [json.dumps(config)] if config else []  # an earlier version takes none
    host = subprocess.Popen(command, cwd=tree, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield Penstock(name, tree, host, options)
    finally:
        host.communicate(timeout=STOP_TIMEOUT_S)


def module_of(peers: Path) -> Any:
    """The module `peers` of this folder."""
    if str(peers) not in sys.path:
        sys.path.append(str(peers))
    return importlib.import_module("peers")


@contextmanager
def kafka(peers: Path, nodes: int, *, fsync: bool = False, config: Mapping[str, Any] | None = None) -> Iterator[System]:
    """Started within, from empty directories; their formatting comes before the clock."""
    with module_of(peers).Kafka(nodes, fsync=fsync, config=dict(config or {})) as peer:
        yield Kafka(peer, fsync=fsync)


def missing_for_kafka(peers: Path | None) -> list[str]:
    """The tools and files that this machine lacks for Kafka's rows."""
    if peers is None:
        return ["--peers DIR, the folder of peers.py"]
    missing = [] if (peers / "peers.py").is_file() else [str(peers / "peers.py")]
    missing += [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    return missing + ([] if importlib.util.find_spec("confluent_kafka") else ["confluent-kafka (PyPI)"])
