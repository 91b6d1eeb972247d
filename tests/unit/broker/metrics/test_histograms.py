"""Promises of a node's histograms: a scrape shows what Prometheus' own library would show of the same times."""

from __future__ import annotations

import random

import prometheus_client
from prometheus_client import CollectorRegistry, disable_created_metrics

from broker.metrics.histograms import BUCKETS, Histogram
from broker.metrics.metrics_text import metrics_text

LABELS = ("api", "phase")


def registries(labels: tuple[str, ...] = LABELS) -> tuple[CollectorRegistry, Histogram, prometheus_client.Histogram]:
    """Ours in a registry, and the library's in one of its own."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry, ours = CollectorRegistry(), Histogram("penstock_seconds", "Told.", labels)
    registry.register(ours)
    return (
        registry,
        ours,
        prometheus_client.Histogram("penstock_seconds", "Told.", labels, registry=None, buckets=BUCKETS),
    )


def test_text_is_that_of_the_library_for_any_times() -> None:
    rng, (registry, ours, theirs) = random.Random(4), registries()
    for _ in range(2_000):
        series = rng.choice((("Produce", "total"), ("Fetch", "total"), ("Fetch", "queue")))
        seconds = rng.choice((rng.choice(BUCKETS), rng.expovariate(20), 0.0, 11.0, -0.25))
        ours.of(*series).observe(seconds)
        theirs.labels(*series).observe(seconds)

    assert metrics_text(registry) == metrics_text(theirs)


def test_series_is_shown_before_its_first_time_and_without_labels() -> None:
    registry, ours, theirs = registries(labels=())
    assert ours.of() is ours.of()

    assert metrics_text(registry) == metrics_text(theirs)
    assert registry.get_sample_value("penstock_seconds_bucket", {"le": "+Inf"}) == 0


def test_a_scrape_adds_up_whatever_is_observed_meanwhile() -> None:
    registry, ours, _ = registries()
    times = ours.of("Produce", "total")
    times.observe(0.003)
    samples = times.samples("s", {})
    first = next(samples)
    times.observe(0.0001)
    counts = [first.value, *(sample.value for sample in samples if not sample.name.endswith("_sum"))]
    assert counts[-1] == counts[-2] == 1
    assert counts == sorted(counts)
    assert times.count == 2
    assert registry.get_sample_value("penstock_seconds_count", {"api": "Produce", "phase": "total"}) == 2
