"""The keys that may change while nodes run, as the metadata log has them: the text of each value, and the resources
that may have one.

The active controller judges a change by these keys of config_table.py; a broker reads committed texts with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from broker.config.keys.config_table import KEYS
from broker.config.log_levels import parse_log_levels
from metadata.broker_config import BrokerConfigs, ConfigRule
from penstock.config_keys import ConfigKey, ConfigValue, Update
from penstock.errors import ConfigError, InvalidConfigError


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


DYNAMIC: Final[Mapping[str, ConfigKey]] = {name: key for name, key in KEYS.items() if key.update is not Update.RESTART}
BROKER_CONFIGS: Final = BrokerConfigs(
    KEYS,
    rules=(
        ConfigRule(("logger.level",), partial(_check_levels, any_room=True)),
        ConfigRule(("logger.level",), _check_levels, of_changes_only=True),
        _not_above("log.roll.jitter.ms", "log.roll.ms"),
        _not_above("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    ),
)
"""The keys and rules that the controller is given."""
