"""Promises about dead letters: their room follows from every limit that a record has on its way."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from metadata.topic_config import TOPIC_CONFIGS
from penstock.errors import ConfigError, TopicAuthorizationFailedError
from penstock.pipelines import dead_letters
from penstock.pipelines.dead_letters import room_bytes
from penstock.pipelines.frame import checks
from penstock.pipelines.frame.checks import check_topic
from penstock.pipelines.frame.conf import DEFAULT_RUN, RunConf

MIB = 1 << 20
DEFAULTS = {"max.message.bytes": 1_048_588, "segment.bytes": 1 << 30, "cleanup.policy": "delete"}
NOBODY = "127.0.0.1:1"


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """The config of the topic of dead letters, as a cluster tells it."""
    config: dict[str, object] = dict(DEFAULTS)

    class OneTopic:
        def __init__(self, _: str) -> None: ...

        def __enter__(self) -> OneTopic:
            return self

        def __exit__(self, *_: object) -> None: ...

        def describe_topic(self, _: str) -> None: ...

        def describe_topic_config(self, topic: str) -> dict[str, SimpleNamespace]:
            if not config:
                raise TopicAuthorizationFailedError(f"User:lake may not DescribeConfigs on topic {topic!r}")
            return {name: SimpleNamespace(value=value) for name, value in config.items()}

    monkeypatch.setattr(dead_letters, "Admin", OneTopic)
    monkeypatch.setattr(checks, "Admin", OneTopic)
    return config


@pytest.mark.parametrize(
    ("config", "client", "limit"),
    [
        ({}, {}, MIB),  # of the producer, whose default is below the topic's
        ({"max.message.bytes": 300_000}, {}, 300_000),
        ({"max.message.bytes": 5 * MIB, "segment.bytes": 2 * MIB}, {"max.request.size": "9000000"}, 2 * MIB),
        ({"max.message.bytes": 5 * MIB}, {}, MIB),
    ],
)
def test_a_letter_fits_the_topic_its_segments_and_the_producer(
    topic: dict[str, object], config: dict[str, int], client: dict[str, str], limit: int
) -> None:
    topic.update(config)
    room = room_bytes(NOBODY, "dead", RunConf(client=client))
    assert limit - limit // 32 - 2048 < room < limit - 1000


def test_a_user_who_may_not_describe_the_topic_takes_it_for_one_with_the_defaults(
    topic: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    known = room_bytes(NOBODY, "dead", DEFAULT_RUN)
    assert {name: TOPIC_CONFIGS[name].default for name in dead_letters.DEFAULTS} == dead_letters.DEFAULTS
    topic.clear()
    assert room_bytes(NOBODY, "dead", DEFAULT_RUN) == known
    check_topic(NOBODY, "dead", DEFAULT_RUN, compacted=True)
    assert "cleanup.policy of topic dead is not checked: User:lake may not DescribeConfigs" in caplog.text
    caplog.clear()
    check_topic(NOBODY, "dead", DEFAULT_RUN)
    assert not caplog.text


@pytest.mark.usefixtures("topic")
def test_a_topic_without_room_for_a_letter_is_a_mistake_that_names_the_limit() -> None:
    with pytest.raises(ConfigError, match=r"client.max.request.size = 900 leaves no room .* must be at least 4096"):
        room_bytes(NOBODY, "dead", RunConf(client={"max.request.size": "900"}))


def test_a_compacted_topic_would_lose_letters_and_is_refused(topic: dict[str, object]) -> None:
    check_topic(NOBODY, "dead", DEFAULT_RUN, compacted=False)
    topic["cleanup.policy"] = "compact,delete"
    with pytest.raises(ConfigError, match=r"keeps only the last record of each key; set it: .*cleanup.policy=delete"):
        check_topic(NOBODY, "dead", DEFAULT_RUN, compacted=False)
