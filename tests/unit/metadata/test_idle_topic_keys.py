"""Kafka's keys of a topic that do nothing here: its own defaults are taken, and what would ask for more is refused."""

from __future__ import annotations

import pytest

from metadata.idle_topic_keys import GONE_TOPIC_KEYS, IDLE_TOPIC_KEYS
from metadata.topic_config import EVERY_TOPIC_KEY, TOPIC_CONFIGS, parse_topic_config, validate_topic_config
from penstock.config_keys import config_text
from penstock.errors import InvalidConfigError

DEFAULTS_OF_KAFKA = {
    "follower.replication.throttled.replicas": "",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "preallocate": "false",
    "remote.copy.lag.bytes": "0",
    "remote.copy.lag.ms": "0",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
}
KAFKAS = {
    "cleanup.policy", "compression.gzip.level", "compression.lz4.level", "compression.type", "compression.zstd.level",
    "delete.retention.ms", "file.delete.delay.ms", "flush.messages", "flush.ms", "index.interval.bytes",
    "max.compaction.lag.ms", "max.message.bytes", "message.timestamp.after.max.ms", "message.timestamp.before.max.ms",
    "message.timestamp.type", "min.cleanable.dirty.ratio", "min.compaction.lag.ms", "min.insync.replicas",
    "retention.bytes", "retention.ms", "segment.bytes", "segment.index.bytes", "segment.jitter.ms", "segment.ms",
    "unclean.leader.election.enable", *DEFAULTS_OF_KAFKA,
}  # fmt: skip
"""The keys of a topic of Kafka 4.3, and the two of 4.4."""


def test_every_key_of_kafka_is_known() -> None:
    assert EVERY_TOPIC_KEY.keys() == KAFKAS | {"flush.policy", "record.validation"}
    assert not TOPIC_CONFIGS.keys() & IDLE_TOPIC_KEYS.keys()


def test_kafkas_own_default_of_each_is_taken_and_reads_back() -> None:
    typed = validate_topic_config(DEFAULTS_OF_KAFKA)
    assert {key: config_text(value) for key, value in typed.items()} == DEFAULTS_OF_KAFKA
    for key, idle in IDLE_TOPIC_KEYS.items():
        assert all(config_text(parse_topic_config(key, text)) == text for text in idle.accepted)


@pytest.mark.parametrize(
    ("key", "text", "says"),
    [
        ("preallocate", "true", "segments grow as they are written; leave the key out, or write 'false'"),
        ("remote.storage.enable", "true", "there is no tiered storage"),
        ("local.retention.ms", "3600000", "a log is on the brokers' disks whole; leave the key out, or write '-2'"),
        ("local.retention.bytes", "-1", "there is no tiered storage"),
        ("remote.copy.lag.ms", "5", "write '0' or '-1'"),
        ("leader.replication.throttled.replicas", "0:1", "the rates of the brokers hold for every replica that moves"),
        ("preallocate", "perhaps", "it must be true or false"),
        ("local.retention.ms", "-3", "it must be a number (long)"),
        *((key, "1", "is not a key of a topic any more") for key in GONE_TOPIC_KEYS),
    ],
)
def test_what_is_not_done_is_refused_with_what_holds(key: str, text: str, says: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        validate_topic_config({key: text})
    assert key in str(caught.value) and says in str(caught.value)
