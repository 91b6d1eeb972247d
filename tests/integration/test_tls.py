"""Three nodes with TLS between them and to Kafka's clients: their CA is replaced by another while records are written,
and no write fails; a stranger gets in nowhere."""

from __future__ import annotations

import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import Producer as KafkaProducer

from penstock import Producer
from penstock.certs.authority import CA_FILE, Authority
from penstock.testing import Cluster
from penstock.testing.layout import new_layout
from tests.support.metrics_page import shown_by, wait_until_empty
from tests.support.waiting import wait_until

NODES = 3
LISTENERS = ("KAFKA", "INTERNAL", "CONTROLLER")
TLS = {
    "listener.security.protocol.map": ",".join(["BROKER:PLAINTEXT", *(f"{name}:SSL" for name in LISTENERS)]),
    "listener.name.kafka.ssl.client.auth": "required",
    "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
}


class Secured:
    """A cluster whose files are those of a CA, or of several."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        layout = new_layout(directory / "data", NODES, None)
        layout.write([{}] * NODES)  # its id is in the certificates
        self.cluster_id = layout.cluster_id
        self.truststore = directory / "ca.pem"
        files = [{"ssl.keystore.location": str(self.keystore(node))} for node in range(NODES)]
        self.issue(self.authority("first"))
        self.trust("first")
        config = {**TLS, "ssl.truststore.location": str(self.truststore)}
        self.cluster = Cluster(NODES, config, layout.directory, node_configs=files)

    def keystore(self, node: int) -> Path:
        return self.directory / f"node-{node}.pem"

    def authority(self, name: str) -> Authority:
        return Authority.create(self.directory / name, self.cluster_id)

    def issue(self, authority: Authority) -> None:
        """Every node's keystore, and the client's."""
        for node in range(NODES):
            authority.node(node, ["127.0.0.1", "localhost"]).replace(self.keystore(node))
        authority.client("anna").replace(self.directory / "anna.pem")

    def trust(self, *names: str) -> None:
        new = self.directory / "ca.new"
        new.write_bytes(b"".join((self.directory / name / CA_FILE).read_bytes() for name in names))
        new.replace(self.truststore)

    def reloads(self) -> list[int]:
        text = [shown_by(self.cluster, node) for node in range(NODES)]
        return [int(float(re.findall(r"(?m)^penstock_certificate_reloads_total (\S+)", one)[0])) for one in text]

    @contextmanager
    def taken(self) -> Iterator[None]:
        """In the end the block's changes are in force on every node and at every listener."""
        before = self.reloads()
        yield
        want = min(before) + len(LISTENERS)
        wait_until_empty(lambda: [f"node {node}" for node, count in enumerate(self.reloads()) if count < want])

    def kafka(self, **more: object) -> dict[str, Any]:
        """The options of a client of Kafka's."""
        own = str(self.directory / "anna.pem")
        return {
            "bootstrap.servers": self.cluster.kafka_bootstrap,
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.truststore),
            "ssl.certificate.location": own,
            "ssl.key.location": own,
            **more,
        }


class Writers:
    """Two threads that write until they are stopped, and what failed."""

    def __init__(self, secured: Secured) -> None:
        self.secured, self.written, self.failed = secured, {"own": 0, "kafka": 0}, list[object]()
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._own, self._kafka)]

    def _own(self) -> None:
        with Producer(self.secured.cluster.bootstrap) as producer:
            while not self._ended.wait(0.01):
                error = producer.send("orders", value=b"own").exception(60)
                self.failed += [error] if error is not None else []
                self.written["own"] += error is None

    def _kafka(self) -> None:
        producer = KafkaProducer(self.secured.kafka(**{"enable.idempotence": True}))
        on_delivery: Callable[..., None] = lambda error, _: self.failed.append(error) if error else None  # noqa: E731
        while not self._ended.wait(0.01):
            producer.produce("orders", b"kafka", on_delivery=on_delivery)
            producer.poll(0)
            self.written["kafka"] += 1
        producer.flush(60)

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    found = Secured(tmp_path)
    with found.cluster:
        found.cluster.topic("orders", partitions=3)
        yield found


def test_a_cluster_gets_another_ca_while_it_is_written_to_and_no_write_fails(secured: Secured) -> None:
    cluster = secured.cluster
    with Writers(secured) as writers:
        second = secured.authority("second")
        with secured.taken():
            secured.trust("first", "second")
        with secured.taken():
            secured.issue(second)
        with secured.taken():
            secured.trust("second")
        cluster.restart(0)  # it finds the others by their new certificates, and they find it
        cluster.wait_in_sync()
        wait_until(lambda: min(writers.written.values()) > 100)
    assert writers.failed == []
    wanted = sum(writers.written.values())
    assert read_all(secured, wanted) == wanted
    strangers_get_in_nowhere(secured)
    for name, tail in cluster.log_tails():
        assert "Traceback" not in tail, name


def read_all(secured: Secured, wanted: int) -> int:
    """By Kafka's protocol, over TLS: so many records, and what else there is."""
    consumer = KafkaConsumer(secured.kafka(**{"group.id": "readers", "auto.offset.reset": "earliest"}))
    consumer.subscribe(["orders"])
    count, is_silent = 0, False
    while count < wanted or not is_silent:
        messages = consumer.consume(1_000, 1.0)
        assert not [message.error() for message in messages if message.error()]
        count, is_silent = count + len(messages), not messages
    consumer.close()
    return count


def strangers_get_in_nowhere(secured: Secured) -> None:
    """Plain text, no certificate, and one of the CA that is no longer trusted."""
    ports = secured.cluster.ports(0)
    for listener in ("kafka", "controller", "internal"):
        address = ("127.0.0.1", getattr(ports, listener))
        with socket.create_connection(address, 60) as plain:
            plain.sendall(b"\0\0\0\x14\0\x12\0\0\0\0\0\x01\0\x08somebody")
            assert ended(plain)
        for keystore in (None, Authority.open(secured.directory / "first").client(f"old-{listener}")):
            context = ssl.create_default_context(cafile=str(secured.truststore))
            context.set_alpn_protocols(["h2"] if listener != "kafka" else [])
            if keystore is not None:
                context.load_cert_chain(keystore)
            with pytest.raises(OSError):
                say_hello(address, context)


def say_hello(address: tuple[str, int], context: ssl.SSLContext) -> None:
    """OSError if the node does not take it; a client hears of that when it reads."""
    with (
        socket.create_connection(address, 60) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as shaken,
    ):
        if not shaken.recv(1):
            raise ConnectionResetError


def ended(connection: socket.socket) -> bool:
    """The node says nothing but TLS's or HTTP/2's goodbye, and closes."""
    connection.settimeout(60)
    try:
        while connection.recv(4_096):
            continue
    except ConnectionResetError:
        return True
    return True
