"""Promises of metrics that are named at the fields of statistics."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from broker.metrics.field_readings import labelled, record_readings
from broker.metrics.metrics import Reading
from penstock.metric_fields import counter, gauge, in_seconds, inner, measured

CUT = ("penstock_cut", "Things cut.")


@measured
class Parts:
    size: int = gauge("penstock_size", "The size.")
    cut_short: int = counter(*CUT, reason="short")
    cut_long: int = counter(*CUT, reason="long")


@measured
class Whole:
    name: str
    begun: int = counter("penstock_begun", "What began.")
    parts: Parts = inner(Parts)
    unseen: int
    lost: tuple[str, ...] = gauge("penstock_lost", "What was lost.", len)
    elapsed_ms: int = gauge("penstock_elapsed_seconds", "The time.", in_seconds, default=-1)


def test_the_fields_with_a_metric_are_read_in_their_order_and_inner_ones_in_their_place() -> None:
    assert list(record_readings(Whole("w", 3, Parts(7, 1, 2), 9, ("a", "b")))) == [
        Reading("penstock_begun", "What began.", 3, True),
        Reading("penstock_size", "The size.", 7),
        Reading(*CUT, 1, True, (("reason", "short"),)),
        Reading(*CUT, 2, True, (("reason", "long"),)),
        Reading("penstock_lost", "What was lost.", 2),
        Reading("penstock_elapsed_seconds", "The time.", 0.0),
    ]


def test_the_readings_of_one_name_follow_each_other_over_all_records() -> None:
    found = list(labelled("at", {"x": Parts(7, 1, 2), "y": Parts(8, 3, 4)}))
    assert [(reading.name, reading.labels, reading.value) for reading in found] == [
        ("penstock_size", (("at", "x"),), 7),
        ("penstock_size", (("at", "y"),), 8),
        ("penstock_cut", (("at", "x"), ("reason", "short")), 1),
        ("penstock_cut", (("at", "x"), ("reason", "long")), 2),
        ("penstock_cut", (("at", "y"), ("reason", "short")), 3),
        ("penstock_cut", (("at", "y"), ("reason", "long")), 4),
    ]
    assert list(labelled("at", {})) == []


def test_a_metric_is_no_default_of_its_field() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'cut_long'"):
        Parts(7, 1)  # type: ignore[call-arg]
    with pytest.raises(FrozenInstanceError):
        Parts(7, 1, 2).size = 8  # type: ignore[misc]
