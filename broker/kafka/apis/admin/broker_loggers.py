"""The loggers of a broker as Kafka's tools see them (BROKER_LOGGER, KIP-412): items of its key `logger.level`.

    logger.level = info,broker.replication=debug      root: INFO    broker.replication: DEBUG

Kafka forgets such a level when the broker stops; here it is in the metadata, like every other key of a broker. A change
of one logger reads the key and writes it whole, so of two changes at the same time one may be lost.
"""

from __future__ import annotations

from collections.abc import Iterable
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
    """Each logger with a level of its own, and every room of the code, by the text of the key."""
    levels = _levels(level)
    root = levels[ROOT]
    names = [ROOT, *sorted({*ROOMS, *levels} - {ROOT})]
    return [
        DescribeConfigsResourceResult(
            name=name, value=_THEIRS[levels.get(name, root)], config_source=DYNAMIC_BROKER_LOGGER_CONFIG
        )
        for name in names
    ]


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
