"""Clients that know, wait for or leave behind what they may not are found: each lie here is told to a healthy
cluster."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.network.request_channel import Request
from penstock.client.cluster.metadata_cache import Leader, MetadataCache
from penstock.messages.produce import InitProducerIdRequest, InitProducerIdResponse, ProduceRequest
from penstock.types import TopicPartition
from tests.simulation.cluster.client_invariants import FOUND_SECONDS
from tests.simulation.cluster.network import CLIENTS
from tests.simulation.cluster.rpc import AioChannel
from tests.simulation.cluster.test_invariants import Lie, Scene, judged, told
from tests.support.sinks import CALLER

TP = TopicPartition("topic", 0)


def _cache(scene: Scene) -> MetadataCache:
    """The cache of a client that knows who leads; its knowledge is looked at again."""
    cache = next(cluster.cache for cluster in scene.invariants.clients.known if TP in cluster.cache.leaders)
    cache._hints += 1
    return cache


def _tell(scene: Scene, change: Callable[[Leader], Leader]) -> None:
    """A client takes another one for the leader."""
    leaders = _cache(scene)._leaders
    leaders[TP] = change(leaders[TP])


def older_metadata(scene: Scene) -> None:
    _cache(scene).metadata_offset -= 1


def an_older_leader_epoch(scene: Scene) -> None:
    _tell(scene, lambda known: known._replace(epoch=known.epoch - 1))


def another_leader(scene: Scene) -> None:
    _tell(scene, lambda known: known._replace(node_id=(known.node_id + 1) % 3))


def a_leader_epoch_of_another_topic(scene: Scene) -> None:
    _tell(scene, lambda known: known._replace(epoch=known.epoch + 7))


def a_leader_that_is_not_found(scene: Scene) -> None:
    _, since_s = scene.invariants.clients.well["topic"]
    scene.invariants.clients.answered("topic", FOUND_SECONDS + 1, since_s + FOUND_SECONDS + 1)


def _produce(scene: Scene, *, is_abandoned: bool, queued_ms: int, appends: int = 1) -> None:
    """A request is handled by an API that appends whatever comes."""
    partition: Any = SimpleNamespace(log=SimpleNamespace(log_end_offset=0))
    sink: Any = None
    request = Request("Produce", ProduceRequest(-1, 1_000, [(TP, "id", b"")]), sink, "client", lambda: 0)
    request.is_abandoned, request.dequeued_ns = is_abandoned, queued_ms * 1_000_000

    def handle(_: Request) -> None:
        partition.log.log_end_offset += appends

    hosted: Any = SimpleNamespace(find={TP: partition}.get)
    clients, machine = scene.invariants.clients, scene.lives[0].machine
    clients.handling(machine, request, hosted)
    handle(request)
    clients.handled(machine)
    assert partition.log.log_end_offset == appends, "it was handled"


def the_same_producer_id_twice(scene: Scene) -> None:
    """From two brokers."""

    def handle(request: Request) -> None:
        request.complete(InitProducerIdResponse(7, 0))

    sink: Any = SimpleNamespace(response_ready=lambda request: None)
    hosted: Any = SimpleNamespace()
    for life in scene.lives[:2]:
        request = Request("InitProducerId", InitProducerIdRequest(), sink, CALLER, lambda: 0)
        scene.invariants.clients.handling(life.machine, request, hosted)
        handle(request)


LIES: tuple[tuple[str, Lie], ...] = (
    ("I33", older_metadata),
    ("I33", an_older_leader_epoch),
    ("I33", another_leader),
    ("I33", a_leader_epoch_of_another_topic),
    ("I34", a_leader_that_is_not_found),
    ("I35", lambda scene: _produce(scene, is_abandoned=True, queued_ms=1)),
    ("I35", lambda scene: _produce(scene, is_abandoned=False, queued_ms=1_001)),
    ("I38", the_same_producer_id_twice),
)


@pytest.mark.parametrize(("name", "lie"), told(LIES))
def test_a_client_that_is_wronged_is_found(name: str, lie: Lie) -> None:
    assert [failure.partition(":")[0] for failure in judged(lie).failures] == [name]


def test_requests_that_are_wanted_are_appended_and_others_answered() -> None:
    def truth(scene: Scene) -> None:
        _produce(scene, is_abandoned=False, queued_ms=1_000)
        _produce(scene, is_abandoned=True, queued_ms=1, appends=0)

    assert not judged(truth).failures


def test_a_second_stream_of_a_producer_is_found() -> None:
    def lie(scene: Scene) -> None:
        world = scene.world
        endpoint = world.machines[0].config.listener("BROKER")
        channel = AioChannel(world.network, world.clients.process, CLIENTS, endpoint)
        for _ in range(2):
            channel.begin("/penstock.v1.Broker/Produce")

    (failure,) = judged(lie).failures
    assert failure.startswith("I36: ")
