"""The simulated clients of Kafka's protocol notice what they are there for, and pass what is right."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from broker.kafka.schemas.metadata import MetadataRequest, MetadataResponse
from broker.kafka.schemas.produce import ProduceRequest, ProduceResponse
from broker.kafka_codec.codec import encode, is_flexible
from broker.kafka_codec.headers import response_header
from broker.kafka_codec.structs import facts_of
from tests.simulation.cluster.drawn_plan import draw_plan
from tests.simulation.cluster.kafka.connection import Broken, Connection
from tests.simulation.cluster.kafka.fetch_session import NOT_FOUND, FetchSession, Place, Wanted
from tests.simulation.cluster.kafka.sockets import ClosedByNode, pieces
from tests.simulation.cluster.mutants.stories import directed
from tests.simulation.cluster.plan import Aim, Fault, KafkaReaderPlan, KafkaWriterPlan, Kind
from tests.simulation.cluster.world import World

FIRST = 100
"""The correlation id of the first request."""
HERE, THERE = Place("topic", "id", 0), Place("topic", "id", 1)


class FakeEnd:
    """A node that answers what the test says."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.is_closed = False
        self._coming: asyncio.Queue[bytes | Exception] = asyncio.Queue()

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    async def receive(self) -> bytes:
        got = await self._coming.get()
        if isinstance(got, Exception):
            raise got
        return got

    def says(self, what: bytes | Exception) -> None:
        self._coming.put_nowait(what)

    def half_close(self) -> None: ...

    def close(self) -> None:
        self.is_closed = True


def answer(message: Any, version: int, number: int, more: bytes = b"") -> bytes:
    """A frame."""
    flexible = is_flexible(type(message), version)
    body = response_header(facts_of(type(message)).key or 0, number, flexible)
    body += b"".join(map(bytes, encode(message, version))) + more
    return struct.pack(">i", len(body)) + body


def talk(story: Callable[[Connection, FakeEnd], Coroutine[Any, Any, None]]) -> list[str]:
    """Everything that a connection finds wrong in a story."""
    wrong: list[str] = []

    async def run() -> None:
        end = FakeEnd()
        connection = Connection(end, "me", FIRST - 1, wrong.append)  # type: ignore[arg-type]
        await story(connection, end)
        connection.close()

    asyncio.run(run())
    return wrong


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_answers_in_their_order_are_right_in_whatever_pieces_they_come() -> None:
    async def story(connection: Connection, end: FakeEnd) -> None:
        first, second = connection.send(MetadataRequest(), 12), connection.send(MetadataRequest(), 0)
        both = answer(MetadataResponse(cluster_id="A"), 12, FIRST) + answer(MetadataResponse(), 0, FIRST + 1)
        for byte in both:
            end.says(bytes((byte,)))
        assert (await first).cluster_id == "A"
        assert (await second).cluster_id is None

    assert talk(story) == []


def test_an_answer_out_of_its_order_is_noticed() -> None:
    async def story(connection: Connection, end: FakeEnd) -> None:
        first = connection.send(MetadataRequest(), 12)
        connection.send(MetadataRequest(), 12)
        end.says(answer(MetadataResponse(), 12, FIRST + 1))
        with pytest.raises(Broken):
            await first
        assert end.is_closed

    (wrong,) = talk(story)
    assert wrong.startswith("I58: me: correlation id 101, and MetadataRequest 100 is the oldest")


def test_an_answer_to_a_produce_without_acks_is_noticed() -> None:
    async def story(connection: Connection, end: FakeEnd) -> None:
        connection.send(ProduceRequest(acks=0), 9, is_answered=False)
        end.says(answer(ProduceResponse(), 9, FIRST))
        await settle()

    (wrong,) = talk(story)
    assert "no request waits for one" in wrong


def test_bytes_behind_an_answer_are_noticed() -> None:
    async def story(connection: Connection, end: FakeEnd) -> None:
        asked = connection.send(MetadataRequest(), 12)
        end.says(answer(MetadataResponse(), 12, FIRST, more=b"\0"))
        with pytest.raises(Broken):
            await asked

    (wrong,) = talk(story)
    assert wrong.endswith("has 1 bytes more")


@pytest.mark.parametrize("acks", [0, 1])
def test_a_node_may_end_a_connection_only_after_a_produce_without_acks(acks: int) -> None:
    async def story(connection: Connection, end: FakeEnd) -> None:
        connection.send(ProduceRequest(acks=acks), 9, is_answered=acks != 0)
        end.says(ClosedByNode("closed"))
        await settle()
        assert connection.is_broken

    assert len(talk(story)) == acks


