"""Reads `logger.level`: a level for the node's log, and others for single packages of it.

    info,broker.replication=debug,raft=warning

The item without a name is the level of everything else. Kafka has the same as `log4j.rootLogger` and `log4j.logger.X`.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Mapping, Sequence

from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass

LEVELS: Mapping[str, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
ROOMS = ("broker", "metadata", "penstock", "raft", "storage")
"""A logger is named for its module, and a module's first folder is one of these."""
AUDIT_LOG = "penstock.audit"
"""The logger of the audit, which is named for its use and not for its module."""


@dataclass(frozen=True, slots=True)
class LogLevels:
    """The levels, as numbers of Python's logging."""

    others: int
    named: tuple[tuple[str, int], ...] = ()
    """Logger (a module, or a folder with all its modules) → level."""


def parse_log_levels(items: Sequence[str], *, any_room: bool = False) -> LogLevels:
    """ConfigError names the item that is wrong. `any_room` is for what the metadata has: a newer release may have
    committed the level of a room that is not one of these."""
    others: list[int] = []
    named: dict[str, int] = {}
    for item in items:
        name, equals, level = item.rpartition("=")
        if level not in LEVELS:
            raise ConfigError(f'logger.level = "{item}": a level is one of {", ".join(LEVELS)}')
        if equals and not any_room and not _has_room(name):
            raise ConfigError(f'logger.level = "{item}": a logger begins with one of {", ".join(ROOMS)}')
        if (equals and name in named) or (not equals and others):
            raise ConfigError(f'logger.level: "{item}" is a second level of the same logger; keep one')
        if equals:
            named[name] = LEVELS[level]
        else:
            others.append(LEVELS[level])
    return LogLevels(others[0] if others else logging.INFO, tuple(named.items()))


def without_module(levels: LogLevels) -> list[str]:
    """Names whose level does nothing, because there is no such module. They are not refused: another release may have a
    module that this one calls otherwise."""
    return [name for name, _ in levels.named if name != AUDIT_LOG and not _is_module(name)]


def _has_room(name: str) -> bool:
    return name.split(".")[0] in ROOMS


def _is_module(name: str) -> bool:
    try:  # to look for a module below another imports that one, so it must be ours
        return _has_room(name) and importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):  # a folder above it is not there, or is a module; or the name has an empty part
        return False
