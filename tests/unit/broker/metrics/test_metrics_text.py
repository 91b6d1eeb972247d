"""Promises of the text of /metrics: it says what the library's own, slower encoder says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, disable_created_metrics
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from broker.metrics.exposition import process_registry
from broker.metrics.metrics import Reading, Readings
from broker.metrics.metrics_text import metrics_text
from penstock.plain_text import plain_lines

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.floats(allow_nan=False) | st.integers(-(10**18), 10**18) | st.booleans()


def families(text: str) -> list[Any]:
    """The families that a scraper reads."""
    return [
        (family.name, family.type, family.documentation, [tuple(sample) for sample in family.samples])
        for family in text_string_to_metric_families(text)
    ]


@given(st.lists(st.tuples(texts, texts, numbers), min_size=1, max_size=4), texts, st.booleans())
def test_a_scraper_reads_what_the_librarys_encoder_writes(
    rows: list[tuple[str, str, float]], meaning: str, is_counter: bool
) -> None:
    disable_created_metrics()  # type: ignore[no-untyped-call]  # as every node does

    def registry_of(shown: Callable[[str], str]) -> CollectorRegistry:
        registry = CollectorRegistry()
        readings = [
            Reading("a", meaning, value, is_counter, (("x", shown(x)), ("w", shown(w)))) for x, w, value in rows
        ]
        registry.register(Readings(lambda: readings))
        seconds = Histogram("b_seconds", "Time.", ["api"], registry=registry)
        seconds.labels(shown(rows[0][0])).observe(abs(float(rows[0][2])))
        return registry

    text = metrics_text(registry_of(str))
    assert families(text) == families(generate_latest(registry_of(plain_lines)).decode()), "names of clients are plain"


def test_what_is_no_number_and_what_has_no_labels_is_written_as_prometheus_has_it() -> None:
    registry = CollectorRegistry()
    registry.register(Readings(lambda: [Reading("a", "A.", float("nan")), Reading("b", "B.", float("-inf"))]))
    wanted = "# HELP a A.\n# TYPE a gauge\na NaN\n# HELP b B.\n# TYPE b gauge\nb -Inf\n"
    assert metrics_text(registry) == generate_latest(registry).decode() == wanted


def test_the_figures_of_the_process_are_the_same() -> None:
    def names(text: str) -> list[Any]:
        return [(name, kind, meaning) for name, kind, meaning, _ in families(text)]

    registry = process_registry()
    assert names(metrics_text(registry)) == names(generate_latest(registry).decode()) != []
