"""Subscriptions to the metrics of clients (KIP-714): the table of keys, and the clients that a subscription is for.

A subscription is a configuration by a name of the operator's: the metrics, how often clients push them, and patterns
for the clients that do. `match` has items like `client_id=till-.*`; each must match the whole text, in RE2's syntax,
and a subscription without items is for every client. As in Kafka a comma ends an item, so no pattern has one. A node of
an earlier release keeps these records, and asks its clients for nothing. Pure. Not here: what a broker tells clients
(broker/network/telemetry/).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from metadata.patterns import compiled_pattern
from penstock.config_keys import ConfigKey, ConfigValue, duration_ms, strings
from penstock.errors import InvalidConfigError, InvalidRegularExpressionError

METRICS, INTERVAL, MATCH = "metrics", "interval.ms", "match"
EVERY_METRIC: Final = "*"
INTERVAL_MS_MIN, INTERVAL_MS_MAX, INTERVAL_MS_DEFAULT = 100, 3_600_000, 300_000
SUBSCRIPTIONS_MAX: Final = 100
"""Each new client is held against all of them."""
NAME_CHARACTERS_MAX: Final = 249
"""The limit of a topic's name."""
ATTRIBUTES: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""Attributes of a client that a pattern can match."""

CLIENT_METRICS_KEYS: Final[Mapping[str, ConfigKey]] = {
    key.name: key
    for key in (
        replace(
            strings(METRICS, (), f"Beginnings of the names of the metrics that clients push; {EVERY_METRIC} is all."),
            may_be_empty=True,
        ),
        duration_ms(
            INTERVAL, INTERVAL_MS_DEFAULT, "How often a client pushes its metrics.", INTERVAL_MS_MIN, INTERVAL_MS_MAX
        ),
        replace(
            strings(MATCH, (), "The clients: ATTRIBUTE=PATTERN, all of which must match. None: every client."),
            may_be_empty=True,
        ),
    )
}


class MetricsSubscription(NamedTuple):
    """The typed values of one subscription. `patterns` are compiled, by attribute."""

    metrics: tuple[str, ...]
    interval_ms: int
    patterns: Mapping[str, Any]

    def is_for(self, client: Mapping[str, str]) -> bool:
        """True of a client with these attributes."""
        return all(
            pattern.fullmatch(client.get(attribute, "").encode(errors="replace"))
            for attribute, pattern in self.patterns.items()
        )


def client_metrics_definition(key: str) -> ConfigKey:
    definition = CLIENT_METRICS_KEYS.get(key)
    if definition is None:
        raise InvalidConfigError(
            f"{key[:64]!r} is not a key of client metrics; there are {', '.join(CLIENT_METRICS_KEYS)}"
        )
    return definition


def client_metrics_value(key: str, text: str) -> ConfigValue:
    """The typed value of a key; InvalidConfigError if it is none."""
    value = client_metrics_definition(key).parse(text)
    if key == MATCH and isinstance(value, tuple):
        _patterns(value)
    return value


def subscription_of(texts: Mapping[str, str]) -> MetricsSubscription:
    """The subscription that these texts make. Keys of a later release are left out."""
    values = {key: definition.default for key, definition in CLIENT_METRICS_KEYS.items()}
    values |= {key: client_metrics_value(key, text) for key, text in texts.items() if key in CLIENT_METRICS_KEYS}
    return MetricsSubscription(values[METRICS], values[INTERVAL], _patterns(values[MATCH]))


def _patterns(items: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in items:
        attribute, equals, pattern = item.partition("=")
        attribute = attribute.strip()
        if not equals or attribute not in ATTRIBUTES:
            raise InvalidConfigError(
                f"{MATCH}: {item[:64]!r} must be ATTRIBUTE=PATTERN, with one of the attributes {', '.join(ATTRIBUTES)}"
            )
        if attribute in found:
            raise InvalidConfigError(
                f"{MATCH} names {attribute} twice; write one pattern, with `|` between alternatives"
            )
        try:
            found[attribute] = compiled_pattern(pattern.strip())
        except InvalidRegularExpressionError as error:
            raise InvalidConfigError(f"{MATCH}: {attribute}: {error}") from None
    return found
