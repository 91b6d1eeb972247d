"""Promises of a broker's standing with the controller."""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Callable, Set
from dataclasses import replace
from itertools import pairwise
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.node.process.log_output import LogOutput
from broker.node.registration.broker_lifecycle import BrokerLifecycle
from broker.node.registration.replica_losses import ReplicaLosses
from broker.quorum.controller_channel import ControllerChannel
from broker.quorum.lead_lease import LeadLease
from broker.quorum.metadata_loader import MetadataLoader
from metadata.image import MetadataImage
from penstock.errors import ApiError, DuplicateBrokerRegistrationError, InvalidRegistrationError, RequestTimedOutError
from penstock.messages.nodes.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    HostedReplicas,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
from penstock.messages.topics import NewTopic, ReplicaAssignment
from tests.support.machine import IDS
from tests.support.virtual_time import run_virtual, virtual_clock
from tests.unit.metadata.harness import CLUSTER_ID, SESSION_TIMEOUT_MS, Cluster


class FakeController:
    """Answers registrations with epochs from 7 on, and every heartbeat with yes; the first call that is due with the
    error, if any."""

    def __init__(self, enough: int, error: ApiError | None = None) -> None:
        self.calls: list[str] = []
        self.timeouts_ms: set[int] = set()
        self.asked: list[RegisterBrokerRequest] = []
        self.registrations: list[RegisterBrokerRequest] = []
        self.cordoned: tuple[str, ...] = ()
        self.enough = asyncio.Event()
        self._enough = enough
        self._error = error

    async def call(self, request: Any, timeout_ms: int = 0) -> Any:
        await asyncio.sleep(0)
        self.timeouts_ms.add(timeout_ms)
        self.calls.append(type(request).__name__.removesuffix("Request"))
        if len(self.calls) == self._enough:
            self.enough.set()
        if isinstance(request, RegisterBrokerRequest):
            self.asked.append(request)
        if self.registrations and self._error is not None:
            error, self._error = self._error, None
            raise error
        if isinstance(request, RegisterBrokerRequest):
            self.registrations.append(request)
            return RegisterBrokerResponse(6 + len(self.registrations))
        assert isinstance(request, BrokerHeartbeatRequest)
        self.cordoned = request.cordoned_log_dirs
        return BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False, should_shut_down=False)


class CaughtUp:
    image = SimpleNamespace(offset=7, brokers={})

    async def wait_for_offset(self, offset: int) -> None:
        """Returns at once: the offset is reached."""


LEASE = LeadLease(6, lambda: 0, lambda: 7)
REGISTRATION = RegisterBrokerRequest("c", 1, "incarnation", "h", 9, "", 5, ())


def life(
    calls: int, *, lost_after: int, error: ApiError | None = None, request: RegisterBrokerRequest = REGISTRATION
) -> FakeController:
    """A broker's first `calls` calls; it has lost a replica after `lost_after` registrations."""

    async def main() -> FakeController:
        controller = FakeController(calls, error)
        epochs, losses = list[int](), ReplicaLosses()

        def registered(epoch: int) -> None:
            epochs.append(epoch)
            if len(epochs) == 1 and lost_after == 1:
                losses.post()

        lifecycle = BrokerLifecycle(
            request,
            cast(ControllerChannel, controller),
            cast(MetadataLoader, CaughtUp()),
            ids=IDS,
            random=Random(0),
            heartbeat_interval_ms=1,
            session_timeout_ms=6,
            lease=LEASE,
            losses=losses,
            hosted_replicas=lambda: (),
            on_registered=registered,
            on_caught_up=lambda: None,
            cordoned_log_dirs=lambda: {"b", "a"},
        )
        if lost_after == 0:
            losses.post()
        lifecycle.start()
        await controller.enough.wait()
        await lifecycle.stop()
        assert epochs == [7 + at for at in range(len(epochs))]
        controller.calls = controller.calls[:calls]
        return controller

    return run_virtual(main())


