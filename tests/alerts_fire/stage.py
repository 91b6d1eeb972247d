"""Where an alert is made to fire: three real nodes, and a real Prometheus with the rules of ops/prometheus/ at the pace
of a test.

A fault asks the stage for what it needs (topics, a node to hit), says `begins()` right before it strikes, and gives up
control while it lasts. Prometheus keeps what fired and when, so nothing is missed between two looks.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from penstock import Admin, Producer
from penstock.testing import Cluster
from tests.failover.network import Network
from tests.support.certificates import TestCa
from tests.support.issuer import Issuer
from tests.support.prometheus import query, running_prometheus, write_config
from tests.support.small_disk import small_disk

NODES = 3
DISK_BYTES = 32 * 1024 * 1024
RECORD_BYTES = 50_000
WAIT_S_MAX = 240
CA = TestCa()
OWN_CLOCKS = Path(__file__).with_name("clock_of_a_node")
OF_THE_MACHINE = frozenset({"PenstockHandlersBusy", "PenstockNetworkBusy", "PenstockMachineBusy"})
"""Other processes on this machine make them fire, too: they are judged only by the fault that must make them fire."""

OPEN_LISTENERS = ("BROKER:PLAINTEXT", "INTERNAL:PLAINTEXT", "CONTROLLER:PLAINTEXT")
CONFIG: dict[str, object] = {
    # Periodic work at the pace of the rules.
    "log.retention.check.interval.ms": 1_000,
    "log.flush.offset.checkpoint.interval.ms": 500,
    "replica.high.watermark.checkpoint.interval.ms": 500,
    "log.flush.start.offset.checkpoint.interval.ms": 500,
    "log.cleaner.backoff.ms": 500,
    "log.segment.bytes": 256 * 1024,
}


class FaultError(Exception):
    """A fault could not be made as its function says."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The requirements of a fault on the cluster that it strikes."""

    config: Mapping[str, object] = field(default_factory=dict)
    proxied: bool = False
    """Bytes between nodes pass through `Stage.network`."""
    disk: bool = False
    """The second log dir of node 0 is a disk of DISK_BYTES of its own."""
    own_clocks: bool = False
    """A file beside a node's configuration can shift its calendar."""
    tls: bool = False
    """The listeners for Kafka's clients have TLS, by the file `Stage.keystore`, and take tokens, by `Stage.keys`."""


@dataclass(frozen=True)
class Stage:
    """One cluster and its Prometheus."""

    cluster: Cluster
    admin: Admin
    api: str
    seconds_per_minute: int
    log_dirs: list[tuple[Path, Path]]
    """Two log dirs of each node: that of the metadata log, and the one that gets the first partition."""
    network: Network | None
    keystore: Path
    keys: Path
    began_s: list[float] = field(default_factory=list)

    # -- for a fault ---------------------------------------------------------------------------------------------------

    def topic(self, name: str, replicas: int = NODES, partitions: int = 1, **config: object) -> str:
        """A new topic; the keys of `config` with _ in place of dots."""
        given = {key.replace("_", "."): value for key, value in config.items()}
        self.admin.create_topic(name, partitions, replicas, given)
        return name

    def leader(self, topic: str) -> int:
        return self.admin.describe_topic(topic).partitions[0].leader_id

    def isr(self, topic: str) -> set[int]:
        return set(self.admin.describe_topic(topic).partitions[0].isr)

    def follower(self, topic: str) -> int:
        """A node that follows the topic's first partition."""
        (partition,) = self.admin.describe_topic(topic).partitions
        return next(node for node in partition.replicas if node != partition.leader_id)

    def controllers_follower(self) -> int:
        """A node that is not the active controller."""
        return (self.admin.describe_quorum().leader_id + 1) % NODES

    def write(self, topic: str, records: int = 1) -> None:
        with Producer(self.cluster.bootstrap, acks=1) as producer:
            for _ in range(records):
                producer.send(topic, value=bytes(RECORD_BYTES)).result(30)

    def begins(self) -> None:
        """Returns when every node is scraped and nothing fires: now the fault may strike."""
        calm = until(lambda: self.all_are_scraped() and self.firing() <= OF_THE_MACHINE)
        if calm is None:
            raise FaultError(f"not calm within {WAIT_S_MAX} s before the fault; firing: {sorted(self.firing())}")
        self.began_s.append(time.time())

    def refused_appends(self) -> bool:
        """True if a partition refused its last append, by the nodes' gauges."""
        return bool(query(self.api, "query", query="penstock_partitions_refusing_appends > 0")["result"])

    # -- for the judge -------------------------------------------------------------------------------------------------

    def all_are_scraped(self) -> bool:
        """True if Prometheus answers, and has fresh samples of every node."""
        return bool(query(self.api, "query", query=f"count(up == 1) == {NODES}")["result"])

    def firing(self) -> frozenset[str]:
        """The alerts that fire now."""
        return frozenset(name for name, _ in self.firing_nodes())

    def firing_nodes(self) -> set[tuple[str, str]]:
        """Every alert that fires now, with its instance."""
        found = query(self.api, "query", query='ALERTS{alertstate="firing"}')["result"]
        return {(one["metric"]["alertname"], one["metric"].get("instance", "")) for one in found}

    def fired(self) -> dict[str, tuple[float, float]]:
        """Alerts since the fault: first and last second in which each fired, as times of day."""
        asked = {"query": 'ALERTS{alertstate="firing"}', "start": f"{self.began_s[-1]:.3f}", "step": "1"}
        found = query(self.api, "query_range", end=f"{time.time():.3f}", **asked)["result"]
        times: dict[str, list[float]] = {}
        for series in found:
            times.setdefault(series["metric"]["alertname"], []).extend(float(at) for at, _ in series["values"])
        return {name: (min(seconds), max(seconds)) for name, seconds in times.items()}


