"""The membership rows of docs/testing.md at real nodes: an exact typed error each, and nothing is lost.

Forged messages are written to the nodes' own listeners, as a node of another cluster, or one that is out of date, would
write them. `whole` says after each of them that the cluster still has its leader, its brokers and its records.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.message_factory import GetMessageClass

from broker.grpc.errors import from_rpc_error
from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.errors import (
    ApiError,
    InconsistentClusterIdError,
    InvalidTimestampError,
    NotControllerError,
    RequestTimedOutError,
    StaleBrokerEpochError,
    TimedOutError,
    error_for,
)
from penstock.local_nodes.node_process import NodeFailedError, NodeProcess, wait_all_ready
from penstock.node import EXIT_REFUSED
from penstock.pb import (
    broker_pb2,
    controller_pb2,
    quorum_pb2,
    replication_pb2,
    voters_pb2,
)
from penstock.testing import Cluster
from penstock.testing.cluster import TEST_CONFIG
from penstock.testing.layout import Layout
from penstock.testing.ports import HOST, free_ports
from tests.support.grpc_stub import Stub
from tests.support.nodes_here import NodesHere
from tests.support.python_nursery import quick_node_command
from tests.support.waiting import wait_until

ORDERS = TopicPartition("orders", 0)
VALUES = [b"%d" % n for n in range(20)]
HOUR_MS = 3_600_000
CALL_MS, SLACK_S = 2_000, 20.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three nodes, each a voter and a broker; `orders` has a replica on each."""
    with Cluster(nodes=3) as running:
        fill(running.bootstrap, ORDERS.topic, 3)
        yield running


def fill(bootstrap: str, topic: str, replicas: int) -> None:
    with Admin(bootstrap) as admin, Producer(bootstrap, acks="all") as producer:
        admin.create_topic(topic, 1, replicas)
        for value in VALUES:
            producer.send(topic, value=value).result(60)


def topic_led_by(admin: Admin, leader_id: int, replicas: int) -> str:
    """A new topic of one partition whose leader is that broker."""
    for number in range(50):
        topic = f"led-by-{leader_id}-{number}"
        if admin.create_topic(topic, 1, replicas).partitions[0].leader_id == leader_id:
            return topic
    raise AssertionError(f"broker {leader_id} was never made leader")