def test_a_broker_that_lost_a_replica_registers_once_as_its_own_successor() -> None:
    controller = life(4, lost_after=1)
    assert controller.calls == ["RegisterBroker", "RegisterBroker", "BrokerHeartbeat", "BrokerHeartbeat"]
    first, second = controller.registrations
    assert first.incarnation_id == "incarnation" != second.incarnation_id
    assert (first.previous_broker_epoch, second.previous_broker_epoch) == (5, 7)


def test_a_heartbeat_tells_which_log_dirs_are_cordoned() -> None:
    assert life(2, lost_after=0).cordoned == ("a", "b")


def test_a_replica_that_was_lost_before_the_registration_needs_no_other() -> None:
    assert life(4, lost_after=0).calls == ["RegisterBroker", "BrokerHeartbeat", "BrokerHeartbeat", "BrokerHeartbeat"]


def test_only_the_first_registration_gives_log_dirs_up_and_names_the_replicas_in_them() -> None:
    in_lost = (HostedReplicas("id", (3,), "lost"),)
    request = RegisterBrokerRequest("c", 1, "i", "h", 9, "", 5, (), lost_log_dirs=("lost",), replicas=in_lost)
    first, second = life(4, lost_after=1, request=request).registrations
    assert (first.lost_log_dirs, first.replicas) == (("lost",), in_lost)
    assert (second.lost_log_dirs, second.replicas) == ((), ())


def test_a_registration_without_an_answer_is_asked_for_again_as_the_same() -> None:
    controller = life(4, lost_after=1, error=RequestTimedOutError("x"))
    assert controller.calls == ["RegisterBroker", "RegisterBroker", "RegisterBroker", "BrokerHeartbeat"]
    unanswered, answered = controller.asked[1:]
    assert unanswered.incarnation_id == answered.incarnation_id


def test_a_registration_is_asked_for_again_soon_at_first_then_less_often() -> None:
    """A broker that comes back while the session of its predecessor lasts registers so."""

    class Refusing(FakeController):
        image = SimpleNamespace(topics_by_id=())

        def __init__(self) -> None:
            super().__init__(6)
            self.asked_ms: list[int] = []

        async def call(self, request: Any, timeout_ms: int = 0) -> Any:
            self.asked_ms.append(virtual_clock().now_ms())
            await super().call(request, timeout_ms)
            raise DuplicateBrokerRegistrationError("its session lasts")

    async def main() -> list[int]:
        controller = Refusing()
        lifecycle = lifecycle_of(cast(RealController, controller))
        lifecycle.start()
        await controller.enough.wait()
        await lifecycle.stop()
        return controller.asked_ms

    waits = [later - earlier for earlier, later in pairwise(run_virtual(main()))]
    assert len(waits) == 5
    assert 40 <= waits[0] <= 51 and 80 <= waits[1] <= 101 and all(160 <= wait <= 201 for wait in waits[2:])


