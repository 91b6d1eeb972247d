"""Promises of a processor's figures in Prometheus."""

from __future__ import annotations

import socket
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from penstock.client.processing.processing_metrics import ADDRESS, ProcessingCollector, serve
from penstock.client.processing.processing_statistics import ProcessingStatistics
from penstock.errors import ConfigError

COUNTS = ProcessingStatistics(records=30, outputs=29, dead_letters=2, committed=3, aborted=1, seconds=0.25, retries=4)
SAMPLES = (
    'penstock_processing_records_total{group="g",transactional_id="copier-1"} 30.0',
    'penstock_processing_outputs_total{group="g",transactional_id="copier-1"} 29.0',
    'penstock_processing_dead_letters_total{group="g",transactional_id="copier-1"} 2.0',
    'penstock_processing_retries_total{group="g",transactional_id="copier-1"} 4.0',
    'penstock_processing_transactions_total{group="g",outcome="committed",transactional_id="copier-1"} 3.0',
    'penstock_processing_transactions_total{group="g",outcome="aborted",transactional_id="copier-1"} 1.0',
    'penstock_processing_batch_seconds_count{group="g",transactional_id="copier-1"} 4.0',
    'penstock_processing_batch_seconds_sum{group="g",transactional_id="copier-1"} 0.25',
)


def collector() -> ProcessingCollector:
    return ProcessingCollector(lambda: COUNTS, "g", "copier-1")


def test_every_count_is_a_sample() -> None:
    registry = CollectorRegistry()
    registry.register(collector())  # type: ignore[arg-type]
    lines = generate_latest(registry).decode().splitlines()
    assert [line for line in lines if not line.startswith("#")] == list(SAMPLES)


def test_they_are_served_until_the_end() -> None:
    with socket.create_server((ADDRESS, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"metrics_port={port}: .* choose another port"):
            serve(collector(), port)
    end = serve(collector(), port)
    with urllib.request.urlopen(f"http://{ADDRESS}:{port}/metrics", timeout=60) as page:
        text = page.read().decode()
    assert all(sample in text for sample in SAMPLES)
    end()
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://{ADDRESS}:{port}/metrics", timeout=60)


def test_a_port_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError, match="metrics_port=70000"):
        serve(collector(), 70_000)
