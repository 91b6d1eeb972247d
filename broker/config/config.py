"""The configuration of one node: from a TOML file with Kafka's names, or variables, to a NodeConfig or a ConfigError.

Driven by the table in config_table.py: unknown keys (all in one error, each with the nearest known one), types, ranges
and units are judged here; addresses in endpoint_texts.py; rules between keys in config_check.py; the file itself in
config_file.py, and variables in config_variables.py. Loading touches nothing on disk, and a message is one line that
names file, key, value and remedy. The controller checks the configurations of topics.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from broker.config.config_check import check_config
from broker.config.config_file import config_values, read_config_file
from broker.config.config_variables import (
    file_of,
    is_of_variables,
    shown_source,
    variable_values,
    with_variable,
)
from broker.config.endpoint_texts import (
    check_inter_broker_name,
    parse_advertised,
    parse_bootstrap_servers,
    parse_listener_types,
    parse_listeners,
    parse_metrics_listener,
    parse_security_protocols,
    parse_voter_list,
    shown,
)
from broker.config.keys.config_table import KEYS
from broker.config.keys.kafka_keys import hint
from broker.config.keys.security_keys import FILE_ATTRIBUTES, MAPPING_RULES
from broker.config.listener_keys import (
    is_listener_key,
    listener_keys,
    near_listener_key,
    overrides_by_listener,
    security_by_listener,
)
from broker.config.named_listeners import with_named_protocols
from broker.config.node_config import NodeConfig
from metadata.cordon import EVERY_DIR
from metadata.topic_config import TOPIC_CONFIGS
from penstock.config_keys import GIB, KIB, MIB, REQUIRED, ConfigKey, Kind, nearest
from penstock.errors import ConfigError

NUMBER_DIGITS_MAX = 19
"""Limit for the digits of a number in a text: the largest of 64 bits. Python refuses to read one of more than 4,300
digits."""
UNKNOWN_SHOWN_MAX = 20
"""Unknown keys that one error names: a server.properties of Kafka has a dozen."""

_QUANTITY = re.compile(rf"^\s*(\d{{1,{NUMBER_DIGITS_MAX}}})\s*([a-zA-Z]+)\s*$")
_VARIABLE = re.compile(r"\$\{[^}]*\}")
_UNITS = {
    "bytes": {
        "k": KIB,
        "kb": KIB,
        "kib": KIB,
        "m": MIB,
        "mb": MIB,
        "mib": MIB,
        "g": GIB,
        "gb": GIB,
        "gib": GIB,
        "b": 1,
    },
    "ms": {"ms": 1, "s": 1000, "sec": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000},
}


def load_config(source: str) -> NodeConfig:
    """The configuration of a file, of variables, or of both, as `--config` names them; ConfigError begins with the
    source."""
    path = file_of(source)
    return parse_config_file(source, read_config_file(path) if path else b"")


def parse_config_file(
    source: str, data: bytes, *, looks_at_dirs: bool = True, environ: Mapping[str, str] = os.environ
) -> NodeConfig:
    """The configuration of a file with these bytes, and of the variables that `source` asks for; likewise."""
    values = config_values(file_of(source), data)
    shown_as, variables = shown_source(source), dict[str, object]()
    try:
        if is_of_variables(source):
            variables = variable_values(environ)
        return parse_config(values | variables, looks_at_dirs=looks_at_dirs)
    except ConfigError as error:
        raise ConfigError(f"{shown_as}: {with_variable(str(error), variables)}") from None
    except (ValueError, OSError) as error:  # no check above has thought of it; the reader of the file must be told
        raise ConfigError(f"{shown_as}: cannot be read ({' '.join(str(error).split())}); correct the file") from None


def parse_config(given: Mapping[str, object], *, looks_at_dirs: bool = True) -> NodeConfig:
    """A configuration from flat Kafka names; a key that is not given has its default.

    Without `looks_at_dirs` it is not found out that two log dirs are one; a running node must not wait for their disk.
    """
    unknown = [_unknown_key(name) for name in given if name not in KEYS and not is_listener_key(name)]
    if unknown:
        more = len(unknown) - UNKNOWN_SHOWN_MAX
        raise ConfigError(". Also ".join(unknown[:UNKNOWN_SHOWN_MAX]) + (f". And {more} more" if more > 0 else ""))
    values: dict[str, Any] = {key.attribute: _value(key, given) for key in KEYS.values()}
    values["process_roles"] = frozenset(values["process_roles"])
    check_inter_broker_name(values["inter_broker_listener_name"])
    values["listeners"] = parse_listeners("listeners", values["listeners"])
    values["listener_type_map"] = parse_listener_types(values["listener_type_map"])
    protocols = parse_security_protocols(values["listener_security_protocol_map"])
    values["listener_security_protocol_map"] = with_named_protocols(protocols, values["listeners"])
    internal = values["inter_broker_listener_name"]
    rows = listener_keys(given, values["listeners"], internal)
    of_listeners = {name: _value(key, given) for name, key in rows.items()}
    values["listener_limits"] = overrides_by_listener(of_listeners)
    values["listener_security"] = security_by_listener(of_listeners)
    for of_one in (values, *values["listener_security"].values()):
        of_one.update({name: os.path.abspath(of_one[name]) for name in FILE_ATTRIBUTES if of_one.get(name)})
    values["controller_quorum_voters"] = parse_voter_list(values["controller_quorum_voters"])
    servers = parse_bootstrap_servers(values["controller_quorum_bootstrap_servers"])
    values["controller_quorum_bootstrap_servers"] = servers
    values["advertised_listeners"] = parse_advertised(values)
    values["metrics_listener"] = parse_metrics_listener(values["metrics_listener"])
    values["log_dirs"] = tuple(os.path.abspath(directory) for directory in values["log_dirs"])
    values["cordoned_log_dirs"] = tuple(
        directory if directory == EVERY_DIR else os.path.abspath(directory) for directory in values["cordoned_log_dirs"]
    )
    values["metadata_log_dir"] = os.path.abspath(values["metadata_log_dir"] or values["log_dirs"][0])
    config = NodeConfig(**values, given=dict(given))
    check_config(config, looks_at_dirs=looks_at_dirs)
    return config


def _unknown_key(name: str) -> str:
    if meant := near_listener_key(name):
        return f"unknown key {shown(name)}; did you mean {meant}?"
    known = hint(name)
    if known:
        return f"unknown key {shown(name)}; {known}"
    if name in TOPIC_CONFIGS:
        return f"unknown key {shown(name)}; it is a topic's key; for a node it is {TOPIC_CONFIGS[name].broker_key}"
    near = nearest(name, KEYS)
    remedy = f"did you mean {near}?" if near else "remove it"
    return f"unknown key {shown(name)}; {remedy}"


def _value(key: ConfigKey, given: Mapping[str, object]) -> object:
    """The checked value of one key, or its default."""
    if key.name not in given:
        if key.default is REQUIRED:
            raise ConfigError(f"{key.name} is not set and has no default; {key.doc}")
        return key.default
    value = given[key.name]
    if not key.name.endswith(MAPPING_RULES) and (found := _not_filled_in(value)):
        raise ConfigError(
            f"{key.name} = {shown(value)}: {shown(found)} is not filled in here; write the value itself, or have the"
            " file made from a template before the node starts"
        )
    return _READERS[key.kind](key, value)


def _not_filled_in(value: object) -> str:
    """The first ${NAME} in the value, as shells, Compose and Kafka's providers have them; "" if it has no such name."""
    texts = value if isinstance(value, list) else [value]
    found = (match for text in texts if isinstance(text, str) and (match := _VARIABLE.search(text)))
    return next((match[0] for match in found), "")


