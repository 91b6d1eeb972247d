"""Makes docs/configuration.md from the tables: `python -m broker.config.config_reference > docs/configuration.md`.

A test compares the page with this module, so a key cannot be added without its line.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from broker.config.keys.config_table import DIRECTORIES, IDENTITY, KEYS, LOGGER, QUORUM, REPLICATION, REQUESTS
from broker.config.keys.group_keys import GROUPS
from broker.config.keys.kafka_keys import KAFKA_KEYS
from broker.config.keys.security_keys import AUDIT, AUTHORIZATION, SECURITY
from broker.config.keys.storage_keys import LOG, RETENTION, TOPICS
from broker.config.keys.transaction_keys import TRANSACTIONS
from broker.config.listener_keys import OF_ONE_LISTENER, PREFIX
from metadata.idle_topic_keys import GONE_TOPIC_KEYS, IDLE_TOPIC_KEYS, IdleKey
from metadata.internal_topics import INTERNAL_TOPICS, InternalTopic
from metadata.topic_config import TOPIC_CONFIGS
from penstock.config_keys import INT32_MAX, INT64_MAX, REQUIRED, ConfigKey, Kind, Update, config_text

INTRODUCTION = """# Configuration of a node

Made from `broker/config/keys/` and `metadata/topic_config.py` by `python -m broker.config.config_reference`; do not
edit by hand. First the keys of a node, then those of a listener and of a topic, then the names of topics, then Kafka's
keys that a node does not have.

A node has one TOML file: `penstock node start --config FILE`. Names are Kafka's; a key that Kafka does not have says
so. Dotted names and tables mean the same (`log.segment.bytes = 1` or, under `[log]`, `segment.bytes = 1`). A list is a
TOML list or one string with commas. A mistake is reported before any file is touched, in one line that names key, value
and remedy.

With `--config env:FILE` variables of the environment win over the file, and with `--config env:` there are variables
alone, as in [containers](containers.md). The variable of a key is `PENSTOCK_` and the key in capitals with underscores
for dots: `PENSTOCK_NODE_ID` is `node.id`, `PENSTOCK_LISTENER_NAME_OUTSIDE_MAX_CONNECTIONS` is
`listener.name.outside.max.connections`. Lists have commas; an empty variable counts as not set. A variable that is no
key is refused, with the nearest name; those of clients (`PENSTOCK_BOOTSTRAP`, `PENSTOCK_TLS_CA`, …) and those that
Kubernetes makes of a service named `penstock…` are not looked at. Without `env:` no variable counts.

The column *changes* says how a key changes (KIP-226):

- *restart*: in the file, and by a restart of the node.
- *all, one, reload*: while nodes run, for all brokers with `penstock configs alter --broker-default`, for one of them
  with `penstock configs alter --broker ID`, or in a node's file, which `systemctl reload` makes it read again.
- *all*: while nodes run, but for all brokers at once, because the active controller uses the value too. A value in a
  file counts after a restart, and should be the same in all files.

The value of the broker itself wins over that for all brokers, that over the file, and the file over the default.
`penstock configs describe --broker ID --all` shows each value in force, its source, and whether it can change while the
broker runs. A reload is taken whole or refused whole: with a mistake in the file, or with a changed key that needs a
restart, nothing changes, and the node's log says why.
"""

OF_A_LISTENER = """
## Listeners
`listener.name.<name>.<key>`, with the listener's name in small letters, sets a key for one listener:
`listener.name.outside.max.connections = 500`. What clients may have together holds besides. Without it a listener has
the value of the key without the prefix. `INTERNAL` and `CONTROLLER` have no rate but one of their own.
`metrics.listener` has the name `METRICS`, and of these keys those that begin with `ssl.`, but no mapping rules.

| key | values |
| --- | --- |
"""

OF_A_TOPIC = """
## Of a topic
A topic's own value overrides the node's key. It is set with `penstock topics create -c KEY=VALUE` or
`penstock configs alter`. `penstock configs describe TOPIC --all` shows each value in force and its source. Lists have
commas.

| key | type | default | values | the node's key | meaning |
| --- | --- | --- | --- | --- | --- |
"""

OF_IDLE_KEYS = """
## Kafka's keys of a topic that do nothing here
A definition that has every key with Kafka's default works as it is. These are taken, stored and described like the
others, with a value that asks for what is done anyway; any other value is an error that says what holds.

| key | type | default | values | meaning |
| --- | --- | --- | --- | --- |
"""

OF_GONE_KEYS = """
These keys of older releases of Kafka are refused, as by Kafka 4.

