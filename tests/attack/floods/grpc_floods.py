"""Floods at BROKER, in HTTP/2 and gRPC: header blocks and messages without an end, streams that are reset, calls of
nobody, answers that nobody reads.

Each takes a Target, which says who floods and from where, and is a generator of steps (herd.py).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from penstock.pb import broker_pb2, features_pb2, voters_pb2
from tests.attack.floods.h2_link import (
    CONTINUATION,
    DATA,
    HEADERS,
    PING,
    RST_STREAM,
    SERVICE,
    SETTINGS,
    WINDOW_MAX,
    H2Link,
    grpc_message,
    h2_frame,
    heads,
    literal,
)
from tests.attack.floods.herd import FAILED, Herd, Link, Steps, drained, on_links
from tests.attack.floods.kafka_floods import LARGEST_BYTES, SMALL_BUFFER, TENANTS_TOPIC
from tests.attack.floods.links import Target

LINKS: Final = 4
STREAMS: Final = 4
HEAD_BYTES: Final = 5
"""Before each message of gRPC, which tell its size."""
BATCH: Final = 50
"""Calls that are sent at once."""
BLOCK: Final = b"".join(literal(b"x%d" % number, b"v" * 50) for number in range(100))
HEALTH: Final = "/grpc.health.v1.Health/Check"
REFLECTION: Final = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
METADATA, LOG_IN = f"{SERVICE}Metadata", f"{SERVICE}SaslAuthenticate"


def continuation_without_end(target: Target) -> Steps:
    """A header block that goes on for ever."""

    def make() -> Link:
        link = H2Link(target)
        link.sock.sendall(h2_frame(HEADERS, 0, 1, heads(METADATA)))
        return link

    def act(link: Any) -> None:
        link.sock.sendall(h2_frame(CONTINUATION, 0, 1, BLOCK) * 5)
        target.add("bytes", 5 * len(BLOCK))

    return on_links(target, make, act, LINKS)


def rapid_reset(target: Target) -> Steps:
    """Calls that are taken back at once."""

    def act(link: Any) -> None:
        sent = []
        for _ in range(BATCH):
            stream, head = link.begin(METADATA)
            sent += [head, h2_frame(RST_STREAM, 0, stream, struct.pack(">I", 8))]
        link.sock.sendall(b"".join(sent))
        drained(link)

    return on_links(target, lambda: H2Link(target), act, LINKS)


def _calls(target: Target, path: str, message: bytes, links: int = LINKS) -> Steps:
    def act(link: Any) -> None:
        link.sock.sendall(b"".join(link.called(path, message) for _ in range(BATCH)))
        drained(link)

    return on_links(target, lambda: H2Link(target), act, links)


def calls(target: Target) -> Steps:
    """Metadata, pipelined; answers are thrown away. Who has not logged in is refused."""
    return _calls(target, METADATA, broker_pb2.MetadataRequest(all_topics=True).SerializeToString())


def health_checks(target: Target) -> Steps:
    return _calls(target, HEALTH, b"")


def reflection(target: Target) -> Steps:
    """Questions for all services."""
    return _calls(target, REFLECTION, b"\x3a\x01*")


def calls_that_nobody_serves(target: Target) -> Steps:
    return _calls(target, "/nobody.Nothing/Never", b"")


def refused_calls_now_and_then(target: Target) -> Steps:
    """Some connections a second with 150 calls each that nobody serves: few bytes, and more refusals than there may
    be."""
    while True:
        try:
            link = H2Link(target)
            link.sock.sendall(b"".join(link.called("/nobody.Nothing/Never", b"") for _ in range(3 * BATCH)))
            target.add("done")
            yield 0.1
            link.close()
        except FAILED:
            target.add("refused")
        yield 0.2


def log_ins_by_grpc(target: Target) -> Steps:
    """The first messages of log-ins that do not go on."""
    first = broker_pb2.SaslAuthenticateRequest(mechanism="SCRAM-SHA-256", auth_bytes=b"n,,n=tenant,r=0123456789abcdef")
    return _calls(target, LOG_IN, first.SerializeToString())


def pings(target: Target) -> Steps:
    """PING and SETTINGS, each of which asks for an answer."""
    frames = (h2_frame(PING, 0, 0, bytes(8)) + h2_frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65_535))) * BATCH

    def act(link: Any) -> None:
        link.sock.sendall(frames)
        drained(link)

    return on_links(target, lambda: H2Link(target), act, LINKS)


def streams_without_end(target: Target) -> Steps:
    """1,000 open calls on each of 20 connections, whose message never comes."""

    def make() -> Link:
        link = H2Link(target)
        link.sock.sendall(b"".join(link.begin(METADATA)[1] for _ in range(1_000)))
        return link

    return Herd(target, 20, make).kept()


def messages_without_end(target: Target) -> Steps:
    """Calls with a message of 100 MiB, which comes as fast as it is taken, and never ends."""
    block = bytes(16 << 10)
    path = METADATA if target.user or not target.ca else LOG_IN  # the only call of a stranger that is read

    def make() -> Link:
        link = H2Link(target)
        link.begin_message(path, LARGEST_BYTES)
        return link

    def act(link: Any) -> None:
        for _ in range(4):
            target.add("bytes", link.more(link.stream - 2, block))

    return on_links(target, make, act, 20)


def huge_arrays_by_grpc(target: Target) -> Steps:
    """Requests of 400 kB with 200,000 empty names each, on 4 connections, which wait for no answer."""
    message = b"\x0a\x00" * 200_000
    return on_links(target, lambda: H2Link(target), lambda link: link.call_unread(METADATA, message), LINKS)


def large_calls_by_grpc(target: Target) -> Steps:
    """Topics with 20,000 assignments each, which nobody may make: 100 kB, and 50 ms to decode. On 20 connections, which
    read their refusals."""
    topic = broker_pb2.NewTopic(name="t", assignment=[broker_pb2.ReplicaAssignment(replicas=[1])] * 20_000)
    message = broker_pb2.CreateTopicsRequest(topics=[topic]).SerializeToString()
    path = f"{SERVICE}CreateTopics"
    return on_links(target, lambda: H2Link(target), lambda link: link.call_unread(path, message), 20)


def middling_calls_by_grpc(target: Target) -> Steps:
    """The same in messages of 19,900 bytes, which no node takes for large ones: 3,900 assignments each."""
    topic = broker_pb2.NewTopic(name="t", assignment=[broker_pb2.ReplicaAssignment(replicas=[1])] * 3_900)
    message = broker_pb2.CreateTopicsRequest(topics=[topic]).SerializeToString()
    path = f"{SERVICE}CreateTopics"
    return on_links(target, lambda: H2Link(target), lambda link: link.call_unread(path, message), 20)


def changes_of_the_quorum_by_grpc(target: Target) -> Steps:
    """Feature levels that shall rise and voters that shall come, one of each in turn, pipelined on 4 connections, by
    somebody who may do neither."""
    update = features_pb2.FeatureUpdate(name="metadata.version", level=2)
    updates = features_pb2.UpdateFeaturesRequest(updates=[update] * 100, timeout_ms=1_000).SerializeToString()
    added = voters_pb2.AddVoterRequest(voter_id=9, directory_id="A" * 22, timeout_ms=1_000).SerializeToString()

    asked = (f"{SERVICE}UpdateFeatures", updates), (f"{SERVICE}AddVoter", added)

    def act(link: Any) -> None:
        link.sock.sendall(b"".join(link.called(path, message) for path, message in asked * (BATCH // 2)))
        drained(link)

    return on_links(target, lambda: H2Link(target), act, LINKS)


def unread_metadata_by_grpc(target: Target) -> Steps:
    """Answers about 1,000 names that are not there, 10 on each of 30 connections."""
    names = [f"{number:08d}" + "n" * 240 for number in range(1_000)]
    message = broker_pb2.MetadataRequest(topics=names).SerializeToString()

    def make() -> Link:
        link = H2Link(target, SMALL_BUFFER)
        for _ in range(10):
            link.call_unread(METADATA, message)
        return link

    return Herd(target, 30, make, is_replaced=False).kept()


def unread_produces_by_grpc(target: Target) -> Steps:
    """Produce streams whose answers nobody reads, 4 on each of 30 connections: requests without end, each of 500 topics
    in 3,800 bytes, whose answer has some 100 kB. A stream has 16 of them under way."""
    parts = [broker_pb2.PartitionRecords(topic=f"{number % 100:02d}", partition=number // 100) for number in range(500)]
    request = broker_pb2.ProduceRequest(acks=1, timeout_ms=1_000, partitions=parts)
    message = grpc_message(request.SerializeToString())
    sent: dict[tuple[Link, int], int] = {}

    def make() -> Link:
        link = H2Link(target, SMALL_BUFFER)
        for _ in range(STREAMS):
            stream = link.begin_message(f"{SERVICE}Produce", len(message) - HEAD_BYTES)
            sent[link, stream] = HEAD_BYTES
        return link

    def send(link: Any) -> None:
        for (other, stream), at in list(sent.items()):
            if other is link:
                sent[link, stream] += (size := link.more(stream, message[at % len(message) :]))
                target.add("sent", size)

    return Herd(target, 30, make, is_replaced=False).kept(send, 0.0)


def unread_fetches_by_grpc(target: Target) -> Steps:
    """Fetch streams, each with two answers of as many bytes as there may be, 4 on each of 40 connections."""
    asked = broker_pb2.MetadataRequest(topics=[TENANTS_TOPIC]).SerializeToString()
    topics = broker_pb2.MetadataResponse.FromString(H2Link(target).ask(METADATA, asked)).topics
    part = broker_pb2.FetchPartition(
        topic=TENANTS_TOPIC,
        partition=0,
        topic_id=topics[0].topic_id,
        fetch_offset=0,
        current_leader_epoch=-1,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        max_bytes=50 << 20,
    )
    request = broker_pb2.FetchRequest(
        replica_id=-1, broker_epoch=-1, max_wait_ms=500, min_bytes=1, max_bytes=50 << 20, partitions=[part]
    )
    messages = grpc_message(request.SerializeToString()) * 2

    def make() -> Link:
        link = H2Link(target, SMALL_BUFFER, WINDOW_MAX)
        for _ in range(4):
            stream, head = link.begin(f"{SERVICE}Fetch")
            link.sock.sendall(head + h2_frame(DATA, 0, stream, messages))
        return link

    yield from Herd(target, 40, make, is_replaced=False).kept()


GRPC_FLOODS: Final[dict[str, Callable[[Target], Steps]]] = {
    flood.__name__.replace("_", "-"): flood
    for flood in (
        continuation_without_end,
        rapid_reset,
        calls,
        health_checks,
        reflection,
        calls_that_nobody_serves,
        refused_calls_now_and_then,
        log_ins_by_grpc,
        pings,
        streams_without_end,
        messages_without_end,
        huge_arrays_by_grpc,
        large_calls_by_grpc,
        middling_calls_by_grpc,
        changes_of_the_quorum_by_grpc,
        unread_metadata_by_grpc,
        unread_produces_by_grpc,
        unread_fetches_by_grpc,
    )
}