def read(bootstrap: str, topic: str = ORDERS.topic, timeout_s: float = 60) -> list[bytes | None]:
    """The first values of partition 0, as many as were written at first."""
    found: list[bytes | None] = []
    deadline = time.monotonic() + timeout_s
    with Consumer(bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        while len(found) < len(VALUES) and time.monotonic() < deadline:
            found += [record.value for record in consumer.poll(200)]
    return found


def listener(cluster: Cluster, index: int, name: str) -> str:
    """host:port of one node's listener."""
    (found,) = [each for each in config_of(cluster, index)["listeners"] if each.startswith(f"{name}://")]
    return str(found).partition("://")[2]


def config_of(cluster: Cluster, index: int) -> dict[str, Any]:
    return tomllib.loads(cluster.config_path(index).read_text(encoding="utf-8"))


# -- forged messages at the nodes' listeners ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Membership:
    """The metadata that no forged message may change."""

    leader_id: int
    leader_epoch: int
    broker_epochs: dict[int, int]
    isr: tuple[int, ...]


def membership(cluster: Cluster) -> Membership:
    with Admin(cluster.bootstrap) as admin:
        quorum = admin.describe_quorum()
        (partition,) = admin.describe_topic(ORDERS.topic).partitions
    epochs = {index: broker_epoch(cluster, index) for index in range(len(cluster))}
    return Membership(quorum.leader_id, quorum.leader_epoch, epochs, tuple(sorted(partition.isr)))


def broker_epoch(cluster: Cluster, index: int) -> int:
    """As the node's log says it last."""
    lines = cluster.log_path(index).read_text(encoding="utf-8").splitlines()
    logged = [line for line in lines if f"broker {index} is unfenced, time " in line]
    return int(logged[-1].rpartition(" ")[2])


@contextmanager
def unchanged(cluster: Cluster) -> Iterator[Membership]:
    """Within the block something is forged; afterwards the cluster is as it was, and has every record."""
    before = membership(cluster)
    yield before
    assert membership(cluster) == before
    assert read(cluster.bootstrap) == VALUES


def error_of(address: str, rpc: str, request: Any) -> ApiError | None:
    """The error in the answer to one message at a node's own listener, or the one that ends the call."""
    service, name = rpc.split(".")

    async def ask() -> Any:
        async with grpc.aio.insecure_channel(address) as channel:
            call = getattr(Stub(channel, service), name)
            if service != "Replication":
                return await call(request, timeout=60)
            stream = call(timeout=60)
            await stream.write(request)
            answer = await stream.read()
            await stream.done_writing()
            return answer

    try:
        answer = asyncio.run(ask())
    except grpc.aio.AioRpcError as error:
        return from_rpc_error(error, address)
    return error_for(answer.error.code, answer.error.message) if answer.error.code else None


def forged(rpc: str, cluster_id: str, now: Membership, sender: int, receiver: int, broker_epoch: int) -> Any:
    """A message that would have an effect if it were of this cluster and of this broker epoch."""
    later = now.leader_epoch + 1
    match rpc.partition(".")[2]:
        case "Vote":
            return quorum_pb2.VoteRequest(
                cluster_id=cluster_id,
                candidate_epoch=later,
                candidate_id=sender,
                voter_id=receiver,
                last_epoch=later,
                last_epoch_end_offset=1 << 20,
            )
        case "BeginQuorumEpoch":
            return quorum_pb2.BeginQuorumEpochRequest(
                cluster_id=cluster_id, leader_id=sender, leader_epoch=later, voter_id=receiver
            )
        case "EndQuorumEpoch":
            return quorum_pb2.EndQuorumEpochRequest(
                cluster_id=cluster_id, leader_id=sender, leader_epoch=later, preferred_successors=[receiver]
            )
        case "FetchMetadata":
            return quorum_pb2.FetchMetadataRequest(
                cluster_id=cluster_id, replica_id=sender, current_leader_epoch=now.leader_epoch, last_fetched_epoch=-1
            )
        case "FetchSnapshot":
            return quorum_pb2.FetchSnapshotRequest(
                cluster_id=cluster_id, replica_id=sender, current_leader_epoch=now.leader_epoch, max_bytes=1
            )
        case "RegisterBroker":
            return controller_pb2.RegisterBrokerRequest(
                cluster_id=cluster_id,
                broker_id=sender,
                incarnation_id="forged",
                host="127.0.0.1",
                port=9192,
                previous_broker_epoch=broker_epoch,
            )
        case "BrokerHeartbeat":
            return controller_pb2.BrokerHeartbeatRequest(
                cluster_id=cluster_id, broker_id=sender, broker_epoch=broker_epoch, want_shut_down=True
            )
        case "UpdateVoter":
            return voters_pb2.UpdateVoterRequest(cluster_id=cluster_id, voter_id=sender)
        case "AlterPartition":
            return controller_pb2.AlterPartitionRequest(broker_id=sender, broker_epoch=broker_epoch)
        case "AllocateProducerIds":
            return controller_pb2.AllocateProducerIdsRequest(broker_id=sender, broker_epoch=broker_epoch)
        case _:
            return broker_pb2.FetchRequest(
                correlation_id=1, cluster_id=cluster_id, replica_id=sender, broker_epoch=broker_epoch
            )


ASKED = {
    service.name: {method.name: GetMessageClass(method.input_type) for method in service.methods}
    for file in (quorum_pb2, controller_pb2, replication_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
}
"""The messages of the services that nodes serve to nodes."""
OF_CLIENTS = ("AddVoter", "MakeQuorumDynamic", "RemoveVoter")
"""An operator's client may leave the cluster id out of these."""
OF_A_CLUSTER = sorted(
    f"{service}.{rpc}"
    for service, messages in ASKED.items()
    for rpc, message in messages.items()
    if "cluster_id" in message.DESCRIPTOR.fields_by_name and rpc not in OF_CLIENTS
)
"""The calls that carry a cluster id. AlterPartition and the like name a broker epoch instead; what is left of the
controller's calls is what a client may ask of any cluster."""


def test_every_message_that_speaks_for_a_node_is_of_a_cluster() -> None:
    assert OF_A_CLUSTER == [
        "Controller.BrokerHeartbeat",
        "Controller.RegisterBroker",
        "Controller.UpdateVoter",
        "Quorum.BeginQuorumEpoch",
        "Quorum.EndQuorumEpoch",
        "Quorum.FetchMetadata",
        "Quorum.FetchSnapshot",
        "Quorum.Vote",
        "Replication.Fetch",
    ]


def listener_of(cluster: Cluster, rpc: str, receiver: int) -> str:
    return listener(cluster, receiver, "INTERNAL" if rpc.startswith("Replication") else "CONTROLLER")


@pytest.mark.parametrize("rpc", OF_A_CLUSTER)
def test_a_message_of_another_cluster_is_refused_at_every_listener(cluster: Cluster, rpc: str) -> None:
    with unchanged(cluster) as now:
        receiver, sender = now.leader_id, (now.leader_id + 1) % 3
        for cluster_id in ("another-cluster-012345", ""):
            message = forged(rpc, cluster_id, now, sender, receiver, now.broker_epochs[sender])
            error = error_of(listener_of(cluster, rpc, receiver), rpc, message)
            assert isinstance(error, InconsistentClusterIdError), error
            assert cluster.cluster_id in str(error)


@pytest.mark.parametrize(
    "rpc",
    [
        "Controller.BrokerHeartbeat",
        "Controller.AlterPartition",
        "Controller.AllocateProducerIds",
        "Replication.Fetch",
    ],
)
def test_a_stale_broker_epoch_is_refused_at_every_listener(cluster: Cluster, rpc: str) -> None:
    with unchanged(cluster) as now:
        receiver, sender = now.leader_id, (now.leader_id + 1) % 3
        for stale in (now.broker_epochs[sender] - 1, -1):
            message = forged(rpc, cluster.cluster_id, now, sender, receiver, stale)
            error = error_of(listener_of(cluster, rpc, receiver), rpc, message)
            assert isinstance(error, StaleBrokerEpochError), error
            assert f"broker {sender}" in str(error) and str(now.broker_epochs[sender]) in str(error)


@pytest.mark.parametrize("rpc", sorted(ASKED["Controller"]))
def test_a_controller_that_is_not_active_names_the_one_that_is(cluster: Cluster, rpc: str) -> None:
    with unchanged(cluster) as now:
        receiver = (now.leader_id + 1) % 3
        error = error_of(listener(cluster, receiver, "CONTROLLER"), f"Controller.{rpc}", ASKED["Controller"][rpc]())
        assert isinstance(error, NotControllerError), error
        assert error.leader is not None
        assert (error.leader.leader_id, error.leader.leader_epoch) == (now.leader_id, now.leader_epoch)


# -- whole nodes -------------------------------------------------------------------------------------------------------


@contextmanager
def pair(directory: Path) -> Iterator[tuple[Cluster, str]]:
    """Node 0 is the only voter. Node 1 is a broker and leads the topic, which node 0 follows."""
    steady = {"broker.session.timeout.ms": 4_000, "broker.heartbeat.interval.ms": 100}
    with Cluster(nodes=2, directory=directory / "pair", config=steady) as cluster:
        with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap, acks="all") as producer:
            topic = topic_led_by(admin, 1, 2)
            for value in VALUES:
                producer.send(topic, value=value).result(60)
        yield cluster, topic


@contextmanager
def process(layout: Layout, index: int) -> Iterator[NodeProcess]:
    """A node of its own beside a cluster; killed in the end."""
    node = NodeProcess(f"stranger {index}", layout.config_path(index), layout.log_path(index), layout.cluster_id)
    node.spawn()
    try:
        yield node
    finally:
        node.kill()


def format_node(layout: Layout, index: int) -> None:
    config = str(layout.config_path(index))
    command = quick_node_command("format", "--config", config, "--cluster-id", layout.cluster_id)
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def test_a_second_process_with_a_live_node_id_waits_and_is_refused_when_it_would_take_over(tmp_path: Path) -> None:
    with pair(tmp_path) as (cluster, topic):
        voters = config_of(cluster, 1)["controller"]["quorum"]["voters"]
        second = Layout(tmp_path / "second", cluster.cluster_id, free_ports(2))
        second.directory.mkdir()
        second.write([{}, {"controller.quorum.voters": voters}])
        format_node(second, 1)
        first_epoch = broker_epoch(cluster, 1)
        with process(second, 1) as stranger:
            first = f"broker 1 is registered by another process, at {cluster.endpoint(1)}"
            wait_until(lambda: first in second.log_path(1).read_text(encoding="utf-8"))
            assert stranger.is_starting and stranger.is_running
            assert read(cluster.endpoint(1), topic) == VALUES and broker_epoch(cluster, 1) == first_epoch
            cluster.kill(1)
            assert stranger.wait_exit(60) == EXIT_REFUSED
            assert "--lost-log-dirs" in stranger.last_log_lines()[-1]
        cluster.start(1)
        assert read(cluster.bootstrap, topic) == VALUES


def test_an_old_node_id_on_a_new_disk_is_refused_until_the_old_one_is_given_up_or_back(tmp_path: Path) -> None:
    with pair(tmp_path) as (cluster, topic):
        lost = meta_property(cluster.directory(1), "directory.id")
        cluster.kill(1)
        aside = cluster.directory(1).rename(tmp_path / "dead disk")
        format_node(Layout(cluster.config_path(1).parents[1], cluster.cluster_id, ()), 1)
        with pytest.raises(NodeFailedError, match=f"without log dir {lost}.*--lost-log-dirs {lost}"):
            cluster.start(1)
        shutil.rmtree(cluster.directory(1))
        aside.rename(cluster.directory(1))
        cluster.start(1)
        assert read(cluster.bootstrap, topic) == VALUES
        cluster.wait_in_sync()

        cluster.kill(1)
        shutil.rmtree(cluster.directory(1))
        format_node(Layout(cluster.config_path(1).parents[1], cluster.cluster_id, ()), 1)
        cluster.start(1, "--lost-log-dirs", lost)
        cluster.wait_in_sync()
        assert read(cluster.bootstrap, topic) == VALUES


def meta_property(log_dir: Path, name: str) -> str:
    lines = (log_dir / "meta.properties").read_text(encoding="utf-8").splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith(f"{name}="))