@pytest.mark.parametrize("is_answered", [False, True])
def test_a_node_answers_what_is_open_before_it_ends_a_connection_that_its_client_has_ended(is_answered: bool) -> None:
    async def story(connection: Connection, end: FakeEnd) -> None:
        connection.send(MetadataRequest(), 12)
        connection.end_input()
        if is_answered:
            end.says(answer(MetadataResponse(), 12, FIRST))
        end.says(ClosedByNode("closed"))
        await settle()

    assert len(talk(story)) == (not is_answered)


@pytest.mark.parametrize("is_answered", [False, True])
def test_nothing_is_sent_behind_the_end_of_a_half(is_answered: bool) -> None:
    async def story(connection: Connection, end: FakeEnd) -> None:
        connection.end_input()
        with pytest.raises(Broken):
            await connection.send(MetadataRequest(), 12, is_answered=is_answered)
        assert not end.sent

    assert talk(story) == []


def test_pieces_are_the_data() -> None:
    draw, counts = random.Random(1), set()
    for size in range(1, 200):
        data = draw.randbytes(size)
        found = list(pieces(draw, data))
        counts.add(len(found))
        assert b"".join(found) == data and all(found)
    assert counts == {1, 2, 3, 4}


def test_a_fetch_session_names_what_has_changed() -> None:
    session, want = FetchSession(is_used=True), Wanted(0, 1)
    first = session.question({HERE: want, THERE: want}, 0, 1)
    assert (first.session_id, first.session_epoch, len(first.topics)) == (0, 0, 2)
    session.answered(7)
    second = session.question({HERE: Wanted(5, 1)}, 0, 1)
    assert (second.session_id, second.session_epoch) == (7, 1)
    assert [topic.partitions[0].fetch_offset for topic in second.topics] == [5]
    assert [topic.partitions for topic in second.forgotten_topics_data] == [[1]]
    session.answered(7)
    again = session.used_before()
    assert again is not None and again.session_epoch == 1
    session.failed()
    assert session.question({HERE: want}, 0, 1).session_id == 7
    session.failed(NOT_FOUND)
    assert session.question({HERE: want}, 0, 1).session_id == 0


def test_without_a_session_each_request_names_everything() -> None:
    session, wanted = FetchSession(is_used=False), {HERE: Wanted(0, 1)}
    for _ in range(2):
        asked = session.question(wanted, 0, 1)
        assert (asked.session_epoch, len(asked.topics)) == (-1, 1)
        session.answered(0)
    assert session.used_before() is None


def test_clients_of_kafkas_protocol_write_and_read_while_a_leader_is_killed() -> None:
    """Every acks, by names and by ids, with sessions and without."""
    (story,) = directed(Fault(1.0, Kind.KILL, 1, 0, 1.0, 0.5, Aim.LEADER), tellings=1, seconds=4.0)
    writers = (
        KafkaWriterPlan("topic-0", 0.02, 3),
        KafkaWriterPlan("topic-0", 0.05, 3, is_idempotent=False, version=13),
        KafkaWriterPlan("topic-0", 0.05, 3, acks=1, is_idempotent=False, version=3),
        KafkaWriterPlan("topic-0", 0.05, 3, acks=0, is_idempotent=False, version=7),
    )
    readers = (KafkaReaderPlan("topic-0", 0.02), KafkaReaderPlan("topic-0", 0.02, 4, has_session=False))
    world = World(replace(story, kafka_writers=writers, kafka_readers=readers))
    assert world.run().failures == []
    calls = world.clients.calls
    assert calls["kafka records acked"] > 300 and calls["kafka records read"] > 600


def test_some_plans_have_clients_of_kafkas_protocol() -> None:
    plans = [draw_plan(seed) for seed in range(200)]
    share = sum(bool(plan.kafka_writers or plan.kafka_readers) for plan in plans) / len(plans)
    assert 0.1 < share < 0.3
    assert all(plan.has_kafka for plan in plans if plan.kafka_writers or plan.kafka_readers or plan.groups)
    writers = [writer for plan in plans for writer in plan.kafka_writers]
    assert {writer.acks for writer in writers} == {-1, 0, 1}
    assert all(writer.acks == -1 for writer in writers if writer.is_idempotent)
