"""The configuration of a running node: its file, and above it what the metadata has for all brokers and for this one.

    of this broker  >  of all brokers  >  the file  >  the default            (KIP-226)

A part that reads a key each time when it needs it asks for `current`. A part that must be told listens:

    dynamic.listen(lambda config: quota.set_rate(config.leader_replication_throttled_rate),
                   "leader.replication.throttled.rate")

The maker of the part listens for it, after it has given the part the value of `current`. The callback comes on the
event loop, AFTER `current` is the new one, once for each change however many of its keys changed. It only takes values:
it does not wait, and raises nothing. Only keys that may change while a node runs can be listened to.

Pure. Not here: which changes are allowed (metadata/controller/configuration/), and reading the file
(node/configuration/config_reload.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, cast

from broker.config.config_check import conflicts
from broker.config.config_digest import changed_keys
from broker.config.dynamic_keys import BROKER_CONFIGS, DYNAMIC
from broker.config.keys.config_table import KEYS
from broker.config.node_config import NodeConfig
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from metadata.records import ALL_BROKERS, BROKER_RESOURCE
from penstock.config_keys import REQUIRED, ConfigValue, Update, config_text
from penstock.errors import ConfigError
from penstock.messages.configs import ConfigResource, ConfigSource

_log = logging.getLogger(__name__)

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_FOR_ALL: Final = ConfigResource(BROKER_RESOURCE, ALL_BROKERS)

Apply = Callable[[NodeConfig], None]


class DynamicBrokerConfig:
    """The configuration of a running node. There is one per node, on the event loop; it subscribes to the metadata
    BEFORE the parts that act on its images."""

    def __init__(self, file: NodeConfig) -> None:
        self.file = file
        """The configuration of the file, as it was read last, and applied."""
        self.current = file
        """The configuration in force."""
        self._own_resource = ConfigResource(BROKER_RESOURCE, str(file.node_id))
        self._for_all: Mapping[str, ConfigValue] = {}
        self._own: Mapping[str, ConfigValue] = {}
        self._listeners: list[tuple[frozenset[str], Apply]] = []

    def listen(self, apply: Apply, *keys: str) -> None:
        """Call `apply` with the new configuration whenever one of the keys has changed; see the module."""
        fixed = [key for key in keys if key not in DYNAMIC]
        if fixed or not keys:
            raise ValueError(f"{', '.join(fixed) or 'no key'}: does not change while a node runs")
        self._listeners.append((frozenset(keys), apply))

    def published(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """A publisher of the metadata calls this: takes the configuration of this broker and that of all brokers."""
        if _FOR_ALL in delta.changed_configs or self._own_resource in delta.changed_configs:
            self._for_all = _typed(image, _FOR_ALL)
            self._own = _typed(image, self._own_resource)
            self._renew("the metadata")

    def file_changed(self, file: NodeConfig) -> list[str]:
        """Takes every changed key of the file, and returns their names; ConfigError, and nothing is taken, if one of
        them needs a restart or may only be set for all brokers."""
        changed = changed_keys(self.file, file)
        fixed = [key for key in changed if key not in DYNAMIC]
        for_all = [key for key in changed if key in DYNAMIC and DYNAMIC[key].update is Update.CLUSTER]
        remedies = []
        if fixed:
            remedies.append(f"{', '.join(fixed)} changed: restart the node for that, or take it back")
        if for_all:
            remedies.append(
                f"{', '.join(for_all)} changed: take it back, and set it for all brokers with "
                "`penstock configs alter --broker-default`"
            )
        if remedies:
            raise ConfigError("; ".join(remedies))
        old = self.file
        self.file = replace(file, lost_log_dirs=old.lost_log_dirs, begins_together=old.begins_together)
        self._renew("the file, read again,")
        return changed

    def is_set_in_metadata(self, key: str) -> bool:
        """True if a value of the file would not count."""
        return key in self._own or key in self._for_all

    def source_of(self, key: str) -> ConfigSource:
        """The source of the value in force."""
        if key in self._own:
            return ConfigSource.DYNAMIC_BROKER_CONFIG
        if key in self._for_all:
            return ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        return ConfigSource.STATIC_BROKER_CONFIG if key in self.file.given else ConfigSource.DEFAULT_CONFIG

    def values_of(self, key: str) -> Iterator[tuple[ConfigSource, ConfigValue]]:
        """Every value that a key of a node has, the one in force first, the default last."""
        if key in self._own:
            yield ConfigSource.DYNAMIC_BROKER_CONFIG, self._own[key]
        if key in self._for_all:
            yield ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, self._for_all[key]
        if key in self.file.given:
            yield ConfigSource.STATIC_BROKER_CONFIG, cast(ConfigValue, self.file.given[key])
        if key in KEYS and KEYS[key].default is not REQUIRED:
            yield ConfigSource.DEFAULT_CONFIG, KEYS[key].default

    def _renew(self, whose: str) -> None:
        before = self.current
        values: dict[str, Any] = {**self._for_all, **self._own}
        self.current = replace(self.file, **{KEYS[key].attribute: value for key, value in values.items()})
        changed = changed_keys(before, self.current)
        for keys, apply in self._listeners:
            if not keys.isdisjoint(changed):
                apply(self.current)
        if changed:
            shown = (f"{key} = {_shown(self.current, key)} (was {_shown(before, key)})" for key in changed)
            _log.info("%s changes the configuration: %s", whose, ", ".join(shown))
        known = conflicts(before)
        for conflict in conflicts(self.current):
            if conflict not in known:
                _log.error("%s sets values that do not go together with others: %s", whose, conflict)

    def __repr__(self) -> str:
        return f"DynamicBrokerConfig(for all {self._for_all}, own {self._own}, {len(self._listeners)} listeners)"


def _typed(image: MetadataImage, resource: ConfigResource) -> Mapping[str, ConfigValue]:
    """The values that count here; a warning names the keys of the others, which come from a newer release."""
    texts, name = image.configs.get(resource, _NONE), resource.resource_name
    values = BROKER_CONFIGS.typed(texts, name)
    unknown = texts.keys() - values.keys()
    if unknown:
        _log.warning("configuration of a newer release does nothing here: %s", ", ".join(sorted(unknown)))
    for rule, error in BROKER_CONFIGS.broken_rules(values):
        keys = ", ".join(rule.keys)
        _log.warning("configuration of a newer release does nothing here: %s, because of %s", keys, error)
    return BROKER_CONFIGS.in_force(texts, name)


def _shown(config: NodeConfig, key: str) -> str:
    return config_text(getattr(config, KEYS[key].attribute))