| key | in its place |
| --- | --- |
"""

OF_NAMES = """
## Names of topics
As in Kafka: 1 to 249 of the ASCII letters and digits, `.`, `_` and `-`, but not `.` or `..`. Two names that differ only
in `.` and `_` collide, and the second is refused. The cluster keeps these names for itself. Nobody can create such a
topic, or one that collides with it. No client writes to it, deletes its records or gives it more partitions:
INVALID_TOPIC_EXCEPTION. `__consumer_offsets` is made when a group needs it first, `__transaction_state` when a
transactional producer does. A topic that got such a name from an older release can still be read and deleted.

| name | for | written by | configuration |
| --- | --- | --- | --- |
"""

OF_KAFKA = """
## Kafka's keys that are not here
This table helps to convert a `server.properties`. `*` stands for all keys that begin with the text before it. Any other
key is unknown: the node refuses to start and names the key.

| Kafka's key | the node's | why, or how |
| --- | --- | --- |
"""

SECTIONS: tuple[tuple[str, tuple[ConfigKey, ...]], ...] = (
    ("Identity of the node", IDENTITY),
    ("Quorum and membership", QUORUM),
    ("Directories", DIRECTORIES),
    ("The node's own log", LOGGER),
    ("Requests", REQUESTS),
    ("Defaults of topics", TOPICS),
    ("Replication", REPLICATION),
    ("Log", LOG),
    ("Retention and compaction", RETENTION),
    ("Consumer groups", GROUPS),
    ("Transactions", TRANSACTIONS),
    ("Security", SECURITY),
    ("Authorisation", AUTHORIZATION),
    ("Audit", AUDIT),
)


_CHANGES = {Update.RESTART: "restart", Update.CLUSTER: "all", Update.NODE: "all, one, reload"}


def reference() -> str:
    """The page."""
    parts = [INTRODUCTION]
    for title, keys in SECTIONS:
        rows = "".join(map(_row, keys))
        parts.append(f"\n## {title}\n| key | default | values | changes | meaning |\n{'| --- ' * 5}|\n{rows}")
    parts.append(OF_A_LISTENER)
    parts += [f"| `{PREFIX}<name>.{name}` | {_range(KEYS[name])} |\n" for name in OF_ONE_LISTENER]
    parts.append(OF_A_TOPIC)
    parts += [_topic_row(key) for key in TOPIC_CONFIGS.values()]
    parts.append(OF_IDLE_KEYS)
    parts += map(_idle_row, IDLE_TOPIC_KEYS.values())
    parts.append(OF_GONE_KEYS)
    parts += [f"| `{name}` | {instead} |\n" for name, instead in GONE_TOPIC_KEYS.items()]
    parts.append(OF_NAMES)
    parts += map(_internal_topic_row, INTERNAL_TOPICS.values())
    parts.append(OF_KAFKA)
    parts += [f"| `{key.name}` | {f'`{key.ours}`' if key.ours else 'none'} | {key.why} |\n" for key in KAFKA_KEYS]
    return "".join(parts)


def _row(key: ConfigKey) -> str:
    return f"| `{key.name}` | {_default(key)} | {_range(key)} | {_CHANGES[key.update]} | {key.doc} |\n"


def _topic_row(key: ConfigKey) -> str:
    values = key.range_text if key.kind is Kind.BOOL else _range(replace(key, unit=""))
    cells = (f"`{key.name}`", key.type_name, _default(key), values, f"`{key.broker_key}`", key.doc)
    return f"| {' | '.join(cells)} |\n"


def _idle_row(idle: IdleKey) -> str:
    values = ", ".join(f"`{text}`" if text else "empty" for text in idle.accepted)
    return f"| `{idle.key.name}` | {idle.key.type_name} | {_default(idle.key)} | {values} | {idle.key.doc} |\n"


def _internal_topic_row(topic: InternalTopic) -> str:
    config = ", ".join(f"`{key}={value}`" for key, value in topic.config.items()) or "its own"
    return f"| `{topic.name}` | {topic.holds} | {topic.writer} | {config} |\n"


def _default(key: ConfigKey) -> str:
    if key.default is REQUIRED:
        return "required"
    if key.default in (INT32_MAX, INT64_MAX):
        return "no limit"
    text = config_text(key.default)
    return f"`{text}`" if text else "empty"


def _range(key: ConfigKey) -> str:
    if key.is_number:
        return key.span
    if key.choices:
        return ", ".join(f"`{choice}`" for choice in key.choices)
    return "list of strings" if key.kind is Kind.LIST else key.kind.value


if __name__ == "__main__":
    sys.stdout.write(reference())
