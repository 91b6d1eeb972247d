"""The configuration of brokers that the metadata has (KIP-226): the keys that it may have, and the rules of a change.

A resource of type `broker` is one broker, under its id, or all brokers, under the name "". The table of the keys is the
node's (broker/config/keys/config_table.py), which metadata/ does not see: the controller is given a `BrokerConfigs`. A
record with a key that is not in it comes from a newer release: it is kept, and does nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Set
from dataclasses import field
from typing import Final, NamedTuple

from metadata.records import ALL_BROKERS
from penstock.config_keys import ConfigKey, ConfigValue, Update, nearest
from penstock.errors import InvalidConfigError
from penstock.lazy_dataclass import dataclass

VALUE_CHARACTERS_MAX: Final = 4_096
"""Limit for the text of one value: a list of log levels is the longest."""
_SHOWN_CHARACTERS: Final = 64
_BROKER_ID_DIGITS_MAX: Final = 10


class ConfigRule(NamedTuple):
    """A rule for the values of some keys together, besides their types and ranges."""

    keys: tuple[str, ...]
    """The values that it looks at; it judges no others."""
    check: Callable[[Mapping[str, ConfigValue]], None]
    """Raises InvalidConfigError where they break it."""
    of_changes_only: bool = False
    """A committed value that breaks it stays in force: another release has other names."""


@dataclass(frozen=True, slots=True)
class BrokerConfigs:
    """The keys of a node, as far as the controller knows them."""

    keys: Mapping[str, ConfigKey] = field(default_factory=dict)
    """The keys by name; `update` says which of them may change while nodes run, and for whom."""
    rules: tuple[ConfigRule, ...] = ()
    """Besides the type and the range of each key."""

    def definition(self, key: str, resource_name: str) -> ConfigKey:
        """The definition of a key that the resource may have; else InvalidConfigError with the remedy."""
        found, shown = self.keys.get(key), key[:_SHOWN_CHARACTERS]
        if found is None:
            near = nearest(shown, [name for name, known in self.keys.items() if known.update is not Update.RESTART])
            remedy = f"did you mean {near}?" if near else "docs/configuration.md has all keys"
            raise InvalidConfigError(f"unknown broker config {shown!r}; {remedy}")
        if found.update is Update.RESTART:
            raise InvalidConfigError(
                f"{key} cannot change while a broker runs; set it in the node's configuration file, and restart it"
            )
        if resource_name != ALL_BROKERS and found.update is Update.CLUSTER:
            raise InvalidConfigError(
                f"{key} cannot differ between brokers, because the controller uses it; set it for all of them:"
                " `penstock configs alter --broker-default`"
            )
        return found

    def typed(self, texts: Mapping[str, str], resource_name: str) -> dict[str, ConfigValue]:
        """The values of a resource that this release understands; a newer one may have committed others."""
        values = {}
        for key, text in texts.items():
            with contextlib.suppress(InvalidConfigError):
                values[key] = self.definition(key, resource_name).parse(text)
        return values

    def check(self, values: Mapping[str, ConfigValue], changed: Set[str]) -> None:
        """InvalidConfigError where a change of these keys breaks a rule. A value that another release has committed,
        and this change leaves as it is, refuses nothing."""
        for rule in self.rules:
            if not changed.isdisjoint(rule.keys):
                rule.check(values)

    def broken_rules(self, values: Mapping[str, ConfigValue]) -> list[tuple[ConfigRule, InvalidConfigError]]:
        """The rules that committed values break, and how."""
        broken = []
        for rule in self.rules:
            try:
                if not rule.of_changes_only:
                    rule.check(values)
            except InvalidConfigError as error:
                broken.append((rule, error))
        return broken

    def in_force(self, texts: Mapping[str, str], resource_name: str) -> dict[str, ConfigValue]:
        """The committed values that count: those of this release, without the keys of a rule that they break. The
        other keys stay, or a broker would go back to its file, and could delete what it is to keep."""
        values = self.typed(texts, resource_name)
        without = {key for rule, _ in self.broken_rules(values) for key in rule.keys}
        return {key: value for key, value in values.items() if key not in without}


def broker_id_of(resource_name: str) -> int | None:
    """The broker that a resource of type `broker` names; None if it names none, or not as a record would."""
    is_number = resource_name.isascii() and resource_name.isdecimal() and len(resource_name) <= _BROKER_ID_DIGITS_MAX
    return int(resource_name) if is_number and str(int(resource_name)) == resource_name else None
