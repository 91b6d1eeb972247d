"""The loggers of a broker as Kafka's tools see them (BROKER_LOGGER, KIP-412): items of its key `logger.level`.

    logger.level = info,broker.replication=debug      root: INFO    broker.replication: DEBUG

Kafka forgets such a level when the broker stops; here it is in the metadata, like every other key of a broker. A change
of one logger reads the key and writes it whole, so of two changes at the same time one may be lost.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from broker.config.log_levels import ROOMS
from broker.kafka.apis.admin.config_codes import DYNAMIC_BROKER_LOGGER_CONFIG
from broker.kafka.schemas.configs import DescribeConfigsResourceResult
from penstock.errors import InvalidConfigError, InvalidRequestError
from penstock.messages.configs import ConfigChange, ConfigOperation

LOGGER_KEY: Final = "logger.level"
ROOT: Final = "root"
_THEIRS: Final = {"debug": "DEBUG", "info": "INFO", "warning": "WARN", "error": "ERROR"}
_OURS: Final = {theirs: ours for ours, theirs in _THEIRS.items()} | {"TRACE": "debug", "FATAL": "error"}


def logger_configs(level: str) -> list[DescribeConfigsResourceResult]:
    """Every logger of this process, and each other one with a level of its own, by the text of the key. Kafka's tool
    changes only loggers that it is told of."""
    levels = _levels(level)
    here = (name for name in logging.Logger.manager.loggerDict if name.split(".")[0] in ROOMS)
    names = [ROOT, *sorted({*here, *ROOMS, *levels} - {ROOT})]
    return [
        DescribeConfigsResourceResult(
            name=name, value=_THEIRS[_level_of(name, levels)], config_source=DYNAMIC_BROKER_LOGGER_CONFIG
        )
        for name in names
    ]


def _level_of(name: str, levels: Mapping[str, str]) -> str:
    """The level of the logger: its own, or that of the nearest logger above it."""
    while name not in levels:
        name = name.rpartition(".")[0] or ROOT
    return levels[name]


def with_changes(level: str, changes: Iterable[ConfigChange]) -> str:
    """The text of the key after the changes."""
    levels = _levels(level)
    for name, operation, value in changes:
        if operation == ConfigOperation.SET:
            if value not in _OURS:
                raise InvalidConfigError(f"{value[:64]!r} is no level of a logger; give one of {', '.join(_OURS)}")
            levels[name] = _OURS[value]
        elif operation == ConfigOperation.DELETE:
            if name == ROOT:
                raise InvalidRequestError("the root logger always has a level: set another one")
            levels.pop(name, None)
        else:
            raise InvalidRequestError("the level of a logger can be set and deleted, and nothing can be appended to it")
    root = levels.pop(ROOT)
    return ",".join((root, *(f"{name}={level}" for name, level in levels.items())))


def _levels(text: str) -> dict[str, str]:
    """Our words for the levels, by logger. The node has checked the text."""
    items = (item.strip().rpartition("=") for item in text.split(",") if item.strip())
    return {ROOT: "info"} | {name or ROOT: level for name, _, level in items}