@contextmanager
def stage(setting: Setting, seconds_per_minute: int) -> Iterator[Stage]:
    """A new cluster for one fault."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-alerts-")))
        log_dirs = [(directory / f"node-{node}-main", directory / f"node-{node}-second") for node in range(NODES)]
        if setting.disk:
            disk = stack.enter_context(small_disk(directory / "disk", DISK_BYTES))
            log_dirs[0] = (log_dirs[0][0], disk / "log")
        own: list[dict[str, object]] = [
            {"log.dirs": [str(main), str(second)], "metadata.log.dir": str(main)} for main, second in log_dirs
        ]
        keystore, keys, of_tls = directory / "kafka.pem", directory / "keys.json", {}
        if setting.tls:
            keystore.write_bytes(CA.node(0, days=300))
            of_tls = {
                "listener.security.protocol.map": [*OPEN_LISTENERS, "KAFKA:SASL_SSL"],
                "ssl.keystore.location": str(keystore),
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "sasl.oauthbearer.jwks.endpoint.url": Issuer().publish(keys),
            }
        network = stack.enter_context(Network(NODES)) if setting.proxied else None
        if network is not None:
            own = [{**mine, **proxied} for mine, proxied in zip(own, network.node_configs, strict=True)]
        cluster = Cluster(NODES, {**CONFIG, **setting.config, **of_tls}, node_configs=own)
        if network is not None:
            network.attach(cluster)
        if setting.own_clocks:
            stack.enter_context(patch.dict(os.environ, {"PYTHONPATH": str(OWN_CLOCKS)}))
        stack.enter_context(cluster)
        write_config(directory, cluster, seconds_per_minute)
        admin = stack.enter_context(Admin(cluster.bootstrap))
        api = stack.enter_context(running_prometheus(directory))
        yield Stage(cluster, admin, api, seconds_per_minute, log_dirs, network, keystore, keys)


def until(holds: Callable[[], bool], timeout_s: float = WAIT_S_MAX) -> float | None:
    """How many seconds it took; None when it did not come."""
    began, pause = time.monotonic(), threading.Event()
    while time.monotonic() < began + timeout_s:
        if holds():
            return time.monotonic() - began
        pause.wait(0.5)
    return None


def must_come(holds: Callable[[], bool], what: str) -> None:
    """Gives the fault up when a step of it does not happen."""
    if until(holds, 60) is None:
        raise FaultError(f"did not come within 60 s: {what}")


@contextmanager
def again_and_again(work: Callable[[], None], pause_s: float) -> Iterator[None]:
    """Does the work in a thread, with pauses, until the block ends."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(pause_s):
            work()

    thread = threading.Thread(target=repeat, name="fault")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