class RealController(ControllerChannel):
    """The controller's own decisions, committed at once; what it commits is at once in the broker's image, too."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.registrations: list[RegisterBrokerRequest] = []

    async def call(self, request: Any, _timeout_ms: int = 0) -> Any:
        await asyncio.sleep(0)
        cluster = self.cluster
        if isinstance(request, RegisterBrokerRequest):
            self.registrations.append(request)
            return cluster.commit(cluster.controller.register_broker(request, cluster.now_ms, cluster.next_offset))
        return cluster.commit(cluster.controller.heartbeat(request, cluster.now_ms))

    @property
    def image(self) -> MetadataImage:
        return self.cluster.image

    async def wait_for_offset(self, offset: int) -> None:
        assert self.image.offset >= offset


def lifecycle_of(
    controller: RealController,
    lost_log_dirs: tuple[str, ...] = (),
    log_dirs: tuple[str, ...] = ("d",),
    losses: ReplicaLosses | None = None,
    failed: Set[str] = frozenset(),
    lost: Set[str] = frozenset(),
) -> BrokerLifecycle:
    """Broker 1 with log dir "d", in which it has partition 0 of every topic whose id is not in `lost`."""
    return BrokerLifecycle(
        RegisterBrokerRequest(CLUSTER_ID, 1, "incarnation", "h", 9, "", -1, log_dirs, lost_log_dirs=lost_log_dirs),
        controller,
        cast(MetadataLoader, controller),
        ids=IDS,
        random=Random(0),
        heartbeat_interval_ms=1,
        session_timeout_ms=6,
        lease=LEASE,
        losses=losses or ReplicaLosses(),
        hosted_replicas=lambda: tuple(
            HostedReplicas(id_, (0,), "d") for id_ in controller.image.topics_by_id if id_ not in lost
        ),
        on_registered=lambda epoch: None,
        on_caught_up=lambda: None,
        failed_log_dirs=lambda: failed,
    )


class LosingController(RealController):
    """While a registration waits for its answer, the broker loses its replica of every topic; once. The answer may get
    lost, too."""

    def __init__(self, error: ApiError | None) -> None:
        super().__init__()
        self.losses, self.lost = ReplicaLosses(), set[str]()
        self._error = error

    async def call(self, request: Any, timeout_ms: int = 0) -> Any:
        answer = await super().call(request, timeout_ms)
        if isinstance(request, RegisterBrokerRequest) and self.image.topics_by_id and not self.lost:
            self.lost.update(self.image.topics_by_id)
            self.losses.post()
            if self._error is not None:
                raise self._error
        return answer


@pytest.mark.parametrize("error", [None, RequestTimedOutError("the answer got lost")], ids=["answered", "answer lost"])
def test_replica_that_is_lost_while_its_broker_registers_is_eligible_no_more(error: ApiError | None) -> None:
    """That registration names the replica, so the controller takes it for one that has every committed record."""

    async def main() -> LosingController:
        controller = LosingController(error)
        lifecycle = lifecycle_of(controller, losses=controller.losses, lost=controller.lost)
        lifecycle.start()
        await lifecycle.unfenced.wait()
        controller.cluster.start(2)
        by_hand = (ReplicaAssignment(0, (2, 1)),)
        controller.cluster.create_all(NewTopic("t", config={"min.insync.replicas": "2"}, assignment=by_hand))
        controller.losses.post()  # another replica
        await asyncio.sleep(1)
        await lifecycle.stop()
        return controller

    controller = run_virtual(main())
    partition = controller.cluster.partition("t")
    assert (partition.leader_id, partition.isr, partition.elr) == (2, (2,), ())
    assert not controller.losses.is_open


class OlderController(RealController):
    """It does not know of log dirs that fail."""

    async def call(self, request: Any, _timeout_ms: int = 0) -> Any:
        if isinstance(request, BrokerHeartbeatRequest):
            request = replace(request, offline_log_dirs=())
        return await super().call(request)


def log_dir_fails(controller: RealController) -> BrokerLifecycle:
    """Fails one of the two log dirs of a broker in service; returns its lifecycle a second later."""

    async def main() -> BrokerLifecycle:
        losses, failed = ReplicaLosses(), set[str]()
        lifecycle = lifecycle_of(controller, log_dirs=("d", "e"), losses=losses, failed=failed)
        lifecycle.start()
        await lifecycle.unfenced.wait()
        controller.cluster.create("t")
        failed.add("e")
        losses.log_dir_failed()
        await asyncio.sleep(1)
        await lifecycle.stop()
        return lifecycle

    return run_virtual(main())


def test_failed_log_dir_is_told_by_heartbeat_and_the_registration_stays() -> None:
    controller = RealController()
    lifecycle = log_dir_fails(controller)
    broker = controller.cluster.image.brokers[1]
    assert broker.offline_log_dirs == ("e",) and broker.is_active
    assert len(controller.registrations) == 1 and lifecycle.statistics().registrations_anew == 0


def test_failed_log_dir_of_which_an_older_controller_takes_no_note_costs_one_registration() -> None:
    controller = OlderController()
    lifecycle = log_dir_fails(controller)
    assert lifecycle.statistics().registrations_anew == 1
    anew = controller.registrations[1]
    assert (anew.log_dirs, anew.failed_log_dirs, anew.previous_broker_epoch) == (("d",), 1, 0)
    assert controller.cluster.image.brokers[1].offline_log_dirs == ("e",)


def outlives(forge: Callable[[Cluster], object], *, stops: bool = False) -> tuple[RealController, BrokerLifecycle]:
    """A broker in service, in whose name a stranger speaks to the controller; how it stands a second later."""

    async def main() -> tuple[RealController, BrokerLifecycle]:
        controller = RealController()
        lifecycle = lifecycle_of(controller)
        lifecycle.start()
        await lifecycle.unfenced.wait()
        if stops:
            await lifecycle.controlled_shutdown()
        forge(controller.cluster)
        await asyncio.sleep(1)  # of virtual time: a thousand heartbeats
        await lifecycle.stop()
        return controller, lifecycle

    return run_virtual(main())


@pytest.mark.parametrize(
    "forge",
    [
        lambda cluster: cluster.heartbeat(1, fence=True),
        lambda cluster: cluster.heartbeat(1, stop=True),
        lambda cluster: cluster.heartbeat(1, stop=True, fence=True),
        lambda cluster: cluster.heartbeat(1, offline=("d",)),
        lambda cluster: cluster.register(1, incarnation_id="incarnation", host="elsewhere", log_dirs=("d",)),
    ],
    ids=["want_fence", "want_shut_down", "both", "offline_log_dirs", "registration"],
)
def test_broker_in_whose_name_others_speak_is_in_service_again(forge: Callable[[Cluster], object]) -> None:
    controller, lifecycle = outlives(forge)
    broker = controller.cluster.image.brokers[1]
    assert (
        broker.is_active
        and broker.host == "h"
        and not broker.offline_log_dirs
        and broker.broker_epoch == lifecycle.broker_epoch
    )
    assert not lifecycle.statistics().is_fenced


def test_broker_whose_log_dirs_others_gave_up_says_what_it_has_and_leads_again() -> None:
    def forge(cluster: Cluster) -> None:
        cluster.create("t")
        epoch = cluster.image.brokers[1].broker_epoch
        cluster.register(1, previous_broker_epoch=epoch, lost_log_dirs=("d",))
        assert cluster.partition("t").log_lost
        cluster.now_ms += SESSION_TIMEOUT_MS

    controller, lifecycle = outlives(forge)
    assert controller.cluster.partition("t").leader_id == 1
    assert controller.cluster.image.brokers[1].log_dirs == ("d",) and not lifecycle.statistics().is_fenced


def test_refused_registration_ends_a_broker_at_its_start_and_no_later() -> None:
    async def start() -> None:
        controller = RealController()
        controller.cluster.register(1, log_dirs=("before",))
        controller.cluster.now_ms += SESSION_TIMEOUT_MS
        await lifecycle_of(controller).start()

    with pytest.raises(InvalidRegistrationError, match="without log dir before"):
        run_virtual(start())

    def forge(cluster: Cluster) -> None:
        epoch = cluster.image.brokers[1].broker_epoch
        cluster.register(1, previous_broker_epoch=epoch, log_dirs=("d", "invented"))
        cluster.now_ms += SESSION_TIMEOUT_MS

    _, lifecycle = outlives(forge)
    assert lifecycle.statistics().registrations_anew == 1, "it goes on asking"


def test_a_broker_that_waits_for_its_predecessors_session_says_so_once_in_the_nodes_log() -> None:
    """It asks five times a second. What the controller answers is equal to the letter, so the log leaves it out."""

    async def main() -> int:
        controller = RealController()
        controller.cluster.register(1, log_dirs=("d",))
        lifecycle = lifecycle_of(controller)
        lifecycle.start()
        await asyncio.sleep(5)
        controller.cluster.now_ms += SESSION_TIMEOUT_MS
        await lifecycle.unfenced.wait()
        await lifecycle.stop()
        return len(controller.registrations)

    stream, root = io.StringIO(), logging.getLogger()
    handlers = root.handlers[:]
    root.handlers[:] = [LogOutput(stream, 1)]
    try:
        assert run_virtual(main()) > 20
    finally:
        root.handlers[:] = handlers
    (line,) = stream.getvalue().splitlines()
    assert "broker 1 is registered by another process" in line


def test_broker_that_others_told_to_stop_says_so_and_counts_it(caplog: pytest.LogCaptureFixture) -> None:
    controller, lifecycle = outlives(lambda cluster: cluster.heartbeat(1, stop=True, fence=True))
    assert lifecycle.statistics().registrations_anew == 1
    assert len({request.incarnation_id for request in controller.registrations}) == 2
    assert [record.message for record in caplog.records if "nobody asked this process to stop" in record.message]


def test_broker_that_gives_up_a_log_dir_that_nobody_knows_says_so_with_those_it_has(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        controller = RealController()
        controller.cluster.register(1, log_dirs=("d",))
        controller.cluster.now_ms += SESSION_TIMEOUT_MS
        lifecycle = lifecycle_of(controller, lost_log_dirs=("typo",))
        lifecycle.start()
        await lifecycle.unfenced.wait()
        await lifecycle.stop()

    run_virtual(main())
    (said,) = [message for message in caplog.messages if "--lost-log-dirs" in message]
    assert "--lost-log-dirs typo" in said and "it is registered with d." in said


def test_broker_that_stops_of_its_own_will_does_not_register_anew() -> None:
    controller, lifecycle = outlives(lambda cluster: None, stops=True)
    assert lifecycle.statistics().registrations_anew == 0
    assert controller.cluster.image.brokers[1].in_controlled_shutdown


def test_a_heartbeat_that_gets_lost_leaves_time_for_another_in_the_same_session() -> None:
    assert life(4, lost_after=-1).timeouts_ms == {0, 3}, "of a session of 6 ms"


class Changing(FakeController):
    """Answers heartbeats in turn: fenced, in service, or with an error."""

    def __init__(self, answers: list[bool | ApiError]) -> None:
        super().__init__(len(answers) + 2)
        self._answers = answers

    async def call(self, request: Any, timeout_ms: int = 0) -> Any:
        answer = await super().call(request, timeout_ms)
        if not isinstance(answer, BrokerHeartbeatResponse):
            return answer
        due = self._answers[min(len(self.calls) - 2, len(self._answers) - 1)]
        if isinstance(due, ApiError):
            raise due
        return replace(answer, is_fenced=due)


def fenced_changes(answers: list[bool | ApiError]) -> list[bool]:
    """The changes that are told, with a heartbeat every millisecond and a session of six."""

    async def main() -> list[bool]:
        controller, reported = Changing(answers), list[bool]()
        lifecycle = BrokerLifecycle(
            RegisterBrokerRequest("c", 1, "incarnation", "h", 9, "", 5, ()),
            cast(ControllerChannel, controller),
            cast(MetadataLoader, CaughtUp()),
            ids=IDS,
            random=Random(0),
            heartbeat_interval_ms=1,
            session_timeout_ms=6,
            lease=LEASE,
            losses=ReplicaLosses(),
            hosted_replicas=lambda: (),
            on_registered=lambda epoch: None,
            on_caught_up=lambda: None,
            on_fenced_changed=reported.append,
        )
        lifecycle.start()
        await controller.enough.wait()
        await lifecycle.stop()
        return reported

    return run_virtual(main())


def test_every_change_of_the_standing_is_told_once() -> None:
    """The health service answers by it: not serving while the controller keeps the broker fenced."""
    assert fenced_changes([True, True, False, False, True, False, False]) == [True, False, True]


def test_a_broker_that_no_controller_answers_for_a_session_takes_itself_for_fenced() -> None:
    silence: list[bool | ApiError] = [RequestTimedOutError("x")] * 7
    assert fenced_changes([False, *silence[:4], False]) == [True], "a session has not passed"
    assert fenced_changes([False, *silence, False]) == [True, False, True]


def test_a_broker_that_is_in_service_again_says_so_in_a_line_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    """The node's log leaves out a line that it wrote within 30 s: the last one said that the broker may be fenced."""
    out = io.StringIO()
    handler, logger = LogOutput(out, 1), logging.getLogger("broker.node.registration.broker_lifecycle")
    logger.addHandler(handler)
    try:
        with caplog.at_level(logging.INFO):
            fenced_changes([False, *[RequestTimedOutError("x")] * 7, False, False, True, False])
    finally:
        logger.removeHandler(handler)
    logged = [line for line in out.getvalue().splitlines() if "fenced" in line]
    assert ["is unfenced, time" in line for line in logged] == [True, False, True, False, True]
