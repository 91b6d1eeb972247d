"""Promises of requests that wait for partitions: who may, how many, how long, and that nobody else is held up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

from broker.apis.arrivals.arrival_waits import (
    LOOKED_AT_MAX,
    SLOW_MS,
    WAIT_MS_MAX,
    WAITING_OF_PARTY,
    ArrivalLimits,
    ArrivalStatistics,
    ArrivalWaits,
)
from broker.network.named_partitions import Named, NamedPartition, commits
from broker.network.request_channel import Caller
from broker.replication.hosting.hosted_partitions import HostedPartitions
from metadata.image import EMPTY_IMAGE, MetadataImage, TopicImage
from penstock.errors import NotControllerError
from penstock.messages.security.acls import Need, Operation, ResourceType
from penstock.types import Endpoint
from tests.support.partitions import PARTITION, TOPIC_ID, make_partition, state
from tests.support.virtual_time import run_virtual

CALLER = Caller(Endpoint("10.0.0.1", 1))
OTHER = Caller(Endpoint("10.0.0.2", 1))


class Rights:
    """One topic is allowed, or none, and one group."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def may(self, caller: Caller, operation: Operation, resource: ResourceType, name: str) -> bool:
        is_known = resource is ResourceType.GROUP and name == "g"
        return operation is Operation.READ and (is_known or name == self._topic)

    def may_any(self, caller: Caller, operation: Operation, resource: ResourceType) -> bool:
        return bool(self._topic)

    def refusal(self, *asked: object) -> None:
        raise AssertionError("a wait notes nothing")


class Stage:
    def __init__(self, permissions: Rights | None = None, limits: ArrivalLimits | None = None) -> None:
        self.image: MetadataImage = replace(EMPTY_IMAGE, offset=4)
        self.hosted = HostedPartitions(1)
        self.end_offset: int | None = 5
        self.reads = 0
        self.access: asyncio.Event | None = None
        clock: Any = asyncio.get_running_loop()
        self.waits = ArrivalWaits(
            lambda: self.image, self.hosted, lambda: 5, self.read_end, clock, permissions, limits or ArrivalLimits()
        )
        self.hosted.subscribe(self.waits.news)

    async def read_end(self, timeout_ms: int) -> int:
        self.reads += 1
        if self.access is not None:
            await self.access.wait()
        if self.end_offset is None:
            raise NotControllerError("the quorum has no leader")
        return self.end_offset

    def begin(
        self, topic: str = "t", timeout_ms: int | None = None, caller: Caller = CALLER, topic_id: str = ""
    ) -> Awaitable[None] | None:
        return self.waits.begin(caller, Named(Operation.READ, [NamedPartition(topic, topic_id, 0)], timeout_ms))

    def commit(self, *needs: Need) -> Awaitable[None] | None:
        named = Named(Operation.READ, [NamedPartition("t", "", 0)], needs_log=False, needs=needs)
        return self.waits.begin(CALLER, named)

    def ask(self, *given: Any, **named: Any) -> asyncio.Future[None]:
        begun = self.begin(*given, **named)
        assert begun is not None
        return asyncio.ensure_future(begun)

    def apply(self, offset: int, *, has_topic: bool = True) -> None:
        topic = TopicImage("t", TOPIC_ID, {0: state(leader_id=1)})
        topics = {"t": topic} if has_topic else {}
        ids = {one.topic_id: one for one in topics.values()}
        self.image = replace(EMPTY_IMAGE, offset=offset, topics_by_name=topics, topics_by_id=ids)
        self.waits.news()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_virtual(test())


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_request_for_a_topic_that_is_on_its_way_goes_on_once_its_log_is_open(tmp_path: Any) -> None:
    async def test() -> None:
        stage = Stage()
        stage.end_offset = 8
        asked = stage.ask()
        await turns()
        replica = stage.hosted.known(PARTITION)
        replica.queue(starts_empty=True)
        stage.apply(7)
        await turns()
        assert not asked.done() and stage.reads == 1, "the log is still to be made"
        replica.open(make_partition(tmp_path))
        await turns()
        assert asked.done() and stage.begin() is None

    run(test)


