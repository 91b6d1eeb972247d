"""Attacks that have a shape, each a generator of its own: what random requests do not come to.

Every one is bounded in count and time and goes to the loopback only. Those that must be refused say so themselves:
an answer without an error is reported. They are coroutines over a Stage; single hostile requests are hostile.py's.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random

import grpc.aio
from google.protobuf.message import Message

from penstock.pb import broker_pb2, controller_pb2, quorum_pb2
from penstock.record.builder import build_batch
from tests.fuzz_live import connections
from tests.fuzz_live.batches import NOW_MS, announcing, bomb, wrong_batches
from tests.fuzz_live.driver import OPTIONS, Answers, Call, Driver, Ending, error_codes
from tests.fuzz_live.hostile import BULK_PARTITIONS, BULK_TOPIC, HONEST_TOPIC, TOPICS, Known, draw_batch, draw_request
from tests.fuzz_live.surface import Method, all_methods

EPOCH_MAX = (1 << 31) - 3
ELEMENTS = 500_000
STREAMS_WAITING, STREAMS_NEVER_READ, STREAMS_PRODUCE = 400, 120, 30
HOLD_S = 4.0
FETCH_BYTES = 50 << 20
CALL_TIMEOUT_S = 10.0


@dataclass(slots=True)
class Stage:
    """The tools of an attack."""

    host: str
    brokers: Sequence[int]
    others: Sequence[int]
    pids: Sequence[int]
    driver: Driver
    answers: Answers
    known: Known
    source: Random

    @property
    def ports(self) -> list[int]:
        """Every listener of every node."""
        return [*self.brokers, *self.others]

    async def close(self) -> None:
        """Leaves everything."""
        await self.driver.close()


Attack = Callable[[Stage], Awaitable[None]]
METHODS = {str(method): method for method in all_methods()}


# -- requests in every shape -------------------------------------------------------------------------------------------


async def random_calls(stage: Stage) -> None:
    """Any method, any listener, any fields, any ending, a few at a time."""
    for _ in range(6):
        await stage.driver.run([_draw_call(stage) for _ in range(8)])


async def burst(stage: Stage) -> None:
    """A hundred at once."""
    await stage.driver.run([_draw_call(stage) for _ in range(100)])


async def many_elements(stage: Stage) -> None:
    """Half a million empty elements in each repeated field of one method: about a megabyte."""
    method = stage.source.choice([m for m in METHODS.values() if _repeated_fields(m)])
    for number in _repeated_fields(method):
        data = struct.pack("B", number << 3 | 2) + b"\0"
        await stage.driver.run([Call(method, _port(stage, method), (data * ELEMENTS,))])


async def giants(stage: Stage) -> None:
    """A message of 90 MB, and headers of a megabyte."""
    metadata = METHODS["Broker.Metadata"]
    giant = broker_pb2.MetadataRequest(topics=["x" * 90_000_000]).SerializeToString()
    await stage.driver.run([Call(metadata, stage.source.choice(stage.brokers), (giant,))])
    call = stage.driver.channel(stage.brokers[0]).unary_unary(metadata.path)
    with contextlib.suppress(grpc.aio.AioRpcError):
        await call(b"", metadata=[(f"h{n}", "x" * 8_000) for n in range(125)], timeout=CALL_TIMEOUT_S)


# -- record batches ----------------------------------------------------------------------------------------------------


async def announced_records(stage: Stage) -> None:
    """Two thousand tiny batches that each announce 2³¹−1 records."""
    for count in (1, 2_000):
        await _produce(stage, announcing() * count, must_refuse=True)


async def bombs(stage: Stage) -> None:
    """Few bytes that open to very many."""
    data, is_too_much = await asyncio.to_thread(bomb, stage.source)
    await _produce(stage, data, must_refuse=is_too_much)


async def bad_batches(stage: Stage) -> None:
    """Headers with one number that is wrong, and the right checksum."""
    for data in wrong_batches(stage.source):
        await _produce(stage, data, must_refuse=False)


# -- rate and order ----------------------------------------------------------------------------------------------------


async def produce_pipelines(stage: Stage) -> None:
    """Streams of large requests whose answers nobody waits for."""
    batch = build_batch([stage.source.randbytes(1_000_000)], timestamps_ms=NOW_MS)
    requests = [_produce_request(stage, batch)] * 4
    await _hold_streams(stage, METHODS["Broker.Produce"], stage.brokers, STREAMS_PRODUCE, requests)


async def streams_never_read(stage: Stage) -> None:
    """Fetch streams that ask for 4 × 50 MiB and read nothing, over connections with small windows."""
    parts = [_fetch_part(stage, BULK_TOPIC, n, 0, FETCH_BYTES) for n in range(BULK_PARTITIONS)]
    requests = [_fetch_request(parts, max_wait_ms=0, max_bytes=FETCH_BYTES)] * 4
    await _hold_streams(stage, METHODS["Broker.Fetch"], stage.brokers, STREAMS_NEVER_READ, requests)


async def streams_waiting(stage: Stage) -> None:
    """Hundreds of fetches on one connection that wait for records which never come."""
    part = _fetch_part(stage, TOPICS[0], 0, 1 << 40, 1)
    requests = [_fetch_request([part], max_wait_ms=30_000, max_bytes=1)]
    await _hold_streams(stage, METHODS["Broker.Fetch"], stage.brokers[:1], STREAMS_WAITING, requests)


async def _hold_streams(
    stage: Stage, method: Method, ports: Sequence[int], streams: int, requests: Sequence[bytes]
) -> None:
    """Sends the requests on so many streams, one connection to each port, reads nothing, and leaves after a while."""
    options = [*OPTIONS, ("grpc.http2.lookahead_bytes", 1_024), ("grpc.http2.bdp_probe", 0)]
    channels = [grpc.aio.insecure_channel(f"{stage.host}:{port}", options=options) for port in ports]

    async def hold(number: int) -> None:
        call = channels[number % len(channels)].stream_stream(method.path)()
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError, TimeoutError):
            for request in requests:
                await asyncio.wait_for(call.write(request), HOLD_S)
        await asyncio.sleep(HOLD_S)

    try:
        await asyncio.gather(*(hold(number) for number in range(streams)))
    finally:
        for channel in channels:
            await channel.close()


# -- forgeries that are wrong in one number ----------------------------------------------------------------------------


async def forged_replica_fetch(stage: Stage) -> None:
    """A fetch of every broker's name, with a broker epoch that nobody has: it must not count as an ack."""
    for node in range(len(stage.brokers)):
        for epoch in (1 << 60, -1, 0):
            part = _fetch_part(stage, HONEST_TOPIC, 0, 1 << 20, 1_000)
            request = broker_pb2.FetchRequest()
            request.ParseFromString(_fetch_request([part], max_wait_ms=0, max_bytes=1_000))
            request.replica_id, request.broker_epoch, request.cluster_id = node, epoch, stage.known.cluster_id
            for method in ("Broker.Fetch", "Replication.Fetch"):
                await _must_refuse(stage, METHODS[method], stage.ports, request)


