"""A client has a limited number of series, whatever it sends."""

from __future__ import annotations

import math

import pytest

from broker.network.telemetry.client_series import LABEL_CHARACTERS_MAX, SERIES_MAX, ClientSeries, Series
from broker.network.telemetry.otlp import Point


def test_a_number_has_its_topic_partition_and_node() -> None:
    series = ClientSeries()
    where = {"topic": "t", "partition": "3", "node.id": "1", "color": "red"}
    assert series.note(Point("org.apache.kafka.consumer.lag", 5.0, False, False, where))
    assert series.note(Point("org.apache.kafka.consumer.lag", 7.0, False, False, where))
    assert series.statistics() == {Series("consumer.lag", "t", "3", "1", False): 7.0}


def test_sums_that_come_as_deltas_are_added_up_and_others_are_replaced() -> None:
    series = ClientSeries()
    for value in (2.0, 3.0):
        series.note(Point("a", value, True, True, {}))
        series.note(Point("b", value, True, False, {}))
    assert list(series.statistics().values()) == [5.0, 3.0]


def test_a_series_beyond_the_limit_is_left_out_and_those_before_go_on() -> None:
    series = ClientSeries()
    kept = [series.note(Point("m", 1.0, False, False, {"topic": f"t{n}"})) for n in range(SERIES_MAX + 5)]
    assert kept == [True] * SERIES_MAX + [False] * 5
    assert series.note(Point("m", 2.0, False, False, {"topic": "t0"})) and len(series) == SERIES_MAX


@pytest.mark.parametrize("name", ["", "x" * 201, 'a"b', "a\nb", "1a", "naïve"])
def test_a_name_that_is_none_is_left_out(name: str) -> None:
    assert not ClientSeries().note(Point(name, 1.0, False, False, {}))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_no_number_is_left_out(value: float) -> None:
    assert not ClientSeries().note(Point("a", value, False, False, {}))


def test_labels_are_cut() -> None:
    series = ClientSeries()
    series.note(Point("a", 1.0, False, False, {"topic": "t" * 1_000}))
    (found,) = series.statistics()
    assert len(found.topic) == LABEL_CHARACTERS_MAX