def test_without_a_quorum_changes_fail_in_time_and_what_is_there_is_read(tmp_path: Path) -> None:
    with pair(tmp_path) as (cluster, topic):
        own = cluster.endpoint(1)
        cluster.kill(0)
        assert read(own, topic) == VALUES
        fenced = "no controller has answered broker 1 for"
        wait_until(lambda: fenced in cluster.log_path(1).read_text(encoding="utf-8"))
        assert read(own, topic) == VALUES, "also when the broker knows that it may be fenced"
        late = broker_pb2.CreateTopicsRequest(topics=[broker_pb2.NewTopic(name="late")], timeout_ms=CALL_MS)
        error = error_of(own, "Broker.CreateTopics", late)
        assert isinstance(error, RequestTimedOutError) and "the quorum has no leader" in str(error), error
        with Admin(own, default_api_timeout_ms=CALL_MS) as admin:
            for change in (
                lambda: admin.create_topic("late", 1, 1),
                lambda: admin.delete_topic(topic),
                lambda: admin.alter_topic_config(topic, {"retention.ms": 1}),
            ):
                began = time.monotonic()
                with pytest.raises(TimedOutError):
                    change()
                assert time.monotonic() - began < CALL_MS / 1000 + SLACK_S
        with Producer(own, acks="all", delivery_timeout_ms=CALL_MS, request_timeout_ms=CALL_MS) as producer:
            began = time.monotonic()
            with pytest.raises(TimedOutError):
                producer.send(topic, value=b"late").result(60)
            assert time.monotonic() - began < CALL_MS / 1000 + SLACK_S
        cluster.start(0)
        cluster.wait_in_sync()
        found = read(cluster.bootstrap, topic)
        assert found[: len(VALUES)] == VALUES and found[len(VALUES) :] in ([], [b"late"]), "its outcome was unknown"


