"""Faults of nodes and of the network between them: killed, paused, slow, forgetful, forged."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import grpc

from penstock import Producer
from penstock.pb import controller_pb2, quorum_pb2
from tests.alerts_fire.stage import NODES, RECORD_BYTES, Stage, again_and_again, must_come
from tests.support.grpc_stub import Stub

SLOW_BYTES_PER_S = 50_000
FORGERIES = 4
"""More than the two that the rules let pass."""
PRODUCERS = 6
CLOCK_SHIFT_S = 2 * 24 * 60 * 60


@contextmanager
def killed(stage: Stage) -> Iterator[None]:
    """A node that is not the active controller dies; every topic has three replicas and needs two."""
    stage.topic("orders", partitions=6)
    with _without_a_node(stage):
        yield


@contextmanager
def killed_controller(stage: Stage) -> Iterator[None]:
    """The active controller dies, and another one is elected."""
    stage.topic("orders", partitions=6)
    stage.begins()
    victim = stage.admin.describe_quorum().leader_id
    stage.cluster.kill(victim)
    yield
    stage.cluster.start(victim)


@contextmanager
def killed_with_the_only_replica(stage: Stage) -> Iterator[None]:
    stage.topic("alone", replicas=1, partitions=2 * NODES)
    with _without_a_node(stage):
        yield


@contextmanager
def killed_where_all_are_needed(stage: Stage) -> Iterator[None]:
    stage.topic("strict", min_insync_replicas=NODES)
    with _without_a_node(stage):
        yield


@contextmanager
def _without_a_node(stage: Stage) -> Iterator[None]:
    victim = stage.controllers_follower()
    stage.begins()
    stage.cluster.kill(victim)
    yield
    stage.cluster.start(victim)


@contextmanager
def paused(stage: Stage) -> Iterator[None]:
    """A node stands still, with its connections open: its session expires."""
    stage.topic("orders", partitions=6)
    victim = stage.controllers_follower()
    stage.begins()
    stage.cluster.pause(victim)
    yield
    stage.cluster.resume(victim)


@contextmanager
def without_a_majority(stage: Stage) -> Iterator[None]:
    stage.topic("orders", partitions=6)
    with _killed_at_once(stage, [stage.controllers_follower(), stage.admin.describe_quorum().leader_id]):
        yield


@contextmanager
def without_any_node(stage: Stage) -> Iterator[None]:
    """The whole cluster is down: what is missing then, no node is there to say."""
    stage.topic("orders", partitions=6)
    with _killed_at_once(stage, list(range(NODES))):
        yield


@contextmanager
def _killed_at_once(stage: Stage, victims: list[int]) -> Iterator[None]:
    stage.begins()
    for victim in victims:
        stage.cluster.kill(victim)
    yield
    for victim in victims:
        stage.cluster.start(victim, wait=False)
    stage.cluster.wait_ready()


@contextmanager
def forgetful_voter(stage: Stage) -> Iterator[None]:
    """A voter comes back without its metadata log, while a voter that it must ask is down."""
    leader = stage.admin.describe_quorum().leader_id
    forgetful, down = (leader + 1) % NODES, (leader + 2) % NODES
    stage.begins()
    stage.cluster.kill(down)
    stage.cluster.kill(forgetful)
    shutil.rmtree(stage.log_dirs[forgetful][0] / "__cluster_metadata-0")
    stage.cluster.start(forgetful, wait=False)
    yield
    stage.cluster.start(down, wait=False)
    stage.cluster.wait_ready()


@contextmanager
def forged_epochs(stage: Stage) -> Iterator[None]:
    """A stranger asks a voter for its vote in an epoch that the quorum will not see for years."""
    target, candidate = 0, 1
    forged = quorum_pb2.VoteRequest(
        cluster_id=stage.cluster.cluster_id, candidate_epoch=1_000_000, candidate_id=candidate, voter_id=target
    )
    stage.begins()
    with grpc.insecure_channel(_address(stage, target, "CONTROLLER")) as channel:
        for _ in range(FORGERIES):
            Stub(channel, "Quorum").Vote(forged, timeout=10)
        yield


@contextmanager
def forged_shutdowns(stage: Stage) -> Iterator[None]:
    """Another process tells the controller, in a broker's name, that the broker shuts down."""
    controller, victim = stage.admin.describe_quorum().leader_id, stage.controllers_follower()
    stage.begins()
    with grpc.insecure_channel(_address(stage, controller, "CONTROLLER")) as channel:

        def heartbeat(epoch: int) -> str:
            request = controller_pb2.BrokerHeartbeatRequest(
                cluster_id=stage.cluster.cluster_id,
                broker_id=victim,
                broker_epoch=epoch,
                current_metadata_offset=epoch,
                want_shut_down=True,
            )
            try:
                Stub(channel, "Controller").BrokerHeartbeat(request, timeout=10)
            except grpc.RpcError as refusal:
                return str(refusal.details())
            return ""

        def is_seen() -> bool:
            """Asks with a stale epoch, whose refusal names the true one, and then with that."""
            found = re.search(r"registered with epoch (\d+)", heartbeat(0))
            if found is None or int(found[1]) in seen:
                return False
            heartbeat(int(found[1]))
            seen.add(int(found[1]))
            return True

        seen: set[int] = set()
        for _ in range(FORGERIES):
            must_come(is_seen, f"a new registration of broker {victim}")
        yield