async def forged_heartbeat(stage: Stage) -> None:
    """A heartbeat that wants each broker fenced and ended, with an epoch that it does not have."""
    for node in range(len(stage.brokers)):
        for epoch in (1 << 60, -1, 0):
            request = controller_pb2.BrokerHeartbeatRequest(
                cluster_id=stage.known.cluster_id,
                broker_id=node,
                broker_epoch=epoch,
                current_metadata_offset=1 << 40,
                want_fence=True,
                want_shut_down=True,
            )
            await _must_refuse(stage, METHODS["Controller.BrokerHeartbeat"], stage.ports, request)


async def vote_of_the_last_epoch(stage: Stage) -> None:
    """A vote for an epoch that leaves almost none: accepted, it would end the quorum for ever."""
    for node in range(len(stage.brokers)):
        request = quorum_pb2.VoteRequest(
            cluster_id=stage.known.cluster_id,
            candidate_epoch=EPOCH_MAX,
            candidate_id=(node + 1) % len(stage.brokers),
            voter_id=node,
        )
        for port in stage.ports:
            call = Call(METHODS["Quorum.Vote"], port, (request.SerializeToString(),))
            await stage.driver.run([call])


# -- connections -------------------------------------------------------------------------------------------------------


async def silent_connections(stage: Stage) -> None:
    """Six hundred that say nothing."""
    await connections.silent(stage.host, stage.ports, 600, HOLD_S)


async def few_descriptors(stage: Stage) -> None:
    """More silent connections to one node than it has descriptors left: it must go on with those that it has."""
    node = stage.source.randrange(len(stage.pids))
    await connections.more_than_descriptors(stage.host, stage.brokers[node], stage.pids[node], HOLD_S)


