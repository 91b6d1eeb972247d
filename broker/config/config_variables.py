"""Reads keys of a node from the variables of its environment: `PENSTOCK_NODE_ID` is `node.id`.

A container is configured by variables, where a file for each node would be one more thing to make. They count only
where `--config` asks for them, so that no variable of somebody's shell changes a node:

    --config env:        the variables alone
    --config env:FILE    the file, and a variable wins over its key
    --config FILE        the file alone

A variable is PENSTOCK_ and the key in capitals, with underscores for dots; in a listener's name underscores stay. Lists
have commas. An empty variable counts as not set. A variable that is no key is refused, because a mistyped one would
leave a default in force. Variables of clients, and those that Kubernetes makes of services whose names begin with
`penstock`, are no mistakes. Not here: ranges and types (config.py), and the file (config_file.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from broker.config.keys.config_table import KEYS
from broker.config.keys.kafka_keys import hint
from broker.config.listener_keys import OF_ONE_LISTENER, PREFIX
from penstock.config_keys import Kind, nearest
from penstock.errors import ConfigError

SCHEME: Final = "env:"
VARIABLE_PREFIX: Final = "PENSTOCK_"
OF_THE_COMMAND: Final = ("CONFIG", "CLUSTER_ID", "FIRST_START", "ADD_SCRAM")
"""The options of `penstock node` that have variables of their own."""
OF_CLIENTS: Final = (
    "BOOTSTRAP",
    "CLIENT_RACK",
    "CONSOLE_OPTIONS",
    "PARENT_PID",
    "PASSWORD",
    "PASSWORD_FILE",
    "SASL_MECHANISM",
    "TLS",
    "TLS_CA",
    "TLS_CERT",
    "TLS_KEY",
    "TLS_SERVER_NAME",
    "TOKEN",
    "TOKEN_FILE",
    "TRACEBACK",
    "USERNAME",
)
"""The variables of clients and commands, which a container may have for `podman exec`."""
UNKNOWN_SHOWN_MAX: Final = 20
"""Unknown variables that one error names."""

_OTHERS: Final = frozenset(VARIABLE_PREFIX + name for name in (*OF_THE_COMMAND, *OF_CLIENTS))
_SERVICE_LINK: Final = re.compile(
    r"PENSTOCK_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
"""The variables that a pod has of each service of its namespace, unless enableServiceLinks is false."""
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
_DECIMAL: Final = re.compile(r"-?[0-9]{1,19}(\.[0-9]{1,19})?")


def is_of_variables(source: str) -> bool:
    """True if this value of `--config` asks for variables."""
    return source.startswith(SCHEME)


def file_of(source: str) -> str:
    """The path of the configuration's file; "" if it has none."""
    return source.removeprefix(SCHEME)


def shown_source(source: str) -> str:
    """The source as messages name it."""
    if not is_of_variables(source):
        return source
    return f"{file_of(source)} and the environment" if file_of(source) else "the environment"


def variable_of(key: str) -> str:
    """The variable that sets the key."""
    return VARIABLE_PREFIX + key.replace(".", "_").upper()


_KEYS: Final = {variable_of(name): name for name in KEYS}
_OF_LISTENERS: Final = sorted(((variable_of(key), key) for key in OF_ONE_LISTENER), key=lambda row: -len(row[0]))
"""The longest first: the name of one may end as another one."""


def variable_values(environ: Mapping[str, str]) -> dict[str, object]:
    """The keys and values that variables give, with the types of the keys; ConfigError names every variable that is no
    key. A text that is no value of its key stays a text, and is refused with the others of its kind."""
    values: dict[str, object] = {}
    unknown = []
    for variable, text in sorted(environ.items()):
        if not variable.startswith(VARIABLE_PREFIX) or variable in _OTHERS or _SERVICE_LINK.fullmatch(variable):
            continue
        key = _KEYS.get(variable) or _listener_key(variable)
        if not key:
            unknown.append(_unknown(variable))
        elif text:
            values[key] = _value(key, text)
    if unknown:
        more = len(unknown) - UNKNOWN_SHOWN_MAX
        raise ConfigError(". Also ".join(unknown[:UNKNOWN_SHOWN_MAX]) + (f". And {more} more" if more > 0 else ""))
    return values


def with_variable(message: str, values: Mapping[str, object]) -> str:
    """The message about a key, with the variable that has set it."""
    key = message.split(" ")[0].rstrip(":")
    return message.replace(key, f"{variable_of(key)}: {key}", 1) if key in values else message


def _listener_key(variable: str) -> str:
    """The key of one listener that the variable sets; "" if it is none."""
    prefix = variable_of(PREFIX)
    for suffix, key in _OF_LISTENERS:
        end = "_" + suffix.removeprefix(VARIABLE_PREFIX)
        if variable.startswith(prefix) and variable.endswith(end):
            listener = variable[len(prefix) : -len(end)]
            return f"{PREFIX}{listener.lower()}.{key}" if listener else ""
    return ""


def _unknown(variable: str) -> str:
    name = variable.removeprefix(VARIABLE_PREFIX).lower().replace("_", ".")
    known = hint(name)
    near = nearest(variable, _KEYS)
    remedy = known or (f"did you mean {near}?" if near else "remove it")
    return f"unknown variable {variable}; {remedy}"


def _value(key: str, text: str) -> object:
    row = KEYS.get(key) or KEYS[key.removeprefix(PREFIX).partition(".")[2]]
    if row.kind is Kind.BOOL:
        return {"true": True, "false": False}.get(text, text)
    if row.kind is Kind.INT and _INTEGER.fullmatch(text):
        return int(text)
    if row.kind is Kind.DOUBLE and _DECIMAL.fullmatch(text):
        return float(text)
    return text
