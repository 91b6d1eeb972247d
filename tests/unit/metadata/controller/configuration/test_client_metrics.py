"""Subscriptions to the metrics of clients are a configuration by a name, checked by Kafka's rules."""

from __future__ import annotations

import pytest

from metadata.client_metrics import SUBSCRIPTIONS_MAX, subscription_of
from metadata.image import image_records
from metadata.records import ConfigRecord
from penstock.errors import InvalidConfigError, InvalidRequestError, PolicyViolationError
from penstock.messages.configs import ConfigChange, ConfigOperation
from tests.unit.metadata.harness import Cluster, is_error

GOOD = {"metrics": "a.,b.", "interval.ms": "60000", "match": "client_id=till-[0-9]+,client_software_name=librdkafka"}


def alter(cluster: Cluster, name: str, **texts: str | None) -> Exception | None:
    return cluster.configure(name, {key.replace("_", "."): text for key, text in texts.items()}, "client-metrics")


def test_a_subscription_is_kept_and_typed_and_its_keys_are_deleted() -> None:
    cluster = Cluster(1)
    assert cluster.configure("tills", GOOD, "client-metrics") is None
    cluster.fail_over()
    records = [record for record in image_records(cluster.image) if isinstance(record, ConfigRecord)]
    assert {record.key: record.value for record in records} == GOOD
    found = subscription_of(GOOD)
    assert (found.metrics, found.interval_ms) == (("a.", "b."), 60_000)
    assert found.is_for({"client_id": "till-7", "client_software_name": "librdkafka"})
    assert not found.is_for({"client_id": "till-7x", "client_software_name": "librdkafka"})
    assert not found.is_for({"client_id": "till-7"})
    assert alter(cluster, "tills", metrics=None, interval_ms=None, match=None) is None
    assert not cluster.image.configs


def test_a_list_gets_items_and_loses_them() -> None:
    cluster = Cluster(1)
    assert alter(cluster, "s", metrics="a.") is None
    change = ConfigChange("metrics", ConfigOperation.APPEND, "b.")
    assert cluster.alter_configs("s", change, resource_type="client-metrics") is None
    assert [*cluster.image.configs.values()] == [{"metrics": "a.,b."}]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("interval.ms", "99"),
        ("interval.ms", "3600001"),
        ("interval.ms", "soon"),
        ("match", "client_planet=mars"),
        ("match", "client_id"),
        ("match", "client_id=a,client_id=b"),
        ("match", "client_id=("),
        ("match", "client_id=" + "(x{100}){100}"),
        ("metrics", "a." * 60_000),
        ("color", "red"),
    ],
)
def test_a_value_that_is_none_is_refused(key: str, value: str) -> None:
    assert is_error(Cluster(1).configure("s", {key: value}, "client-metrics"), InvalidConfigError)


@pytest.mark.parametrize("name", ["", "x" * 250, "a\nb"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    assert is_error(alter(Cluster(1), name, metrics="a."), InvalidRequestError)


def test_there_are_a_limited_number_of_subscriptions() -> None:
    cluster = Cluster(1)
    for number in range(SUBSCRIPTIONS_MAX):
        assert alter(cluster, f"s{number}", metrics="a.") is None
    assert is_error(alter(cluster, "one-more", metrics="a."), PolicyViolationError)
    assert alter(cluster, "s1", metrics="b.") is None
