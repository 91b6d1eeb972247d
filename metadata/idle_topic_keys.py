"""Kafka's keys of a topic that do nothing here: taken with a value that asks for what is done anyway, else refused.

Definitions of topics are kept in Terraform, in Git, or copied from another cluster, and name every key with Kafka's own
default. Such a definition must work as it is, and read back as it was written: a key that is taken is stored and
described as any other. A value that would ask for more than a topic gets is refused with what holds instead. Source:
Kafka 4.3's LogConfig, and the two keys of 4.4. Not here: keys that count (topic_config.py).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.config_keys import (
    INT64_MAX,
    ConfigKey,
    ConfigValue,
    boolean,
    byte_count,
    config_text,
    duration_ms,
    string,
)
from penstock.errors import InvalidConfigError

_NO_TIERS: Final = "there is no tiered storage, and a log is on the brokers' disks whole"
_MOVES: Final = "the rates of the brokers hold for every replica that moves, and for no other"
_SHOWN_CHARACTERS: Final = 64


class IdleKey(NamedTuple):
    """A key with Kafka's type and default, and the texts that ask for what holds."""

    key: ConfigKey
    accepted: tuple[str, ...]
    instead: str

    def parse(self, text: str) -> ConfigValue:
        """The typed value; InvalidConfigError for one that is not Kafka's, or asks for what is not done."""
        value = self.key.parse(text)
        if config_text(value) not in self.accepted:
            raise InvalidConfigError(
                f"{self.key.name} = {text[:_SHOWN_CHARACTERS]} is not done here: {self.instead}; leave the key out, or"
                f" write {' or '.join(repr(accepted) for accepted in self.accepted)}"
            )
        return value


def _idle(key: ConfigKey, instead: str, *also: str) -> IdleKey:
    return IdleKey(key, (config_text(key.default), *also), instead)


_TABLE: Final = (
    _idle(string("follower.replication.throttled.replicas", "", f"Nothing: {_MOVES}."), _MOVES, "*"),
    _idle(string("leader.replication.throttled.replicas", "", f"Nothing: {_MOVES}."), _MOVES, "*"),
    _idle(byte_count("local.retention.bytes", -2, f"Nothing: {_NO_TIERS}.", -2, INT64_MAX), _NO_TIERS),
    _idle(duration_ms("local.retention.ms", -2, f"Nothing: {_NO_TIERS}.", -2, INT64_MAX), _NO_TIERS),
    _idle(
        boolean("preallocate", False, "Nothing: segments grow as they are written."),
        "segments grow as they are written",
    ),
    _idle(byte_count("remote.copy.lag.bytes", 0, f"Nothing: {_NO_TIERS}.", -1, INT64_MAX), _NO_TIERS, "-1"),
    _idle(duration_ms("remote.copy.lag.ms", 0, f"Nothing: {_NO_TIERS}.", -1, INT64_MAX), _NO_TIERS, "-1"),
    _idle(boolean("remote.log.copy.disable", False, f"Nothing: {_NO_TIERS}."), _NO_TIERS, "true"),
    _idle(boolean("remote.log.delete.on.disable", False, f"Nothing: {_NO_TIERS}."), _NO_TIERS, "true"),
    _idle(boolean("remote.storage.enable", False, f"Nothing: {_NO_TIERS}."), _NO_TIERS),
)

IDLE_TOPIC_KEYS: Final = {idle.key.name: idle for idle in _TABLE}

GONE_TOPIC_KEYS: Final = {
    "message.downconversion.enable": "there is one record format, version 2, as in Kafka 4",
    "message.format.version": "there is one record format, version 2, as in Kafka 4",
    "message.timestamp.difference.max.ms": "message.timestamp.before.max.ms and message.timestamp.after.max.ms are in"
    " its place, as in Kafka 4",
    "internal.segment.bytes": "segment.bytes takes every size from 1024 bytes on",
}
"""Keys of older releases of Kafka, or of its tests, which Kafka 4.3 refuses or hides, and what is in their place."""
