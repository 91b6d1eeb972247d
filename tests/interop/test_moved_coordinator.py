"""A member of librdkafka whose coordinator moves before it has asked where to begin: it reads, under either protocol.

Its issue 5586: the partitions of an OffsetFetch that a former coordinator refuses are forgotten, unless they stand
beside the error (broker/kafka/apis/groups/offset_fetch.py, BESIDE_ERROR). A relay before the node refuses as one would.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer

from broker.kafka.apis.groups.offset_fetch import offset_fetch_failed
from broker.kafka.schemas.groups.offsets import OffsetFetchRequest
from broker.kafka_codec.codec import decode, encode, is_flexible
from broker.kafka_codec.headers import read_header_rest, read_header_start, response_header
from penstock.errors import ApiError, CoordinatorLoadInProgressError, NotCoordinatorError, StaleMemberEpochError
from penstock.testing import Cluster
from tests.interop.test_mixed_group import CLASSIC, COMMON, KIP_848, PARTITIONS, QUICK, WAIT_S
from tests.support.kafka_plans import asked

HOST = "127.0.0.1"
OFFSET_FETCH = 9
SIZE = struct.Struct(">i")


class Relay:
    """A listener before one of Kafka's: all frames pass, but for the next OffsetFetches, which it refuses."""

    def __init__(self) -> None:
        self._server = socket.create_server((HOST, 0))
        self.port: int = self._server.getsockname()[1]
        self._node: tuple[str, int] = (HOST, 0)
        self._refusals: list[ApiError] = []
        self._sockets = [self._server]

    def start(self, bootstrap: str) -> None:
        """Frames go to this node from now on."""
        self._node = (HOST, int(bootstrap.rpartition(":")[2]))
        threading.Thread(target=self._accept, daemon=True).start()

    def refuse(self, *errors: ApiError) -> None:
        """The next OffsetFetches are refused, each by one of the errors."""
        self._refusals += errors

    @property
    def has_refused(self) -> bool:
        return not self._refusals

    def close(self) -> None:
        for one in self._sockets:
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            node = socket.create_connection(self._node)
            self._sockets += (client, node)
            for one, other in ((client, node), (node, client)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, source: socket.socket, to: socket.socket) -> None:
        is_asked = to.getpeername()[1] == self._node[1]
        try:
            for frame in _frames(source):
                if is_asked and self._refusals and read_header_start(memoryview(frame)).api_key == OFFSET_FETCH:
                    source.sendall(_framed(_refused(frame, self._refusals.pop(0))))
                else:
                    to.sendall(_framed(frame))
        except OSError:
            pass
        for one in (source, to):
            one.close()


def _frames(source: socket.socket) -> Iterator[bytes]:
    with source.makefile("rb") as stream:
        while size := stream.read(SIZE.size):
            yield stream.read(*SIZE.unpack(size))


def _framed(frame: bytes) -> bytes:
    return SIZE.pack(len(frame)) + frame


def _refused(frame: bytes, error: ApiError) -> bytes:
    """The answer of a node to an OffsetFetch that it refuses."""
    view = memoryview(frame)
    start = read_header_start(view)
    version, flexible = start.api_version, is_flexible(OffsetFetchRequest, start.api_version)
    _, at = read_header_rest(view, flexible)
    body, _ = decode(OffsetFetchRequest, version, view, at)
    header = response_header(OFFSET_FETCH, start.correlation_id, flexible)
    return header + b"".join(bytes(part) for part in encode(offset_fetch_failed(asked(version), body, error), version))


@pytest.fixture(scope="module")
def relay() -> Iterator[Relay]:
    """A relay before a node that advertises it."""
    found = Relay()
    try:
        with Cluster(1, {**QUICK, "advertised.listeners": [f"KAFKA://{HOST}:{found.port}"]}) as cluster:
            found.start(cluster.kafka_bootstrap)
            topic = cluster.topic("t", partitions=PARTITIONS)
            producer = Producer({"bootstrap.servers": f"{HOST}:{found.port}", "log_level": 0})
            for partition in range(PARTITIONS):
                producer.produce(topic, b"%d" % partition, partition=partition)
            assert producer.flush(WAIT_S) == 0
            yield found
    finally:
        found.close()


@contextmanager
def member(relay: Relay, group: str, protocol: dict[str, object]) -> Iterator[Consumer]:
    address = f"{HOST}:{relay.port}"
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, **COMMON, **protocol})
    try:
        consumer.subscribe(["t"])
        yield consumer
    finally:
        consumer.close()


@pytest.mark.parametrize(
    ("protocol", "error"),
    [
        (KIP_848, NotCoordinatorError()),
        (KIP_848, CoordinatorLoadInProgressError()),
        (KIP_848, StaleMemberEpochError()),
        (CLASSIC, NotCoordinatorError()),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else type(one).__name__,
)
def test_a_member_reads_whose_first_offset_fetch_met_a_former_coordinator(
    relay: Relay, protocol: dict[str, object], error: ApiError
) -> None:
    relay.refuse(error)
    found: list[bytes | None] = []
    deadline = time.monotonic() + WAIT_S
    with member(relay, f"{error.code}-{next(iter(protocol))}", protocol) as consumer:
        while len(found) < PARTITIONS:
            assert time.monotonic() < deadline, (found, relay.has_refused)
            found += [one.value() for one in consumer.consume(PARTITIONS, 0.1) if one.error() is None]
    assert relay.has_refused
    assert sorted(filter(None, found)) == [b"%d" % partition for partition in range(PARTITIONS)]
