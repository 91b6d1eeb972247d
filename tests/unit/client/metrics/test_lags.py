"""A consumer of very many partitions shows the largest lags alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from penstock import TopicPartition
from penstock.client.consumer.consumer_metrics import LAGS_MAX, ConsumerStatistics, FetchStatistics, consumer_metrics


def test_the_largest_lags_are_shown_up_to_a_limit() -> None:
    def state(lag: int) -> Any:
        return SimpleNamespace(lag=lag, paused=False, is_at_follower=False)

    states = {TopicPartition("orders", number): state(number) for number in range(LAGS_MAX + 5)}
    metrics = consumer_metrics(states, ConsumerStatistics(0, 0, 0, FetchStatistics()), {}, 0)
    lags = sorted(metric.value for metric in metrics if metric.name == "records-lag")
    assert lags == list(range(5, LAGS_MAX + 5))
    assert {metric.name: metric.value for metric in metrics}["records-lag-max"] == LAGS_MAX + 4