def test_a_topic_that_does_not_exist_is_answered_after_one_read_and_no_time() -> None:
    async def test() -> None:
        stage, began = Stage(), asyncio.get_running_loop().time()
        for number in range(1, 4):
            await stage.ask("typo")
            assert stage.reads == number
        assert asyncio.get_running_loop().time() == began

    run(test)


def test_no_request_waits_longer_than_the_bound_or_than_its_own_timeout() -> None:
    async def test() -> None:
        stage, loop = Stage(), asyncio.get_running_loop()
        stage.end_offset = 99
        began = loop.time()
        await stage.ask(timeout_ms=200)
        assert round((loop.time() - began) * 1000) == 200
        assert stage.begin(timeout_ms=0) is None
        await stage.ask(timeout_ms=60_000)
        assert round((loop.time() - began) * 1000) == 200 + WAIT_MS_MAX

    run(test)


def test_after_a_wait_in_vain_its_party_does_not_wait_for_a_while_and_others_do() -> None:
    async def test() -> None:
        stage = Stage()
        stage.end_offset = 99
        await stage.ask()
        assert stage.begin() is None
        stage.end_offset = 5
        await stage.ask(caller=OTHER)
        assert stage.reads == 2, "a party that makes thousands of logs takes nobody's waits away"
        await asyncio.sleep(SLOW_MS / 1000)
        await stage.ask()
        assert stage.reads == 3 and not stage.waits._slow_until_ms

    run(test)


def test_waits_in_vain_of_many_parties_are_remembered_up_to_a_bound() -> None:
    async def test() -> None:
        stage = Stage(limits=ArrivalLimits(slow_parties=1))
        stage.end_offset = 99
        await stage.ask()
        assert stage.begin(caller=OTHER) is None

    run(test)


def test_leaders_that_wait_for_logs_in_vain_leave_the_waits_at_coordinators_as_they_are() -> None:
    async def test() -> None:
        stage = Stage()
        stage.end_offset = 99
        await stage.ask()
        assert stage.begin() is None
        stage.end_offset = 5
        begun = stage.commit()
        assert begun is not None
        await begun

    run(test)


def test_a_broker_that_is_cut_off_from_the_quorum_answers_at_once() -> None:
    async def test() -> None:
        stage, loop = Stage(), asyncio.get_running_loop()
        stage.end_offset, began = None, loop.time()
        for _ in range(5):
            await stage.ask()
        assert stage.reads == 1 and loop.time() == began, "it is not asked again for a while"

    run(test)


def test_a_caller_without_the_right_never_waits_and_an_id_is_waited_for_only_with_a_right_to_some_topic() -> None:
    async def test() -> None:
        stage = Stage(Rights("t"))
        assert stage.begin("secret") is None
        await stage.ask("t")
        await stage.ask("", topic_id="unknown")
        assert Stage(Rights("")).begin("", topic_id="unknown") is None

    run(test)


def test_a_commit_waits_for_the_metadata_of_its_topic_and_for_no_log() -> None:
    async def test() -> None:
        stage, loop = Stage(), asyncio.get_running_loop()
        stage.end_offset, began = 8, loop.time()
        begun = stage.commit()
        assert begun is not None
        asked = asyncio.ensure_future(begun)
        await turns()
        stage.hosted.known(PARTITION).queue(starts_empty=True)
        assert not asked.done() and stage.reads == 1
        stage.apply(7)
        await turns()
        assert asked.done() and loop.time() == began, "the log is still to be made"
        assert stage.commit() is None
        produced = stage.ask()
        await turns()
        assert not produced.done(), "a leader needs it"
        await stage.waits.close()
        await produced

    run(test)


def test_a_caller_without_the_right_to_the_group_waits_for_no_topic_of_its_commit() -> None:
    async def test() -> None:
        stage = Stage(Rights("t"))
        assert stage.commit(commits("other")) is None and stage.reads == 0
        begun = stage.commit(commits("g"))
        assert begun is not None
        await begun

    run(test)


