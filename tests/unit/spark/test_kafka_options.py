"""Promises about options of Spark's Kafka connector that mean nothing here."""

from __future__ import annotations

import logging

import pytest

from penstock.errors import ConfigError
from penstock.spark import kafka_options
from penstock.spark.options import source_options
from penstock.spark.plain_errors import sentence_first
from penstock.spark.writing.sink_options import sink_options

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
        ("kafka.security.protocol", r"write kafka.tls.ca .*; write kafka.username and kafka.password.file"),
        ("kafka.ssl.truststore.location", "write kafka.tls.ca"),
        ("kafka.sasl.jaas.config", "write kafka.username and kafka.password.file"),
        ("kafka.sasl.mechanism", "must be one of SCRAM-SHA-256, SCRAM-SHA-512, PLAIN"),
        ("kafka.sasl.login.callback.handler.class", "or kafka.token.file, a file of each worker"),
        ("kafka.token.provider", "is not an option of the Penstock client"),
        ("kafka.transactional.id", "names its transactions itself"),
        ("kafka.no.such.thing", "is not an option of the Penstock client"),
    ],
)
def test_what_would_be_missed_is_refused(name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        source_options({**BASE, name: "x"}, streaming=False)


def test_the_options_of_tls_and_of_logging_in_are_the_clients() -> None:
    given = {
        "kafka.tls.ca": "/etc/ca.pem",
        "kafka.tls": "true",
        "kafka.username": "spark",
        "kafka.password.file": "/run/secret",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
    }
    named = {
        "tls_ca": "/etc/ca.pem",
        "tls": True,
        "username": "spark",
        "password_file": "/run/secret",
        "sasl_mechanism": "SCRAM-SHA-512",
    }
    assert source_options({**BASE, **given}, streaming=True).client == named
    assert sink_options({"bootstrap": "h:1", **given}).client == named


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"kafka.tls.key": "k"}, "option kafka.tls.key needs kafka.tls.cert"),
        ({"kafka.username": "spark"}, "option kafka.username='spark' needs password or kafka.password.file"),
    ],
)
def test_the_driver_says_what_does_not_fit_in_sparks_words(given: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError) as raised, sentence_first():
        source_options({**BASE, **given}, streaming=False)
    assert str(raised.value).startswith(says)


def test_no_text_of_options_has_the_password() -> None:
    given = {"kafka.username": "spark", "kafka.password": "correct horse"}
    source, sink = source_options({**BASE, **given}, streaming=False), sink_options({"bootstrap": "h:1", **given})
    assert source.client["password"] == sink.client["password"] == "correct horse"
    assert "correct horse" not in f"{source} {source!r} {sink} {sink!r}"


def test_a_token_file_is_the_clients_and_no_text_of_options_has_a_token() -> None:
    given = {"kafka.tls.ca": "/etc/ca.pem", "kafka.token.file": "/run/token"}
    named = {"tls_ca": "/etc/ca.pem", "token_file": "/run/token"}
    assert source_options({**BASE, **given}, streaming=True).client == named
    assert sink_options({"bootstrap": "h:1", **given}).client == named
    with_token = {"kafka.tls.ca": "/etc/ca.pem", "kafka.token": "eyJhbGciOi"}
    source = source_options({**BASE, **with_token}, streaming=False)
    assert source.client["token"] == "eyJhbGciOi" and "eyJhbGciOi" not in f"{source} {source!r}"


def test_each_is_told_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(kafka_options, "_logged", set())
    sentences = source_options({**BASE, "kafka.group.id": "g"}, streaming=False).without_effect
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        kafka_options.warn_once(sentences)
        kafka_options.warn_once(sentences)
    assert [record.getMessage() for record in caplog.records] == [
        "option 'kafka.group.id' has no effect: offsets are in Spark's checkpoint, and no consumer group is used"
        " without commitOffsetsToGroup=true or startingOffsets=group"
    ]
