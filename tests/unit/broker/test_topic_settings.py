"""What the controller accepts for a topic, every node can run: a refusal there would stop them all."""

from __future__ import annotations

import pytest

from broker.metadata_publisher import topic_settings
from metadata.config_types import config_text
from metadata.topic_config import TOPIC_CONFIGS, effective_topic_config, parse_topic_config

BOUNDED = [definition for definition in TOPIC_CONFIGS.values() if definition.minimum is not None]


@pytest.mark.parametrize("definition", BOUNDED, ids=lambda definition: definition.name)
def test_the_ends_of_every_range_are_good_for_a_log(definition) -> None:  # type: ignore[no-untyped-def]
    for end in (definition.minimum, definition.maximum):
        topic_settings(effective_topic_config({definition.name: str(end)}))


def test_every_default_is_written_as_it_is_read() -> None:
    for key, value in effective_topic_config({}).items():
        assert parse_topic_config(key, config_text(value)) == value
