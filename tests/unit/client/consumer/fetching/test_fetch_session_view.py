"""A request names only what changed; the buffer asks for more once a quarter is free."""

from __future__ import annotations

import asyncio
from typing import cast

from penstock.client.cluster.cluster import ClusterClient
from penstock.client.consumer.fetching.effects import Deliver
from penstock.client.consumer.fetching.fetch_buffer import FetchBuffer
from penstock.client.consumer.fetching.fetch_session_view import FetchSessionView
from penstock.client.consumer.fetching.fetcher import Fetcher
from penstock.client.consumer.fetching.positions import Positions
from penstock.client.options.config import consumer_config
from penstock.messages.fetch import FetchPartition
from penstock.types import TopicPartition
from tests.support.client_environment import buffer_of, nothing, stepped_threads
from tests.support.scripted_fetch import ScriptedCluster

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def part(tp: TopicPartition, offset: int) -> FetchPartition:
    return FetchPartition(tp, "id", offset, 0, -1, -1, 1_000)


def test_the_first_request_names_everything() -> None:
    delta = FetchSessionView().advance({A: part(A, 0), B: part(B, 0)})
    assert delta.changed == (part(A, 0), part(B, 0)) and delta.forgotten == ()


def test_only_what_moved_is_named_again_and_what_is_gone_is_forgotten() -> None:
    session = FetchSessionView()
    session.advance({A: part(A, 0), B: part(B, 0)})
    assert session.advance({A: part(A, 5), B: part(B, 0)}) == ((part(A, 5),), (), True)
    assert session.advance({A: part(A, 5)}) == ((), (B,), True)
    assert session.knows({A: part(A, 5)}) and len(session) == 1


def test_the_buffer_signals_room_once_a_quarter_is_free() -> None:
    signals: list[int] = []
    buffer = FetchBuffer(1_000, stepped_threads(), lambda: signals.append(buffer.used_bytes))
    for _ in range(4):
        buffer.put(Deliver(A, 1, b"x" * 250, 0, 1))
    assert buffer.is_full
    buffer.take()
    assert signals == [750] and not buffer.is_full
    buffer.take()
    assert signals == [750]


def test_a_partition_answered_with_an_error_is_named_again_though_nothing_of_it_changed() -> None:
    session = FetchSessionView()
    session.advance({A: part(A, 5), B: part(B, 0)})
    session.forget([A])
    assert not session.knows({A: part(A, 5), B: part(B, 0)})
    assert session.advance({A: part(A, 5), B: part(B, 0)}) == ((part(A, 5),), (), True)


def test_a_session_of_very_many_partitions_is_built_by_several_requests() -> None:
    session, wanted = (
        FetchSessionView(),
        {TopicPartition("t", n): part(TopicPartition("t", n), 0) for n in range(5_000)},
    )
    named = []
    while delta := session.advance(wanted).changed:
        named.append(len(delta))
        assert session.knows(wanted), "a stream that is still being told must not be restarted"
    assert named == [2_000, 2_000, 1_000] and len(session) == 5_000
    assert len(session.advance({}).forgotten) == 2_000 and len(session) == 3_000


def test_a_broker_that_is_not_told_everything_yet_is_not_to_wait_for_records() -> None:
    config, session = consumer_config({"fetch_max_wait_ms": 500}), FetchSessionView()
    cluster = cast(ClusterClient, ScriptedCluster())
    fetcher = Fetcher(cluster, Positions("earliest", cluster.backoff), buffer_of(1_000), config, nothing)
    wanted = {TopicPartition("t", n): part(TopicPartition("t", n), 0) for n in range(5_000)}

    async def asked() -> list[int]:
        waits = [fetcher.call(1, session.advance(wanted)).max_wait_ms for _ in range(4)]
        return waits + [fetcher.call(1, session.advance({})).max_wait_ms for _ in range(3)]

    assert asyncio.run(asked()) == [0, 0, 500, 500, 0, 0, 500]


def test_partitions_that_move_with_every_answer_keep_no_other_out() -> None:
    session, wanted = (
        FetchSessionView(),
        {TopicPartition("t", n): part(TopicPartition("t", n), 0) for n in range(5_000)},
    )
    named: dict[TopicPartition, int] = dict.fromkeys(wanted, 0)
    for _ in range(10):
        for changed in session.advance(wanted).changed:
            tp = changed.partition
            named[tp] += 1
            wanted[tp] = part(tp, changed.fetch_offset + 1)  # the answer brings records of each that was named
    assert set(named.values()) == {4}


def test_what_was_sent_is_named_again_also_at_the_same_offset_and_in_its_turn() -> None:
    view = FetchSessionView()
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    wanted = {first: part(first, 0), second: part(second, 0)}
    view.advance(wanted)
    view.sent([first, TopicPartition("of another session", 0)])
    assert not view.knows(wanted)
    assert view.advance(wanted).changed == (part(first, 0),)
    assert view.advance(wanted).changed == () and view.knows(wanted)
