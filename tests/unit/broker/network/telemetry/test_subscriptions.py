"""A client is asked for the metrics of all subscriptions that match it."""

from __future__ import annotations

import pytest

from broker.network.telemetry.subscriptions import NOTHING, Subscriptions
from metadata.records import ConfigRecord
from tests.unit.metadata.harness import Cluster

TILL = {"client_id": "till-1", "client_software_name": "librdkafka"}


def subscriptions(cluster: Cluster) -> Subscriptions:
    return Subscriptions(lambda: cluster.image)


def subscribe(cluster: Cluster, name: str, **texts: str | None) -> None:
    changes = {key.replace("_", "."): value for key, value in texts.items()}
    assert cluster.configure(name, changes, "client-metrics") is None


def test_without_a_subscription_a_client_is_asked_for_nothing() -> None:
    assert subscriptions(Cluster(1)).offer(TILL) == NOTHING


def test_metrics_add_up_and_the_shortest_interval_counts() -> None:
    cluster = Cluster(1)
    subscribe(cluster, "a", metrics="b.,a.", interval_ms="500", match="client_id=till-.*")
    subscribe(cluster, "b", metrics="c.", interval_ms="900", match="client_software_name=librdkafka")
    subscribe(cluster, "c", metrics="d.", interval_ms="100", match="client_id=till")
    offer = subscriptions(cluster).offer(TILL)
    assert (offer.interval_ms, offer.metrics) == (500, ("a.", "b.", "c."))
    assert offer.wants("b.x") and not offer.wants("d.x")


def test_two_brokers_give_one_id_and_a_change_gives_another() -> None:
    cluster = Cluster(1)
    subscribe(cluster, "a", metrics="*")
    ours = subscriptions(cluster)
    before = ours.offer(TILL)
    assert before == subscriptions(cluster).offer(TILL) and before.wants("anything")
    subscribe(cluster, "a", interval_ms="1000")
    assert ours.offer(TILL).subscription_id not in (0, before.subscription_id)
    subscribe(cluster, "a", metrics=None, interval_ms=None)
    assert ours.offer(TILL) == NOTHING


def test_a_subscription_that_a_later_release_wrote_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(1)
    subscribe(cluster, "a", metrics="a.")
    cluster.commit_record(ConfigRecord("client-metrics", "new", "match", "client_planet=mars"))
    cluster.commit_record(ConfigRecord("client-metrics", "new", "metrics", "b."))
    assert subscriptions(cluster).offer(TILL).metrics == ("a.",)
    assert "'new' are not asked for" in caplog.text