async def garbage_connections(stage: Stage) -> None:
    """Bytes that are no HTTP/2, half a handshake, floods of headers and resets, one byte at a time."""
    for port in stage.source.sample(stage.ports, 3):
        await connections.garbage(stage.host, port, stage.source)


ATTACKS: dict[str, Attack] = {
    attack.__name__.replace("_", "-"): attack
    for attack in (
        random_calls,
        burst,
        many_elements,
        giants,
        announced_records,
        bombs,
        bad_batches,
        produce_pipelines,
        streams_never_read,
        streams_waiting,
        forged_replica_fetch,
        forged_heartbeat,
        vote_of_the_last_epoch,
        silent_connections,
        few_descriptors,
        garbage_connections,
    )
}


# -- parts -------------------------------------------------------------------------------------------------------------


def _draw_call(stage: Stage) -> Call:
    source = stage.source
    method = source.choice(list(METHODS.values()))
    port = _port(stage, method) if source.random() < 0.8 else source.choice(stage.ports)
    count = source.choice((0, 1, 1, 2, 5, 20)) if method.takes_stream else source.choice((1, 1, 1, 1, 0, 2))
    requests = [draw_request(source, method, stage.known) for _ in range(count)]
    if requests and source.random() < 0.1:
        requests[-1] = source.choice((source.randbytes(200), draw_batch(source), b"\xff" * 50))
    return Call(method, port, tuple(requests), source.choice(list(Ending)))


def _port(stage: Stage, method: Method) -> int:
    return stage.source.choice(stage.others if method.is_between_nodes else stage.brokers)


def _repeated_fields(method: Method) -> list[int]:
    """Numbers of the fields that take elements with a length; below 16, so that the tag is one byte."""
    fields = method.request.fields
    return [f.number for f in fields if f.is_repeated and f.number < 16 and f.type in (f.TYPE_STRING, f.TYPE_MESSAGE)]


def _produce_request(stage: Stage, data: bytes) -> bytes:
    topic = stage.source.choice([name for name in TOPICS if name in stage.known.topic_ids] or TOPICS)
    part = broker_pb2.PartitionRecords(topic=topic, partition=0, records=data)
    _set_topic_id(stage, part)
    request = broker_pb2.ProduceRequest(correlation_id=1, acks=-1, timeout_ms=2_000, partitions=[part])
    return request.SerializeToString()


async def _produce(stage: Stage, data: bytes, *, must_refuse: bool) -> None:
    request = broker_pb2.ProduceRequest.FromString(_produce_request(stage, data))
    if must_refuse:
        await _must_refuse(stage, METHODS["Broker.Produce"], stage.brokers, request)
        return
    data = request.SerializeToString()
    await stage.driver.run([Call(METHODS["Broker.Produce"], port, (data,)) for port in stage.brokers])


async def _must_refuse(stage: Stage, method: Method, ports: Sequence[int], request: Message) -> None:
    """Sends it to every port; an answer without an error is reported."""
    data = request.SerializeToString()
    for port in ports:
        call = stage.driver.channel(port).unary_stream(method.path)(data, timeout=CALL_TIMEOUT_S)
        try:
            answer = await call.read()
        except grpc.aio.AioRpcError as error:
            stage.answers.status(Call(method, port, (data,)), error)
            continue
        except (asyncio.InvalidStateError, asyncio.CancelledError):
            continue
        if answer is grpc.aio.EOF:
            continue
        stage.answers.message(Call(method, port, (data,)), answer)
        if not any(error_codes(method.parse_response(answer))):
            stage.answers.report(f"{method} accepted what it must refuse", f"port {port}: {request!s:.400}")


def _fetch_part(stage: Stage, topic: str, partition: int, offset: int, max_bytes: int) -> broker_pb2.FetchPartition:
    part = broker_pb2.FetchPartition(
        topic=topic,
        partition=partition,
        fetch_offset=offset,
        current_leader_epoch=-1,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        max_bytes=max_bytes,
    )
    _set_topic_id(stage, part)
    return part


def _fetch_request(parts: Sequence[broker_pb2.FetchPartition], max_wait_ms: int, max_bytes: int) -> bytes:
    return broker_pb2.FetchRequest(
        correlation_id=1,
        replica_id=-1,
        broker_epoch=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        partitions=parts,
    ).SerializeToString()


def _set_topic_id(stage: Stage, part: Message) -> None:
    """Where the protocol has one."""
    if "topic_id" in part.DESCRIPTOR.fields_by_name:
        part.topic_id = stage.known.topic_ids.get(part.topic, "")  # type: ignore[attr-defined]
