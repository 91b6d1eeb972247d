"""Every node can run each topic configuration that the controller accepts: a refusal there would stop them all."""

from __future__ import annotations

from dataclasses import fields

import pytest

from broker.quorum.metadata_publisher import topic_settings
from metadata.topic_config import MIN_INSYNC_REPLICAS, TOPIC_CONFIGS, effective_topic_config, parse_topic_config
from penstock.config_keys import config_text
from storage.log_config import LogConfig

LOG_KEYS = {field.name.replace("_", ".") for field in fields(LogConfig)} | {MIN_INSYNC_REPLICAS}
BOUNDED = [definition for definition in TOPIC_CONFIGS.values() if definition.low is not None]


@pytest.mark.parametrize("definition", BOUNDED, ids=lambda definition: definition.name)
def test_the_ends_of_every_range_are_good_for_a_log(definition) -> None:  # type: ignore[no-untyped-def]
    for end in (definition.low, definition.high):
        settings = topic_settings(effective_topic_config({definition.name: str(end)}))
        of_log = getattr(settings.log, definition.name.replace(".", "_"), None)
        assert end in (of_log, settings.min_insync_replicas) or definition.name not in LOG_KEYS


def test_every_default_is_written_as_it_is_read() -> None:
    for key, value in effective_topic_config({}).items():
        assert parse_topic_config(key, config_text(value)) == value