def _int_value(key: ConfigKey, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        of_what = f" of {key.unit}" if key.unit else ""
        raise ConfigError(f"{key.name} = {shown(value)}: must be an integer{of_what}; {_int_remedy(key, value)}")
    _check_range(key, value)
    return value


def _int_remedy(key: ConfigKey, value: object) -> str:
    """'write 1073741824' where the value is a number in quotes or with a unit that this key can have."""
    if isinstance(value, str):
        if value.strip().isdecimal() and len(value.strip()) <= NUMBER_DIGITS_MAX:
            return f"write {value.strip()} without quotes"
        quantity = _QUANTITY.match(value)
        factor = _UNITS.get(key.unit, {}).get(quantity.group(2).lower()) if quantity else None
        if quantity and factor:
            return f"write {int(quantity.group(1)) * factor}"
    return f"write it like {key.default}" if isinstance(key.default, int) else "write it like 1"


def _double_value(key: ConfigKey, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{key.name} = {shown(value)}: must be a number; write it like {key.default}")
    _check_range(key, value)
    return float(value)


def _check_range(key: ConfigKey, value: float) -> None:
    if not key.fits(value):
        limits = f"from {key.low} to {key.high}{key.unit and ' ' + key.unit}{key.or_besides}"
        raise ConfigError(f"{key.name} = {shown(value)}: out of range; must be {limits}")


def _bool_value(key: ConfigKey, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{key.name} = {shown(value)}: must be a boolean; write true or false without quotes")
    return value


def _string_value(key: ConfigKey, value: object) -> str:
    if not isinstance(value, str) or "\n" in value or "\0" in value:
        raise ConfigError(f'{key.name} = {shown(value)}: must be a string of one line; write it like "value"')
    _check_choice(key, value)
    return value


def _list_value(key: ConfigKey, value: object) -> tuple[str, ...]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise ConfigError(f'{key.name} = {shown(value)}: must be a list of strings; write it like "a,b" or ["a", "b"]')
    stripped = tuple(item.strip() for item in items if item.strip())
    if key.default is REQUIRED and not stripped:
        raise ConfigError(f"{key.name} is empty; {key.doc}")
    if len(stripped) != len(items) and stripped:
        raise ConfigError(f"{key.name} = {shown(value)}: has an empty item; remove the comma")
    for item in stripped:
        _check_choice(key, item)
        if "\n" in item or "\0" in item:
            raise ConfigError(f"{key.name} = {shown(value)}: an item has a line break or NUL in it; remove it")
        if stripped.count(item) > 1 and key.name != "log.dirs":  # that one's own check says more
            raise ConfigError(f"{key.name} = {shown(value)}: {item} is given twice; keep one")
    return stripped


def _check_choice(key: ConfigKey, value: str) -> None:
    if key.choices and value not in key.choices:
        near = nearest(value, key.choices)
        hint = f"; did you mean {near}?" if near else ""
        there = ", ".join(choice or "empty" for choice in key.choices)
        raise ConfigError(f"{key.name} = {shown(value)}: must be one of {there}{hint}")


_READERS: dict[Kind, Callable[[ConfigKey, object], object]] = {
    Kind.INT: _int_value,
    Kind.DOUBLE: _double_value,
    Kind.BOOL: _bool_value,
    Kind.STRING: _string_value,
    Kind.LIST: _list_value,
}
