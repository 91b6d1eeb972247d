"""The controller on a full metadata disk: whoever waits is told which disk, and whether something was written."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any, cast

import pytest

from broker.quorum.controller_driver import NO_ROOM_ANSWER_MS, ControllerDriver
from broker.quorum.metadata_loader import MetadataLoader
from metadata.controller.controller import Controller, ControllerStatistics
from metadata.controller.result import ControllerResult, TickResponse
from metadata.controller.state import LeaderChange
from metadata.records import TopicRecord
from metadata.registrations import PartitionRegistration
from penstock.errors import KafkaStorageError, RequestTimedOutError
from penstock.messages.nodes.brokers import RegisterBrokerRequest, RegisterBrokerResponse
from penstock.messages.topics import CreateTopicsRequest, CreateTopicsResponse
from penstock.types import NO_LEADER
from raft.driver.driver import RaftDriver
from raft.driver.protocols import NoRoomError
from tests.support.virtual_time import run_virtual, virtual_clock

FULL = NoRoomError("/data/__cluster_metadata-0: cannot append: no space left on device")


class FakeQuorum:
    """Takes proposals and commits them when the test says so."""

    leader_and_epoch = (1, 1)
    next_offset = 0

    def __init__(self) -> None:
        self.no_room: NoRoomError | None = None
        self.refuses: KafkaStorageError | None = None
        self.proposed: list[asyncio.Future[int]] = []

    def sent_end_besides(self, node_id: int, incarnation_id: str) -> int:
        return {(7, "process"): 70}[node_id, incarnation_id]

    def propose(self, values: list[bytes]) -> asyncio.Future[int]:
        if self.refuses is not None:
            raise self.refuses
        self.proposed.append(asyncio.get_running_loop().create_future())
        return self.proposed[-1]


class FakeController:
    """Decides on one record for every request, unless all is done already."""

    def __init__(self) -> None:
        self.is_done = False
        self.replayed: list[int] = []
        self.expires: tuple[int, ...] = ()
        self.gives_back = 0
        self.changes: list[LeaderChange] = []
        self.counted = ControllerStatistics(brokers=3, topics=4, partitions=24, unclean_registrations=5)

    def decide(self, _request: CreateTopicsRequest, _now_ms: int) -> ControllerResult[CreateTopicsResponse]:
        return ControllerResult(() if self.is_done else (TopicRecord("t", "id"),), CreateTopicsResponse())

    def register_broker(
        self, _request: RegisterBrokerRequest, _now_ms: int, _next_offset: int, unheard_from: int
    ) -> ControllerResult[RegisterBrokerResponse]:
        return ControllerResult((), RegisterBrokerResponse(unheard_from))

    def tick(self, _now_ms: int) -> ControllerResult[TickResponse]:
        fenced, given_back = self.expires, self.gives_back
        self.expires, self.gives_back = (), 0
        is_empty = not fenced and not given_back
        return ControllerResult(() if is_empty else (TopicRecord("t", "id"),), TickResponse(fenced, given_back))

    def next_deadline_ms(self) -> None:
        return None

    def take_leader_changes(self) -> list[LeaderChange]:
        return self.changes

    def statistics(self) -> ControllerStatistics:
        return self.counted

    def is_active(self, _broker_id: int) -> bool:
        return True

    def find_broker(self, _broker_id: int) -> None: ...

    def replica_is_online(self, _broker_id: int, _partition: PartitionRegistration) -> bool:
        return True

    def check_is_readable(self, _records: object) -> None: ...

    def replay(self, _record: object, offset: int) -> None:
        self.replayed.append(offset)


class Stage:
    """An active controller driver on fakes."""

    def __init__(self, *, began_at: int = -1) -> None:
        self.quorum = FakeQuorum()
        self.controller = FakeController()
        self.fatal: list[BaseException] = []

        def make(*_: Any) -> Controller:
            return cast("Controller", self.controller)

        raft = cast("RaftDriver", self.quorum)
        self.commit_seconds: list[float] = []
        loader = MetadataLoader()
        loader.image = replace(loader.image, offset=began_at)
        self.driver = ControllerDriver(
            1,
            raft,
            loader,
            make,
            virtual_clock(),
            random.Random(1),
            self.fatal.append,
            self.commit_seconds.append,
        )
        self.driver.on_leader_change(1, 1)

    def create(self) -> asyncio.Task[Any]:
        return asyncio.ensure_future(self.driver.handle(CreateTopicsRequest()))


def test_a_request_that_finds_all_done_names_an_offset_that_covers_what_it_found() -> None:
    """A retry whose first answer was lost makes no record; its client still has to wait until brokers heard of it."""

    async def scenario() -> None:
        stage = Stage(began_at=41)
        stage.controller.is_done = True
        assert (await stage.create()).metadata_offset == 41, "an earlier controller committed it"
        stage.controller.is_done = False
        first = stage.create()
        await asyncio.sleep(0)
        stage.controller.is_done = True
        second = stage.create()
        await asyncio.sleep(0)
        assert not second.done(), "what it found is not committed yet"
        stage.quorum.proposed[0].set_result(0)
        assert [(await task).metadata_offset for task in (first, second)] == [0, 0]
        stage.driver.resign()

    run_virtual(scenario())


def test_a_registration_is_decided_with_what_was_sent_to_the_other_processes_of_the_broker() -> None:
    async def scenario() -> int:
        request = RegisterBrokerRequest("c", 7, "process", "h", 9)
        answer: RegisterBrokerResponse = await Stage().driver.handle(request)
        return answer.broker_epoch

    assert run_virtual(scenario()) == 70


def test_a_decision_that_a_full_disk_refuses_is_answered_with_the_disk_and_not_replayed() -> None:
    async def scenario() -> None:
        stage = Stage()
        stage.quorum.refuses = KafkaStorageError(f"nothing was written: {FULL}")
        with pytest.raises(KafkaStorageError, match=r"nothing was written: /data/__cluster_metadata-0"):
            await stage.create()
        assert stage.controller.replayed == [] and stage.fatal == []
        stage.driver.resign()

    run_virtual(scenario())


def test_a_decision_that_waits_for_room_is_answered_with_the_disk_and_an_unknown_outcome() -> None:
    async def scenario() -> None:
        stage = Stage()
        began_ms = virtual_clock().now_ms()
        asked = stage.create()
        await asyncio.sleep(1)
        stage.quorum.no_room = FULL
        with pytest.raises(RequestTimedOutError, match=r"outcome is unknown: /data/__cluster_metadata-0"):
            await asked
        assert NO_ROOM_ANSWER_MS <= virtual_clock().now_ms() - began_ms <= NO_ROOM_ANSWER_MS + 2_500
        assert not stage.quorum.proposed[0].done()
        stage.driver.resign()

    run_virtual(scenario())


def test_a_short_lack_of_room_is_waited_for() -> None:
    async def scenario() -> None:
        stage = Stage()
        asked = stage.create()
        stage.quorum.no_room = FULL
        await asyncio.sleep(NO_ROOM_ANSWER_MS / 1000 - 1)
        stage.quorum.no_room = None
        await asyncio.sleep(NO_ROOM_ANSWER_MS / 1000)
        stage.quorum.proposed[0].set_result(0)
        assert (await asked).metadata_offset == 0
        stage.driver.resign()

    run_virtual(scenario())


def test_elections_and_expired_sessions_are_counted_over_all_times_as_the_active_controller() -> None:
    async def scenario() -> None:
        stage = Stage()
        before = PartitionRegistration("id", 0, (1, 2, 3), (1, 2), leader_id=1, leader_epoch=5, partition_epoch=5)
        clean = replace(before, leader_id=2, leader_epoch=6)
        unclean, none = replace(before, leader_id=3), replace(before, leader_id=NO_LEADER)
        stage.controller.changes = [LeaderChange("t", before, after) for after in (clean, unclean, none)]
        stage.controller.expires = (7, 8)
        await asyncio.sleep(1)
        assert stage.driver.statistics().sessions_expired == 0, "before it is committed"
        stage.quorum.proposed[0].set_result(0)
        await asyncio.sleep(1)
        found = stage.driver.statistics()
        assert (found.sessions_expired, found.leader_elections, found.unclean_elections) == (2, 2, 1)
        assert (found.unclean_registrations, found.controller) == (5, stage.controller.counted)
        stage.driver.resign()
        stage.driver.resign()
        assert stage.driver.statistics() == replace(found, controller=None)
        stage.driver.on_leader_change(1, 2)
        assert stage.driver.statistics().unclean_registrations == 10
        stage.driver.resign()

    run_virtual(scenario())


def test_leaderships_that_go_back_are_counted_once_they_are_committed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")

    async def scenario() -> None:
        stage = Stage()
        stage.controller.gives_back = 7
        await asyncio.sleep(1)
        assert stage.driver.statistics().scheduled_elections == 0 and "preferred" not in caplog.text
        stage.quorum.proposed[0].set_result(0)
        await asyncio.sleep(1)
        assert stage.driver.statistics().scheduled_elections == 7
        assert "gave 7 partitions back to their preferred leaders" in caplog.messages
        stage.quorum.refuses = KafkaStorageError(f"nothing was written: {FULL}")
        stage.controller.gives_back = 2
        await asyncio.sleep(1)
        assert stage.driver.statistics().scheduled_elections == 7 and stage.fatal == []
        stage.driver.resign()

    run_virtual(scenario())
