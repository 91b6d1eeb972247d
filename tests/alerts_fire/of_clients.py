"""Faults of clients: streams that never read, connections without end, and producers without end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import grpc

from penstock import Producer
from penstock.pb import broker_pb2 as pb
from tests.alerts_fire.stage import FaultError, Stage, again_and_again
from tests.support.grpc_stub import Stub

BUDGET_BYTES = 32 << 20
CONNECTIONS_MAX = 40
PRODUCERS_MAX = 10
STREAMS = 8
"""Each source has so many; a stream may have a 16th of a budget."""
RECORDS = 100
SOURCES = [f"127.0.0.{host}" for host in (2, 3)]
"""As much of a budget stays free as one address has of it: two have a third each, and some of their streams wait."""
CHUNK_BYTES = 64 * 1024


@contextmanager
def streams_that_never_read(stage: Stage) -> Iterator[None]:
    topic = stage.topic("t", replicas=1)
    stage.write(topic, RECORDS)
    wanted = pb.FetchPartition(
        topic=topic,
        topic_id=stage.admin.describe_topic(topic).topic_id,
        current_leader_epoch=-1,
        last_fetched_epoch=-1,
        max_bytes=50 << 20,
    )
    request = pb.FetchRequest(replica_id=-1, broker_epoch=-1, max_bytes=50 << 20, partitions=[wanted])
    healed = threading.Event()

    def once() -> Iterator[pb.FetchRequest]:
        yield request
        healed.wait()

    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.http2.bdp_probe", 0)]
    target = stage.cluster.endpoint(stage.leader(topic))
    stage.begins()
    with ExitStack() as opened:
        streams = []
        for source in SOURCES:
            address = opened.enter_context(carried_from(source, target))
            channel = opened.enter_context(grpc.insecure_channel(address, options=options))
            streams += [Stub(channel, "Broker").Fetch(once()) for _ in range(STREAMS)]
        yield
        healed.set()
        for stream in streams:
            stream.cancel()


@contextmanager
def carried_from(source: str, target: str) -> Iterator[str]:
    """An address whose connections reach `target` as if they came from the address `source` of this machine."""
    host, _, port = target.rpartition(":")
    ended: list[socket.socket] = []

    def carry(reader: socket.socket, writer: socket.socket) -> None:
        try:
            while data := reader.recv(CHUNK_BYTES):
                writer.sendall(data)
        except OSError:
            return  # one end is closed

    def accept(listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return  # the listener is closed
            server = socket.create_connection((host, int(port)), source_address=(source, 0))
            ended.extend((client, server))
            for ways in ((client, server), (server, client)):
                threading.Thread(target=carry, args=ways, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for end in ended:
                end.close()


@contextmanager
def connections_without_end(stage: Stage) -> Iterator[None]:
    host, _, port = stage.cluster.endpoint(0).rpartition(":")
    stage.begins()
    with ExitStack() as opened:

        def connect() -> None:
            for _ in range(2 * CONNECTIONS_MAX):
                opened.enter_context(socket.create_connection((host, int(port))))

        with again_and_again(connect, pause_s=1):
            yield


@contextmanager
def producers_without_end(stage: Stage) -> Iterator[None]:
    """A program makes a producer for each record."""
    topic = stage.topic("t", replicas=1)
    stage.begins()
    for number in range(PRODUCERS_MAX + 1):
        with Producer(stage.cluster.bootstrap, delivery_timeout_ms=2_000) as producer:
            refused = producer.send(topic, value=b"v").exception(30)
        if (refused is None) == (number == PRODUCERS_MAX):
            raise FaultError(f"producer {number} of at most {PRODUCERS_MAX}: {refused}")
    yield
