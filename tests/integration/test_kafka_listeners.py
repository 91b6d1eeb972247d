"""Real nodes of which one has no listener for Kafka's clients, as while a cluster gets them node by node."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import TopicPartition as KafkaPartition

from broker.kafka.schemas.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.testing import Cluster
from penstock.testing.ports import free_ports
from tests.support.kafka_socket import KafkaSocket
from tests.support.metrics_page import shown
from tests.support.waiting import wait_until

NONE, LEADER_NOT_AVAILABLE, LISTENER_NOT_FOUND = 0, 5, 72


def test_a_broker_without_the_listener_is_left_out_and_its_partitions_say_so_until_it_has_one() -> None:
    port = free_ports(1)[0].kafka
    with Cluster(2, kafka_ports=[port, 0]) as cluster:
        topic = cluster.topic(partitions=2, replication_factor=1)
        with Producer(cluster.bootstrap) as producer:
            producer.send(topic, b"v").result()
        leaders = [cluster.leader(topic, number) for number in range(2)]
        assert sorted(leaders) == [0, 1] and cluster.kafka_bootstrap == f"127.0.0.1:{port}"
        for version, error in ((5, LEADER_NOT_AVAILABLE), (6, LISTENER_NOT_FOUND), (13, LISTENER_NOT_FOUND)):
            found = metadata(port, topic, version)
            assert [(broker.node_id, broker.port) for broker in found.brokers] == [(0, port)]
            partitions = {p.partition_index: (p.leader_id, p.error_code) for p in found.topics[0].partitions}
            assert partitions == {leaders.index(0): (0, NONE), leaders.index(1): (-1, error)}
        with Admin(cluster.bootstrap) as admin:
            wait_until(lambda: admin.cluster_health().status == "healthy")
            health = admin.cluster_health()
            (check,) = (check for check in health.checks if check.name == "client listeners")
            assert (health.status, check.status) == ("healthy", "warning"), "all is as it was configured"
            assert check.details[0].startswith("KAFKA is not on node 1")
            assert "speaks Kafka's protocol" in cluster.log_path(0).read_text()
            cluster.stop(1)
            config, later = cluster.config_path(1), free_ports(1)[0].kafka  # not before: others would take it meanwhile
            text = config.read_text()
            config.write_text(text.replace('"BROKER://', f'"KAFKA://127.0.0.1:{later}", "BROKER://', 1))
            cluster.start(1)
            wait_until(
                lambda: [c.status for c in admin.cluster_health().checks if c.name == "client listeners"] == ["ok"]
            )
        found = metadata(port, topic, 13)
        assert [(broker.node_id, broker.port) for broker in found.brokers] == [(0, port), (1, later)]
        assert sorted(p.leader_id for p in found.topics[0].partitions) == [0, 1]


def test_a_listener_of_any_name_has_the_type_the_address_and_the_limits_that_the_file_gives_it() -> None:
    port = free_ports(1)[0].kafka
    ports = free_ports(1)[0]
    listeners = {"BROKER": ports.broker, "INTERNAL": ports.internal, "CONTROLLER": ports.controller, "OUTSIDE": port}
    config = {
        "listeners": [f"{name}://127.0.0.1:{at}" for name, at in listeners.items()],
        "listener.type.map": "OUTSIDE:KAFKA",
        "advertised.listeners": [f"OUTSIDE://localhost:{port}"],
        "controller.quorum.voters": [f"0@127.0.0.1:{ports.controller}"],
        "listener.name.outside.max.connections": 2,
        "listener.name.outside.connections.max.idle.ms": 3_000,
    }
    with Cluster(1, config) as cluster, KafkaSocket(f"127.0.0.1:{port}") as first:
        found = first.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
        assert [(broker.host, broker.port) for broker in found.brokers] == [("localhost", port)]
        with KafkaSocket(f"127.0.0.1:{port}") as second, KafkaSocket(f"127.0.0.1:{port}") as third:
            second.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
            assert third.is_closed() and second.is_closed()
        assert 'penstock_tcp_connections_max{listener="OUTSIDE"} 2.0' in shown(cluster)
        cut = 'penstock_tcp_connections_cut_total{listener="OUTSIDE",reason="limit"} 1.0'
        assert cut in shown(cluster), "the third; the second was silent"


def test_a_reader_is_not_sent_to_a_follower_in_its_rack_that_lacks_the_readers_tls_listener() -> None:
    """KIP-392: the leader names a follower only if the reader's metadata can name its address."""
    port, rounds = free_ports(1)[0].kafka, 2_000
    racks = [{"broker.rack": rack, "replica.selector.class": "rack-aware"} for rack in "ab"]
    with (
        Cluster(2, secure=True, kafka_ports=[port, 0], node_configs=racks) as cluster,
        Admin(cluster.bootstrap, **cluster.client_options) as admin,
    ):
        admin.create_topic("orders", assignments=[[0, 1]])
        with Producer(cluster.bootstrap, acks="all", **cluster.client_options) as producer:
            producer.send_many("orders", [b"%d" % number for number in range(rounds)]).result(60)
        consumer = KafkaConsumer(
            {
                "bootstrap.servers": cluster.kafka_bootstrap,
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.username": cluster.client_options["username"],
                "sasl.password": Path(cluster.client_options["password_file"]).read_text(encoding="utf-8").strip(),
                "ssl.ca.location": cluster.client_options["tls_ca"],
                "group.id": "g",
                "client.rack": "b",
                "enable.auto.commit": False,
            }
        )
        found: list[bytes | None] = []
        try:
            consumer.assign([KafkaPartition("orders", 0, 0)])
            wait_until(
                lambda: bool(found.extend(one.value() for one in consumer.consume(500, 0.2)) or len(found) >= rounds)
            )
        finally:
            consumer.close()
        assert found == [b"%d" % number for number in range(rounds)]
        assert "penstock_readers_sent_to_followers_total 0.0" in shown(cluster)
        with Consumer(
            cluster.bootstrap, client_rack="b", auto_offset_reset="earliest", **cluster.client_options
        ) as ours:
            ours.assign([TopicPartition("orders", 0)])
            wait_until(lambda: bool(ours.poll(timeout_ms=200)))
            wait_until(lambda: not ours.poll(timeout_ms=200))
            assert ours.statistics().fetch.moves_to_followers == 1, "by gRPC it has an address"


def metadata(port: int, topic: str, version: int) -> MetadataResponse:
    """The answer of the node that listens there."""
    with KafkaSocket(f"127.0.0.1:{port}") as node:
        return node.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), version, MetadataResponse)
