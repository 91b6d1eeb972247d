"""docs/configuration.md, made from the tables: `python -m broker.config.config_reference > docs/configuration.md`.

A test holds the page against this, so that a key cannot be added without its line.
"""

from __future__ import annotations

import sys

from broker.config.config_table import (
    DIRECTORIES,
    IDENTITY,
    INT32_MAX,
    INT64_MAX,
    LOG,
    QUORUM,
    REPLICATION,
    REQUESTS,
    REQUIRED,
    RETENTION,
    TOPICS,
    ConfigKey,
    Kind,
)
from broker.config.kafka_keys import KAFKA_KEYS
from metadata.config_types import ConfigDefinition, ConfigKind, config_text
from metadata.topic_config import TOPIC_CONFIGS

INTRODUCTION = """# Configuration of a node

Made from `broker/config/config_table.py` and `metadata/topic_config.py` by `python -m broker.config.config_reference`;
do not edit by hand. The keys of a topic follow those of a node, and then what becomes of Kafka's other keys.

One TOML file, `penstock node start --config FILE`. Names are Kafka's; the few that Kafka has not say so. Dotted names
and tables mean the same (`log.segment.bytes = 1` or, under `[log]`, `segment.bytes = 1`); a list is a TOML list or one
string with commas. A mistake is answered before any file is touched, in one line that names key, value and remedy.
"""

OF_A_TOPIC = """
## Of a topic
What a topic says itself, with `penstock topics create -c KEY=VALUE` or `penstock configs alter`, goes before the node's
key; `penstock configs describe TOPIC --all` shows what is in force and where that comes from. Lists have commas.

| key | type | default | values | the node's key | meaning |
| --- | --- | --- | --- | --- | --- |
"""

OF_KAFKA = """
## Kafka's keys that are not here
For whoever brings a `server.properties`. `*` stands for all keys that begin so. A key of Kafka's that stands neither
above nor here is unknown to a node, and its start says so.

| Kafka's key | the node's | why, or how |
| --- | --- | --- |
"""

GROUPS: tuple[tuple[str, tuple[ConfigKey, ...]], ...] = (
    ("Who the node is", IDENTITY),
    ("Quorum and membership", QUORUM),
    ("Directories", DIRECTORIES),
    ("Requests", REQUESTS),
    ("Topics, where they do not say otherwise", TOPICS),
    ("Replication", REPLICATION),
    ("Log", LOG),
    ("Retention and compaction", RETENTION),
)


def reference() -> str:
    """The page."""
    parts = [INTRODUCTION]
    for title, keys in GROUPS:
        rows = "".join(f"| `{key.name}` | {_default(key)} | {_range(key)} | {key.doc} |\n" for key in keys)
        parts.append(f"\n## {title}\n| key | default | values | meaning |\n| --- | --- | --- | --- |\n{rows}")
    parts.append(OF_A_TOPIC)
    parts += [_topic_row(definition) for definition in TOPIC_CONFIGS.values()]
    parts.append(OF_KAFKA)
    parts += [f"| `{key.name}` | {f'`{key.ours}`' if key.ours else 'none'} | {key.why} |\n" for key in KAFKA_KEYS]
    return "".join(parts)


def _topic_row(key: ConfigDefinition) -> str:
    default = "no limit" if key.default in (INT32_MAX, INT64_MAX) else f"`{config_text(key.default)}`"
    cells = (f"`{key.name}`", key.kind.value, default, _topic_range(key), f"`{key.broker_key}`", key.doc)
    return f"| {' | '.join(cells)} |\n"


def _topic_range(key: ConfigDefinition) -> str:
    if key.choices:
        return ", ".join(f"`{choice}`" for choice in key.choices)
    if key.kind not in (ConfigKind.INT, ConfigKind.LONG, ConfigKind.DOUBLE):
        return key.range_text
    also = "" if key.besides is None else f", or {key.besides}"
    return (
        f"from {key.minimum}" if key.maximum in (INT32_MAX, INT64_MAX) else f"{key.minimum} to {key.maximum}"
    ) + also


def _default(key: ConfigKey) -> str:
    if key.default is REQUIRED:
        return "required"
    if isinstance(key.default, bool):
        return f"`{str(key.default).lower()}`"
    if isinstance(key.default, int):
        return "no limit" if key.default in (INT32_MAX, INT64_MAX) else f"`{key.default}`"
    if isinstance(key.default, tuple):
        return f"`{','.join(key.default)}`" if key.default else "empty"
    return f"`{key.default}`" if key.default else "empty"


def _range(key: ConfigKey) -> str:
    if key.kind is Kind.INT:
        unit = f" {key.unit}" if key.unit else ""
        also = "" if key.besides is None else f", or {key.besides}"
        return (f"from {key.low}{unit}" if key.high >= INT32_MAX else f"{key.low} to {key.high}{unit}") + also
    if key.kind is Kind.DOUBLE:
        return f"{key.low} to {key.high}"
    if key.choices:
        return ", ".join(f"`{choice}`" for choice in key.choices)
    return str(key.kind.value)


if __name__ == "__main__":
    sys.stdout.write(reference())
