"""The keys that may change while nodes run, as the metadata log has them: the text of each value, and who may have one.

The active controller judges a change by these definitions; a broker reads committed texts with them. They are made from
config_table.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from broker.config.config_key import INT32_MAX, REQUIRED, ConfigKey, Kind, Update
from broker.config.config_table import KEYS
from broker.config.log_levels import parse_log_levels
from metadata.broker_config import BrokerConfigs, ConfigRule
from metadata.config_types import ConfigDefinition, ConfigKind, ConfigValue
from penstock.errors import ConfigError, InvalidConfigError

_KINDS: Final = {
    Kind.DOUBLE: ConfigKind.DOUBLE,
    Kind.BOOL: ConfigKind.BOOLEAN,
    Kind.STRING: ConfigKind.STRING,
    Kind.LIST: ConfigKind.LIST,
}


def kind_of(key: ConfigKey) -> ConfigKind:
    """The type of the key's value, as Kafka's documentation names it."""
    return _KINDS.get(key.kind) or (ConfigKind.INT if key.high <= INT32_MAX else ConfigKind.LONG)


def _definition(key: ConfigKey) -> ConfigDefinition:
    if key.default is REQUIRED or not isinstance(key.default, int | float | bool | str | tuple):
        raise ValueError(f"{key.name} has no default, so it cannot change while a node runs")
    kind, low, high = kind_of(key), key.low, key.high
    return ConfigDefinition(key.name, kind, key.default, key.name, key.doc, low, high, key.choices, key.besides)


def _check_levels(values: Mapping[str, ConfigValue], *, any_room: bool = False) -> None:
    levels = values.get("logger.level")
    if isinstance(levels, tuple):
        try:
            parse_log_levels(levels, any_room=any_room)
        except ConfigError as error:
            raise InvalidConfigError(str(error)) from None


def _not_above(least: str, most: str) -> ConfigRule:
    def check(values: Mapping[str, ConfigValue]) -> None:
        low, high = values.get(least), values.get(most)
        if isinstance(low, int) and isinstance(high, int) and low > high:
            raise InvalidConfigError(f"{least} = {low}: above {most} = {high}; lower it, or raise the other")

    return ConfigRule((least, most), check)


DYNAMIC: Final[Mapping[str, ConfigDefinition]] = {
    key.name: _definition(key) for key in KEYS.values() if key.update is not Update.RESTART
}
BROKER_CONFIGS: Final = BrokerConfigs(
    definitions=DYNAMIC,
    for_all_only=frozenset(key.name for key in KEYS.values() if key.update is Update.CLUSTER),
    fixed=frozenset(key.name for key in KEYS.values() if key.update is Update.RESTART),
    rules=(
        ConfigRule(("logger.level",), partial(_check_levels, any_room=True)),
        ConfigRule(("logger.level",), _check_levels, of_changes_only=True),
        _not_above("log.roll.jitter.ms", "log.roll.ms"),
        _not_above("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    ),
)
"""What the controller is given."""