def _address(stage: Stage, node: int, listener: str) -> str:
    listeners = tomllib.loads(stage.cluster.config_path(node).read_text(encoding="utf-8"))["listeners"]
    (address,) = [found.removeprefix(f"{listener}://") for found in listeners if found.startswith(f"{listener}://")]
    return str(address)


@contextmanager
def slow_follower(stage: Stage) -> Iterator[None]:
    """A follower gets ten times less than is written."""
    topic = stage.topic("orders")
    with _slowed(stage, topic):
        yield


@contextmanager
def _slowed(stage: Stage, topic: str) -> Iterator[int]:
    network = stage.network
    if network is None:
        raise ValueError("a slow follower needs Setting(proxied=True)")
    slow = stage.follower(topic)
    stage.begins()
    network.slow(slow, SLOW_BYTES_PER_S)
    with (
        Producer(stage.cluster.bootstrap, acks=1) as producer,
        again_and_again(lambda: void(producer.send(topic, value=bytes(RECORD_BYTES))), pause_s=0.1),
    ):
        yield slow
    network.hasten(slow)


@contextmanager
def spoilt_link(stage: Stage) -> Iterator[None]:
    """Bits flip on the way from a leader to a follower, in the network or in the memory of a machine."""
    network, topic = stage.network, stage.topic("orders")
    if network is None:
        raise ValueError("a spoilt link needs Setting(proxied=True)")
    follower = stage.follower(topic)
    stage.begins()
    network.spoil(follower)
    with (
        Producer(stage.cluster.bootstrap, acks=1) as producer,
        again_and_again(lambda: void(producer.send(topic, value=bytes(RECORD_BYTES))), pause_s=0.1),
    ):
        yield
    network.clean(follower)


def void(_: object) -> None:
    """Nobody waits for it."""


@contextmanager
def unclean_election(stage: Stage) -> Iterator[None]:
    """The leader dies while its only follower lags, and an operator chooses availability."""
    topic = stage.topic("orders", replicas=2, min_insync_replicas=1)
    leader = stage.leader(topic)
    with ExitStack() as lag:
        lag.enter_context(_slowed(stage, topic))
        must_come(lambda: stage.isr(topic) == {leader}, "a lagging follower out of the ISR")
        stage.cluster.kill(leader)
        must_come(lambda: stage.leader(topic) == -1, "a partition without a leader")
        stage.admin.alter_topic_config(topic, {"unclean.leader.election.enable": True})
    yield
    stage.cluster.start(leader)


@contextmanager
def overloaded(stage: Stage) -> Iterator[None]:
    """Producers of 100-byte records, more than this machine can serve."""
    stage.topic("overload", partitions=6)
    module = ["-m", "benchmarks.broker_client_penstock", "send_many"]
    command = [sys.executable, *module, stage.cluster.bootstrap, "overload", "100000000", "100"]
    stage.begins()
    running = [
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(PRODUCERS)
    ]
    try:
        yield
    finally:
        for process in running:
            process.send_signal(signal.SIGKILL)
            process.wait()


@contextmanager
def jumped_clock(stage: Stage) -> Iterator[None]:
    """The calendar of one node is two days ahead. Only its own: clock_of_a_node/ is on the path of every node."""
    shift = stage.cluster.config_path(0).with_name("clock-shift")
    stage.begins()
    shift.write_text(str(CLOCK_SHIFT_S))
    yield
    shift.unlink()
