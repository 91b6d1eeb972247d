"""Topic configuration: every key has a clear range, and a bad one is answered with what would be good."""

from __future__ import annotations

import pytest

from metadata.topic_config import TOPIC_CONFIGS, effective_topic_config, parse_topic_config, validate_topic_config
from penstock.errors import InvalidConfigError


def test_every_default_is_within_its_own_range() -> None:
    for name, definition in TOPIC_CONFIGS.items():
        default = definition.default
        text = ",".join(default) if isinstance(default, tuple) else str(default)
        assert definition.parse(text) == default, name
        assert type(definition.parse(text)) is type(default), name


def test_every_key_is_documented_and_has_a_broker_key_of_its_own() -> None:
    assert all(definition.doc.endswith(".") for definition in TOPIC_CONFIGS.values())
    assert len({definition.broker_key for definition in TOPIC_CONFIGS.values()}) == len(TOPIC_CONFIGS)
    assert list(TOPIC_CONFIGS) == sorted(TOPIC_CONFIGS)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("cleanup.policy", "compact, delete", ("compact", "delete")),
        ("cleanup.policy", " ", ()),
        ("compression.type", "uncompressed", "uncompressed"),
        ("compression.gzip.level", "-1", -1),
        ("compression.zstd.level", "-131072", -131072),
        ("retention.ms", " -1 ", -1),
        ("flush.ms", str((1 << 63) - 1), (1 << 63) - 1),
        ("min.cleanable.dirty.ratio", "0.25", 0.25),
        ("min.cleanable.dirty.ratio", "1e-2", 0.01),
        ("unclean.leader.election.enable", "TRUE", True),
        ("flush.policy", "os", "os"),
    ],
)
def test_text_becomes_a_typed_value(key: str, text: str, value: object) -> None:
    assert parse_topic_config(key, text) == value


@pytest.mark.parametrize(
    ("key", "text", "says"),
    [
        ("retention.ms", "-2", "from -1 to"),
        ("retention.ms", "7 days", "a number"),
        ("retention.ms", "1_000", "a number"),
        ("retention.ms", "٣", "a number"),
        ("retention.ms", "", "a number"),
        ("retention.ms", "9" * 5000, "a number"),
        ("segment.bytes", "1.5", "a number"),
        ("segment.bytes", "2147483648", "2147483647"),
        ("min.insync.replicas", "0", "from 1"),
        ("min.cleanable.dirty.ratio", "nan", "from 0.0 to 1.0"),
        ("min.cleanable.dirty.ratio", "1.01", "from 0.0 to 1.0"),
        ("unclean.leader.election.enable", "yes", "true or false"),
        ("cleanup.policy", "delete,burn", "delete, compact"),
        ("cleanup.policy", "delete,delete", "delete, compact"),
        ("cleanup.policy", "delete,", "delete, compact"),
        ("compression.type", "none", "producer, uncompressed, gzip, snappy, lz4, zstd"),
        ("compression.gzip.level", "0", "from 1 to 9, or -1"),
        ("compression.lz4.level", "18", "from 1 to 17"),
        ("compression.zstd.level", "23", "from -131072 to 22"),
        ("message.timestamp.type", "createtime", "CreateTime"),
        ("flush.policy", "never", "fsync"),
    ],
)
def test_bad_value_names_key_value_and_range(key: str, text: str, says: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        parse_topic_config(key, text)
    message = str(caught.value)
    assert key in message and says in message and text[:20] in message
    assert len(message) < 300


def test_unknown_key_gets_the_nearest_known_one() -> None:
    with pytest.raises(InvalidConfigError, match=r"did you mean retention\.ms\?"):
        parse_topic_config("retention.mss", "1")


def test_broker_key_is_answered_with_the_topic_key() -> None:
    with pytest.raises(InvalidConfigError, match=r"for a topic it is segment\.bytes"):
        parse_topic_config("log.segment.bytes", "1")


def test_key_like_no_other_gets_the_list_and_stays_short() -> None:
    with pytest.raises(InvalidConfigError, match=r"known are cleanup\.policy"):
        parse_topic_config("Ω" * 10_000, "1")


def test_compaction_lags_must_not_cross() -> None:
    with pytest.raises(InvalidConfigError, match=r"min\.compaction\.lag\.ms \(10\)"):
        validate_topic_config({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"})


def test_effective_config_takes_topic_before_node_before_default() -> None:
    node = {"log.segment.bytes": 4096, "log.retention.ms": 5, "node.id": 1}
    effective = effective_topic_config({"retention.ms": "7"}, node)
    assert effective["retention.ms"] == 7
    assert effective["segment.bytes"] == 4096
    assert effective["flush.policy"] == "fsync"
    assert effective.keys() == TOPIC_CONFIGS.keys()


def test_effective_config_passes_over_a_key_that_it_does_not_know() -> None:
    assert "from.the.future" not in effective_topic_config({"from.the.future": "1"})


def test_ranges_read_like_a_reference() -> None:
    assert TOPIC_CONFIGS["segment.ms"].range_text == f"a number (long) from 1 to {(1 << 63) - 1}"
    assert TOPIC_CONFIGS["segment.ms"].type_name == "long"
