"""Promises about dead letters: their room follows from every limit that a record has on its way."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from penstock.errors import ConfigError
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

        def describe_topic_config(self, _: str) -> dict[str, SimpleNamespace]:
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


@pytest.mark.usefixtures("topic")
def test_a_topic_without_room_for_a_letter_is_a_mistake_that_names_the_limit() -> None:
    with pytest.raises(ConfigError, match=r"client.max.request.size = 900 leaves no room .* must be at least 4096"):
        room_bytes(NOBODY, "dead", RunConf(client={"max.request.size": "900"}))


def test_a_compacted_topic_would_lose_letters_and_is_refused(topic: dict[str, object]) -> None:
    check_topic(NOBODY, "dead", DEFAULT_RUN, compacted=False)
    topic["cleanup.policy"] = "compact,delete"
    with pytest.raises(ConfigError, match=r"keeps only the last record of each key; set it: .*cleanup.policy=delete"):
        check_topic(NOBODY, "dead", DEFAULT_RUN, compacted=False)
