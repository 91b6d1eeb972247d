"""Promises about options of Spark's Kafka connector that mean nothing here."""

from __future__ import annotations

import logging

import pytest

from penstock.errors import ConfigError
from penstock.spark import kafka_options
from penstock.spark.options import sink_options, source_options

BASE = {"bootstrap": "h:9192", "subscribe": "orders"}


@pytest.mark.parametrize("name", [*kafka_options.HARMLESS, "kafkaConsumer.pollTimeoutMs", "kafka.security.protocol"])
def test_what_changes_no_row_is_accepted_and_said_to_have_no_effect(name: str) -> None:
    options = source_options({**BASE, name: "plaintext"}, streaming=True)
    assert options.client == {}
    assert [name.lower() in sentence for sentence in options.without_effect] == [True]
    assert sink_options({"bootstrap": "h:1", name: "plaintext"}).without_effect == options.without_effect


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("kafka.security.protocol", "without encryption"),
        ("kafka.ssl.truststore.location", "without encryption"),
        ("kafka.sasl.mechanism", "without encryption and log-in"),
        ("kafka.transactional.id", "without a transaction"),
        ("kafka.no.such.thing", "is not an option of the Penstock client"),
    ],
)
def test_what_would_be_missed_is_refused(name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        source_options({**BASE, name: "x"}, streaming=False)


def test_each_is_told_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(kafka_options, "_told", set())
    sentences = source_options({**BASE, "kafka.group.id": "g"}, streaming=False).without_effect
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        kafka_options.warn_once(sentences)
        kafka_options.warn_once(sentences)
    assert [record.getMessage() for record in caplog.records] == [
        "option 'kafka.group.id' has no effect: offsets are in Spark's checkpoint, and no consumer group is used"
        " without commitOffsetsToGroup=true or startingOffsets=group"
    ]