def test_a_node_whose_controllers_cannot_be_reached_says_so_waits_and_goes_on(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "late", "cluster-of-these-tests", free_ports(2))
    layout.directory.mkdir()
    layout.write([TEST_CONFIG, TEST_CONFIG])
    for index in (0, 1):
        format_node(layout, index)
    missing = f"1 of these must run and reach each other: 0@{HOST}:{layout.ports[0].controller}"
    with process(layout, 1) as waiting:
        wait_until(lambda: missing in layout.log_path(1).read_text(encoding="utf-8"))
        waiting.begin_stop()
        assert waiting.wait_exit(60) == 0, "it stops in order at any time"
    with process(layout, 1) as broker, process(layout, 0) as controller:
        wait_all_ready([broker, controller], 60)
    lines = layout.log_path(1).read_text(encoding="utf-8").splitlines()
    assert 1 <= len([line for line in lines if " WARNING " in line]) <= 20


@pytest.mark.long
def test_nodes_whose_clocks_are_an_hour_apart_work_together(tmp_path: Path) -> None:
    nodes = NodesHere(tmp_path, 3, config={"log.retention.check.interval.ms": 50, "log.retention.ms": 3 * HOUR_MS})
    for clock, shift_ms in zip(nodes.clocks, (-HOUR_MS // 2, 0, HOUR_MS // 2), strict=True):
        clock.wall_shift_ms = shift_ms
    with nodes, Admin(nodes.bootstrap) as admin, Producer(nodes.bootstrap, acks="all") as producer:
        topics: list[str] = []
        for leader in range(3):
            topics.append(topic_led_by(admin, leader, 3))
            for value in VALUES:
                producer.send(topics[-1], value=value).result(60)
            assert read(nodes.bootstrap, topics[-1]) == VALUES
        assert [nodes.fatal(index) for index in range(3)] == [None] * 3
        wait_until(lambda: admin.cluster_health().status == "healthy")
        nodes.clocks[0].wall_shift_ms = -HOUR_MS - 60_000
        with pytest.raises(InvalidTimestampError, match="in the future"):
            producer.send(topics[0], value=b"refused").result(60)
        nodes.clocks[0].wall_shift_ms = 0
        assert producer.send(topics[0], value=b"taken").result(60).offset == len(VALUES)
