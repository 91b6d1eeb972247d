"""Promises of Kafka's requests about telemetry: bad pushes have typed errors, and good ones are shown."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.kafka.apis.telemetry import ACCEPTED, get_telemetry_subscriptions, push_telemetry
from broker.kafka.parts import PlanParts
from broker.kafka.plan import PAUSE
from broker.kafka.schemas.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from broker.metrics.listener_readings import telemetry_readings
from broker.network.telemetry.client_telemetry import TELEMETRY_MAX_BYTES, UNPACKED_MAX_BYTES, ClientTelemetry
from penstock.clock import ManualClock
from penstock.errors import (
    InvalidRecordError,
    InvalidRequestError,
    ResourceExhaustedError,
    TelemetryTooLargeError,
    UnknownSubscriptionIdError,
    UnsupportedCompressionTypeError,
)
from penstock.ids import RandomIds
from penstock.record.codecs import Codec, compress
from tests.support.kafka_plans import asked, read_by_client
from tests.support.otlp import CUMULATIVE, Number, push_of
from tests.unit.metadata.harness import Cluster

GOOD = push_of(
    Number("org.apache.kafka.producer.record.send.total", 7, CUMULATIVE),
    Number("org.apache.kafka.producer.node.request.latency.avg", 1.5, attributes={"node_id": 3}),
)


class Door:
    """The two plans over a cluster that asks every client for everything, once a second."""

    def __init__(self) -> None:
        self.cluster, self.clock = Cluster(1), ManualClock(1)
        values = {"metrics": "*", "interval.ms": "1000"}
        assert self.cluster.configure("all", values, "client-metrics") is None
        self.telemetry = ClientTelemetry(lambda: self.cluster.image, self.clock, RandomIds(random.Random(1)))
        self._parts = cast(PlanParts, SimpleNamespace(telemetry=self.telemetry))

    def _answer(self, plan: Any) -> Any:
        try:
            while True:
                assert next(plan) is PAUSE
        except StopIteration as end:
            return read_by_client(end.value, 0)

    def ask(self, own: str = "") -> Any:
        return self._answer(
            get_telemetry_subscriptions(self._parts, asked(0), GetTelemetrySubscriptionsRequest(client_instance_id=own))
        )

    def push(self, offer: Any, metrics: bytes = GOOD, codec: int = Codec.NONE, **fields: Any) -> int:
        body = PushTelemetryRequest(
            **{
                "client_instance_id": offer.client_instance_id,
                "subscription_id": offer.subscription_id,
                "compression_type": int(codec),
                "metrics": metrics,
                **fields,
            }
        )
        code: int = self._answer(push_telemetry(self._parts, asked(0), body)).error_code
        return code

    def shown(self) -> list[tuple[str, dict[str, str], float]]:
        return [
            (one.name, dict(one.labels), one.value)
            for one in telemetry_readings(self.telemetry)
            if one.name.startswith("penstock_client_pushed") and dict(one.labels)["client_id"]
        ]

    def refused(self, error: str) -> float:
        readings = telemetry_readings(self.telemetry)
        return sum(one.value for one in readings if one.labels == (("error", error),))


@pytest.fixture
def door() -> Door:
    return Door()


def test_a_client_is_told_what_to_push_and_how(door: Door) -> None:
    offer = door.ask()
    assert offer.error_code == 0 and len(offer.client_instance_id) == 22
    assert (offer.requested_metrics, offer.push_interval_ms) == (["*"], 1_000)
    assert offer.accepted_compression_types == [4, 3, 1, 2] and offer.telemetry_max_bytes == TELEMETRY_MAX_BYTES


@pytest.mark.parametrize("codec", [Codec.NONE, *ACCEPTED])
def test_a_push_is_shown_whatever_its_codec(door: Door, codec: Codec) -> None:
    assert door.push(door.ask(), compress(codec, GOOD), codec) == 0
    (gauge_name, gauge, latency), (sum_name, total, sent) = door.shown()
    assert (gauge_name, gauge["metric"], gauge["node"], latency) == (
        "penstock_client_pushed_value",
        "producer.node.request.latency.avg",
        "3",
        1.5,
    )
    assert (sum_name, total["metric"], sent) == ("penstock_client_pushed_sum", "producer.record.send.total", 7)
    assert total["client_id"] == "a client" and len(total["client_instance_id"]) == 22


def test_a_bad_push_has_a_typed_error_and_is_counted(door: Door) -> None:
    offer = door.ask()
    bomb = compress(Codec.ZSTD, bytes(UNPACKED_MAX_BYTES + 1))
    assert len(bomb) < 10_000
    for metrics, codec, error in (
        (b"\xff" * 20, Codec.NONE, InvalidRecordError),
        (GOOD[:-3], Codec.NONE, InvalidRecordError),
        (b"no zstd", Codec.ZSTD, InvalidRecordError),
        (bomb, Codec.ZSTD, TelemetryTooLargeError),
        (compress(Codec.GZIP, bytes(UNPACKED_MAX_BYTES + 1)), Codec.GZIP, TelemetryTooLargeError),
        (bytes(TELEMETRY_MAX_BYTES + 1), Codec.NONE, TelemetryTooLargeError),
        (GOOD, 9, UnsupportedCompressionTypeError),
    ):
        assert door.push(offer, metrics, codec) == error.code
        door.clock.advance(1_000)
    assert not door.shown() and door.refused("TELEMETRY_TOO_LARGE") == 3 and door.refused("INVALID_RECORD") == 3


def test_pushes_that_may_not_be_are_refused(door: Door) -> None:
    offer = door.ask()
    assert door.push(offer, subscription_id=offer.subscription_id + 1) == UnknownSubscriptionIdError.code
    assert door.push(offer, client_instance_id="") == InvalidRequestError.code
    offer = door.ask(offer.client_instance_id)
    assert door.push(offer) == 0
    assert door.push(offer) == ResourceExhaustedError.code
    assert door.push(offer, b"", terminating=True) == 0
    assert door.push(offer, terminating=True) == InvalidRequestError.code
    assert door.refused("THROTTLING_QUOTA_EXCEEDED") == 1


def test_a_question_that_comes_too_early_is_refused_as_a_whole(door: Door) -> None:
    offer = door.ask()
    assert door.ask(offer.client_instance_id).error_code == ResourceExhaustedError.code
