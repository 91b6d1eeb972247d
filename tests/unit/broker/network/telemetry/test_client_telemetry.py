"""Clients push once in their interval, by the subscription that is theirs, and a flood of one user leaves places."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from broker.network.telemetry.client_telemetry import (
    CLIENTS_MAX,
    SILENT_INTERVALS,
    ClientTelemetry,
    TelemetryClient,
    no_telemetry,
)
from broker.network.telemetry.otlp import Point
from penstock.clock import ManualClock
from penstock.errors import InvalidRequestError, ResourceExhaustedError, UnknownSubscriptionIdError
from penstock.ids import RandomIds
from tests.unit.metadata.harness import Cluster

INTERVAL_MS = 1_000
TILL = TelemetryClient(
    client_id="till-1",
    software_name="librdkafka",
    software_version="2",
    host="10.0.0.1",
    port=4711,
    party="User:a",
)


class Bench:
    def __init__(self) -> None:
        self.cluster, self.clock = Cluster(1), ManualClock(1)
        self.telemetry = ClientTelemetry(lambda: self.cluster.image, self.clock, RandomIds(random.Random(1)))
        self.subscribe(metrics="a.", **{"interval.ms": str(INTERVAL_MS)})

    def subscribe(self, **texts: str) -> None:
        assert self.cluster.configure("s", texts, "client-metrics") is None

    def pass_ms(self, ms: int) -> None:
        self.clock.advance(ms)

    def push(
        self, instance_id: str, subscription_id: int, client: TelemetryClient = TILL, *, is_last: bool = False
    ) -> None:
        instance = self.telemetry.begin_push(instance_id, client, subscription_id, is_last=is_last)
        self.telemetry.note(instance, Point("a.x", 1.0, False, False, {}))
        self.telemetry.pushed()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_client_gets_an_id_and_pushes_at_once_and_then_once_an_interval(bench: Bench) -> None:
    own, offer = bench.telemetry.subscribe("", TILL)
    assert own and offer.metrics == ("a.",)
    bench.push(own, offer.subscription_id)
    with pytest.raises(ResourceExhaustedError, match="a push is due every 1000 ms"):
        bench.push(own, offer.subscription_id)
    bench.pass_ms(INTERVAL_MS)
    bench.push(own, offer.subscription_id)
    counts = bench.telemetry.statistics()
    assert (counts.clients, counts.pushes, counts.points, counts.dropped) == (1, 2, 2, 0)
    (shown,) = bench.telemetry.shown()
    assert (shown.client_id, shown.instance_id, shown.software) == ("till-1", own, "librdkafka 2")


def test_a_client_that_asks_too_often_is_throttled_unless_its_subscription_has_changed(bench: Bench) -> None:
    own, _ = bench.telemetry.subscribe("", TILL)
    with pytest.raises(ResourceExhaustedError, match="ask again after it"):
        bench.telemetry.subscribe(own, TILL)
    bench.subscribe(metrics="b.")
    assert bench.telemetry.subscribe(own, TILL)[1].metrics == ("b.",)
    bench.pass_ms(INTERVAL_MS)
    bench.telemetry.subscribe(own, TILL)


def test_a_push_by_an_old_subscription_is_refused_and_the_client_may_ask_at_once(bench: Bench) -> None:
    own, offer = bench.telemetry.subscribe("", TILL)
    bench.subscribe(metrics="b.")
    with pytest.raises(UnknownSubscriptionIdError, match="ask for it again"):
        bench.push(own, offer.subscription_id)
    own, offer = bench.telemetry.subscribe(own, TILL)
    bench.push(own, offer.subscription_id)


def test_a_client_that_comes_from_another_broker_pushes_without_asking_again(bench: Bench) -> None:
    """Both brokers know the same subscriptions, and so the same id."""
    _, offer = bench.telemetry.subscribe("", TILL)
    bench.push("anotherBrokersIdOfItAA", offer.subscription_id)


def test_a_push_before_any_subscription_is_refused() -> None:
    with pytest.raises(UnknownSubscriptionIdError, match="nobody asks this client"):
        no_telemetry().begin_push("someIdOfAClientAAAAAAQ", TILL, 0, is_last=False)


@pytest.mark.parametrize("reserved", ["", "AAAAAAAAAAAAAAAAAAAAAQ"])
def test_an_id_that_nobody_has_cannot_push(bench: Bench, reserved: str) -> None:
    with pytest.raises(InvalidRequestError, match="needs the client instance id"):
        bench.push(reserved, 1)


def test_the_last_push_may_be_early_and_is_the_last(bench: Bench) -> None:
    own, offer = bench.telemetry.subscribe("", TILL)
    bench.push(own, offer.subscription_id)
    bench.push(own, offer.subscription_id, is_last=True)
    bench.pass_ms(INTERVAL_MS)
    with pytest.raises(InvalidRequestError, match="its last one"):
        bench.push(own, offer.subscription_id, is_last=True)


def test_metrics_that_nobody_asks_for_are_dropped(bench: Bench) -> None:
    own, offer = bench.telemetry.subscribe("", TILL)
    instance = bench.telemetry.begin_push(own, TILL, offer.subscription_id, is_last=False)
    bench.telemetry.note(instance, Point("b.x", 1.0, False, False, {}))
    assert bench.telemetry.statistics().dropped == 1 and not bench.telemetry.shown()[0].values


def test_a_flood_of_one_user_leaves_places_for_the_next(bench: Bench) -> None:
    offers = [bench.telemetry.subscribe("", TILL)[1] for _ in range(CLIENTS_MAX)]
    assert sum(bool(offer.metrics) for offer in offers) == CLIENTS_MAX // 2
    assert bench.telemetry.statistics().without_place == CLIENTS_MAX - CLIENTS_MAX // 2
    assert bench.telemetry.subscribe("", replace(TILL, party="User:b"))[1].metrics


def test_nobody_pushes_in_the_name_of_another_users_client(bench: Bench) -> None:
    own, offer = bench.telemetry.subscribe("", TILL)
    bench.push(own, offer.subscription_id)
    bench.push(own, offer.subscription_id, replace(TILL, party="User:b", client_id="other"))
    assert [shown.client_id for shown in bench.telemetry.shown()] == ["till-1", "other"]


def test_a_silent_client_is_shown_no_longer_and_its_place_is_free(bench: Bench) -> None:
    for _ in range(CLIENTS_MAX // 2):
        own, offer = bench.telemetry.subscribe("", TILL)
        bench.push(own, offer.subscription_id)
    assert not bench.telemetry.subscribe("", TILL)[1].metrics
    bench.pass_ms(SILENT_INTERVALS * INTERVAL_MS + 1)
    assert not bench.telemetry.shown() and bench.telemetry.subscribe("", TILL)[1].metrics