def test_a_party_has_so_many_requests_that_wait_and_the_broker_a_limit_for_all() -> None:
    async def test() -> None:
        stage = Stage(limits=ArrivalLimits(waiting=WAITING_OF_PARTY + 1))
        stage.access = asyncio.Event()
        asked = [stage.ask(f"t{number}") for number in range(WAITING_OF_PARTY)]
        await turns()
        assert stage.begin("more") is None, "answered at once"
        asked.append(stage.ask("more", caller=OTHER))
        await turns()
        assert stage.begin("more", caller=OTHER) is None
        stage.access.set()
        await asyncio.gather(*asked)
        await stage.ask("more")

    run(test)


def test_waits_waits_in_vain_and_those_that_were_refused_are_counted_each_once() -> None:
    async def test() -> None:
        stage = Stage()
        await stage.ask("typo")
        assert stage.waits.statistics() == ArrivalStatistics(waited=1, in_vain=0, many=0, slow=0)
        stage.end_offset = 99
        await stage.ask(timeout_ms=200)
        assert stage.waits.statistics() == ArrivalStatistics(waited=2, in_vain=1, many=0, slow=0)
        await stage.ask()
        assert stage.begin() is None and stage.begin(timeout_ms=0) is None, "the second would not have waited"
        assert stage.waits.statistics() == ArrivalStatistics(waited=3, in_vain=2, many=0, slow=1)

    run(test)


def test_requests_that_are_refused_a_wait_are_counted_by_the_reason() -> None:
    async def test() -> None:
        stage = Stage()
        stage.access = asyncio.Event()
        asked = [stage.ask(f"t{number}") for number in range(WAITING_OF_PARTY)]
        await turns()
        assert stage.begin("more") is None
        stage.access.set()
        await asyncio.gather(*asked)
        waited = WAITING_OF_PARTY
        assert stage.waits.statistics() == ArrivalStatistics(waited=waited, in_vain=0, many=1, slow=0)
        await stage.ask("more")
        assert stage.waits.statistics() == ArrivalStatistics(waited=waited, in_vain=0, many=2, slow=0), "no more reads"
        stage.end_offset = None
        await stage.ask("more", caller=OTHER)
        await stage.ask("more", caller=OTHER)
        assert stage.waits.statistics() == ArrivalStatistics(waited=waited + 1, in_vain=0, many=2, slow=1)

    run(test)


def test_a_connection_that_ends_gives_its_place_back() -> None:
    async def test() -> None:
        stage = Stage()
        stage.access = asyncio.Event()
        for number in range(WAITING_OF_PARTY + 1):
            asked = stage.ask(f"t{number}")
            await turns()
            asked.cancel()
            await turns()
        assert "0 of 0 parties wait" in repr(stage.waits)
        await stage.waits.close()

    run(test)


def test_nobody_waits_at_a_node_that_stops() -> None:
    async def test() -> None:
        stage, loop = Stage(), asyncio.get_running_loop()
        stage.access, began = asyncio.Event(), loop.time()
        asked = [stage.ask("t"), stage.ask("u")]
        await turns()
        await stage.waits.close()
        await asyncio.gather(*asked)
        assert stage.begin() is None and loop.time() == began

    run(test)


def test_of_a_request_with_many_partitions_so_many_are_looked_at_and_no_more() -> None:
    """A request is looked at in one turn of the event loop, also if its caller has no right to anything."""

    async def test() -> None:
        looked_at = 0

        def named() -> Iterator[NamedPartition]:
            nonlocal looked_at
            for number in range(10 * LOOKED_AT_MAX):
                looked_at += 1
                yield NamedPartition("gone", "", number)

        stage = Stage(Rights("another"))
        assert stage.waits.begin(CALLER, Named(Operation.READ, named())) is None
        assert looked_at == LOOKED_AT_MAX

    run(test)
