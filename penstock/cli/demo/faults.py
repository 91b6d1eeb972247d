"""The two crashes of the demo: a partition leader, then the active controller, each killed (-9) in mid-stream and
brought back.

The faults run in a thread of their own while the stream goes on. A fault begins when a given part of the text is acked.
The stream may run ahead only to a limit until the killed node is back in every ISR, so that both faults happen in
mid-stream on a fast machine too. Meanwhile no other thread uses the Cluster object.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from penstock import Admin
from penstock.cli.demo.ledger import Ledger
from penstock.errors import ApiError, PenstockError, TimedOutError, TopicExistsError
from penstock.testing import Cluster

LEADER_AT, LEADER_LIMIT = 0.20, 0.45
CONTROLLER_AT, CONTROLLER_LIMIT = 0.55, 0.80
FAULT_TIMEOUT_S = 60.0
LOOK_EVERY_S = 0.05
PROBE_TOPIC = "demo-after-the-controller"
ADMIN_RETRY_MS = 20
"""How often the partitions are checked; short enough to measure a failover."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One crash: the node, the partitions that it led, the failover time, the time until it was in every ISR again."""

    node_id: int
    partitions: int
    failover_ms: int | None
    back_ms: int


@dataclass(frozen=True, slots=True)
class Faults:
    """Both crashes. `failover_ms` of the leader is None when the rest of the text had no record for its partitions."""

    leader: Fault
    controller: Fault


class FaultRun:
    """Both crashes against one cluster, in the thread that calls `run`."""

    def __init__(self, cluster: Cluster, topic: str, ledger: Ledger, say: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._topic = topic
        self._ledger = ledger
        self._say = say
        self._stopped = threading.Event()
        ledger.set_limit(LEADER_LIMIT)

    def __repr__(self) -> str:
        return f"FaultRun({self._cluster!r}, {self._topic!r})"

    def stop(self) -> None:
        """Ends `run` soon, with an error; for Ctrl-C."""
        self._stopped.set()

    def run(self) -> Faults:
        """Both faults; a failure here ends the stream too."""
        try:
            with Admin(
                self._cluster.bootstrap, retry_backoff_ms=ADMIN_RETRY_MS, retry_backoff_max_ms=ADMIN_RETRY_MS
            ) as admin:
                self._ledger.wait_acked(LEADER_AT)
                leader = self._kill_leader(admin)
                self._ledger.set_limit(CONTROLLER_LIMIT)
                self._ledger.wait_acked(CONTROLLER_AT)
                controller = self._kill_controller(admin)
                self._ledger.set_limit(1.0)
            return Faults(leader, controller)
        except BaseException as error:
            self._ledger.fail(error)
            raise

    def _kill_leader(self, admin: Admin) -> Fault:
        """Kills the leader of the partition with the most text left."""
        left_bytes = self._ledger.left_bytes()
        partitions = admin.describe_topic(self._topic).partitions
        victim = max(partitions, key=lambda p: left_bytes.get(p.partition, 0)).leader_id
        led = {p.partition for p in partitions if p.leader_id == victim}
        self._say(f"kill -9 of node {victim}, leader of partitions {sorted(led)}")
        self._cluster.kill(victim)
        killed_at = time.monotonic()
        self._ledger.watch(led)
        acked_at = self._ledger.wait_acked_again(FAULT_TIMEOUT_S)
        failover_ms = round(1000 * (max(acked_at.values()) - killed_at)) if acked_at else None
        if failover_ms is not None:
            self._say(f"its {len(led)} partitions ack again after {failover_ms} ms; starting node {victim} again")
        return Fault(victim, len(led), failover_ms, self._bring_back(admin, victim))

    def _kill_controller(self, admin: Admin) -> Fault:
        """Kills the active controller; the failover ends when the quorum commits the next change."""
        victim = admin.describe_quorum().leader_id
        led = sum(p.leader_id == victim for p in admin.describe_topic(self._topic).partitions)
        self._say(f"kill -9 of node {victim}, the active controller")
        self._cluster.kill(victim)
        killed_at = time.monotonic()
        self._create_probe(admin)
        failover_ms = round(1000 * (time.monotonic() - killed_at))
        self._say(f"a topic was created after {failover_ms} ms; starting node {victim} again")
        back_ms = self._bring_back(admin, victim)
        admin.delete_topic(PROBE_TOPIC)
        return Fault(victim, led, failover_ms, back_ms)

    def _create_probe(self, admin: Admin) -> None:
        """With two replicas: at least one is alive, and two brokers are in service even if the dead one is fenced."""
        deadline = time.monotonic() + FAULT_TIMEOUT_S
        while True:
            try:
                admin.create_topic(PROBE_TOPIC, partitions=1, replication_factor=2)
                return
            except TopicExistsError:  # an earlier attempt was committed, but its answer was lost
                return
            except (ApiError, TimedOutError) as error:
                if time.monotonic() > deadline or (isinstance(error, ApiError) and not error.retriable):
                    raise
            self._pause()

    def _bring_back(self, admin: Admin, node_id: int) -> int:
        """Starts a node; returns the ms until it was in every ISR of the topic."""
        started_at = time.monotonic()
        self._cluster.start(node_id)
        while not all(node_id in p.isr for p in admin.describe_topic(self._topic).partitions if node_id in p.replicas):
            if time.monotonic() - started_at > FAULT_TIMEOUT_S:
                raise TimedOutError(f"node {node_id} is not in every ISR {FAULT_TIMEOUT_S:g} s after its start")
            self._pause()
        back_ms = round(1000 * (time.monotonic() - started_at))
        self._say(f"node {node_id} is back in every ISR after {back_ms} ms")
        return back_ms

    def _pause(self) -> None:
        if self._stopped.wait(LOOK_EVERY_S):
            raise PenstockError("interrupted")
