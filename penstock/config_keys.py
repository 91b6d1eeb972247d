"""One key of a configuration as a value: name, type, default, range, unit, meaning; judges values, and reads texts.

Nodes, topics, clients and the jobs of pipelines have a table of such keys each. Their checks, errors, `help()` and
reference pages are made from it. A text is Kafka's: decimal integers, `true` and `false`, comma-separated lists. What
only Python accepts (`1_000`, digits of other scripts, `nan`) is refused, so that a text means the same to every client
that reads it back. Not here: which keys there are, and how the reader of a file or of arguments words an error.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, Final

from penstock.errors import ConfigError, InvalidConfigError
from penstock.lazy_dataclass import dataclass

ConfigValue = int | float | bool | str | tuple[str, ...]

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,19}(\.[0-9]{1,19})?([eE][+-]?[0-9]{1,2})?")
_SHOWN_CHARACTERS: Final = 64
_OF_FIELD: Final = "key"
"""The name under which the metadata of a dataclass's field has its key."""


class Kind(Enum):
    """The type of a key's value, under the name that Kafka's documentation uses."""

    INT = "int"
    DOUBLE = "double"
    BOOL = "boolean"
    STRING = "string"
    LIST = "list"
    OTHER = "other"
    """Its own code checks it, not its key."""


class Update(Enum):
    """How a node's key changes, in Kafka's words for it (dynamic update mode)."""

    RESTART = "read-only"
    """The value changes in the file, by a restart of the node."""
    CLUSTER = "cluster-wide"
    """The value changes while nodes run, for all brokers at once: the active controller uses it too, so all must agree
    on it."""
    NODE = "per-broker"
    """The value changes while nodes run, for all brokers or for one; a node also takes it from its file when it is told
    to reload."""


class _Required:
    """The type of the default of a key that has none."""

    def __repr__(self) -> str:
        return "_Required()"


REQUIRED: Final = _Required()


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One row of a table. `low` and `high` bound a number, and an integer may be `besides` too, which means something
    else; `choices` are a string's, or a list's items."""

    name: str
    kind: Kind
    default: Any
    doc: str
    low: int | float | None = None
    high: int | float | None = None
    unit: str = ""
    choices: tuple[str, ...] = ()
    besides: int | None = None
    update: Update = Update.RESTART
    may_be_empty: bool = False
    """A list without items means something, and is written as an empty text."""
    broker_key: str = ""
    """The node's key that gives the default for all topics, if this is a topic's key."""

    @property
    def attribute(self) -> str:
        """The name in Python: Kafka's with underscores."""
        return self.name.replace(".", "_")

    @property
    def type_name(self) -> str:
        """The type as Kafka names it."""
        is_long = self.kind is Kind.INT and (self.high is None or self.high > INT32_MAX)
        return "long" if is_long else self.kind.value

    @property
    def is_number(self) -> bool:
        return self.kind in (Kind.INT, Kind.DOUBLE)

    @property
    def range_text(self) -> str:
        """The accepted values, in words."""
        if self.kind is Kind.BOOL:
            return "true or false"
        if self.kind is Kind.LIST:
            or_empty = ", or empty" if self.may_be_empty else ""
            return f"a comma-separated list of {', '.join(self.choices) or 'texts'}{or_empty}"
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.kind is Kind.STRING:
            return "any text"
        return f"a number ({self.type_name}) from {self.low} to {self.high}{self.or_besides}"

    @property
    def span(self) -> str:
        """The range of a number in the cell of a table, where an open end stays unsaid."""
        unit = f" {self.unit}" if self.unit else ""
        is_open = self.high is None or self.high >= INT32_MAX
        return (f"from {self.low}{unit}" if is_open else f"{self.low} to {self.high}{unit}") + self.or_besides

    @property
    def or_besides(self) -> str:
        return "" if self.besides is None else f", or {self.besides}"

    def fits(self, value: Any) -> bool:
        """True if a value of the right type is within range, or one of the choices."""
        if self.is_number:
            low, high = self.low, self.high
            return value == self.besides or ((low is None or value >= low) and (high is None or value <= high))
        if self.kind is Kind.LIST:
            are_good = all(item in self.choices if self.choices else item for item in value)
            return (self.may_be_empty or len(value) > 0) and len(set(value)) == len(value) and are_good
        return not self.choices or value in self.choices

    def parse(self, text: str) -> ConfigValue:
        """The typed value, or InvalidConfigError naming key, value and range."""
        value = _typed(self.kind, text.strip())
        if value is None or not self.fits(value):
            shown = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
            raise InvalidConfigError(f"invalid value {shown!r} for {self.name}: it must be {self.range_text}")
        return value


def config_text(value: Any) -> str:
    """The text of a typed value, from which `parse` makes the same value."""
    if isinstance(value, list | tuple):
        return ",".join(map(config_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _typed(kind: Kind, text: str) -> ConfigValue | None:
    """The text as a value of the kind, None when it is not one."""
    match kind:
        case Kind.INT:
            return int(text) if _INTEGER.fullmatch(text) else None
        case Kind.DOUBLE:
            return float(text) if _DECIMAL.fullmatch(text) else None
        case Kind.BOOL:
            return {"true": True, "false": False}.get(text.lower())
        case Kind.LIST:
            return tuple(item.strip() for item in text.split(",")) if text else ()
        case _:
            return text


# -- rows, in short ----------------------------------------------------------------------------------------------------


def integer(
    name: str,
    default: Any,
    doc: str,
    low: int = 0,
    high: int = INT32_MAX,
    unit: str = "",
    *,
    besides: int | None = None,
) -> ConfigKey:
    return ConfigKey(name, Kind.INT, default, doc, low, high, unit, besides=besides)


def byte_count(name: str, default: int, doc: str, low: int = 1, high: int = INT32_MAX) -> ConfigKey:
    return integer(name, default, doc, low, high, "bytes")


def byte_rate(name: str, doc: str) -> ConfigKey:
    return byte_count(name, INT64_MAX, doc, 1, INT64_MAX)


def duration_ms(name: str, default: int, doc: str, low: int = 1, high: int = INT32_MAX) -> ConfigKey:
    return integer(name, default, doc, low, high, "ms")


def double(name: str, default: float, doc: str, low: float, high: float) -> ConfigKey:
    return ConfigKey(name, Kind.DOUBLE, default, doc, low, high)


def boolean(name: str, default: bool, doc: str) -> ConfigKey:
    return ConfigKey(name, Kind.BOOL, default, doc)


def string(name: str, default: Any, doc: str, choices: tuple[str, ...] = ()) -> ConfigKey:
    return ConfigKey(name, Kind.STRING, default, doc, choices=choices)


def strings(name: str, default: Any, doc: str, choices: tuple[str, ...] = ()) -> ConfigKey:
    return ConfigKey(name, Kind.LIST, default, doc, choices=choices)


def for_all(*keys: ConfigKey) -> tuple[ConfigKey, ...]:
    """Keys that change while nodes run, for all brokers at once."""
    return tuple(replace(key, update=Update.CLUSTER) for key in keys)


def for_one(*keys: ConfigKey) -> tuple[ConfigKey, ...]:
    """Keys that change while nodes run, for all brokers or for one."""
    return tuple(replace(key, update=Update.NODE) for key in keys)


# -- keys that are fields of a dataclass -------------------------------------------------------------------------------


def option(
    doc: str,
    default: Any = REQUIRED,
    low: int | None = None,
    high: int | None = INT32_MAX,
    *,
    choices: Sequence[str] = (),
    kind: Kind | None = None,
    secret: bool = False,
    **more: Any,
) -> Any:
    """A field with its key, which has the field's name; without `low` a number has no bounds. A secret is left out of
    the `repr`. `more` is metadata."""
    if kind is None:
        kind = Kind.STRING if choices else Kind.INT if low is not None else _KINDS.get(type(default), Kind.OTHER)
    key = ConfigKey("", kind, default, doc, low, None if low is None else high, choices=tuple(choices))
    metadata = {_OF_FIELD: key, **more}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    first: Any = dataclasses.MISSING if default is REQUIRED else default
    return dataclasses.field(default=first, metadata=metadata, repr=not secret)


def keys_of(config: Any) -> dict[str, ConfigKey]:
    """The keys of a dataclass's fields, in their order, by name."""
    fields = (field for field in dataclasses.fields(config) if _OF_FIELD in field.metadata)
    return {field.name: replace(field.metadata[_OF_FIELD], name=field.name) for field in fields}


_KINDS: Final = {bool: Kind.BOOL, int: Kind.INT, str: Kind.STRING}

# -- words that are nearly known ---------------------------------------------------------------------------------------


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that was probably meant; "" if none is near."""
    return next(iter(difflib.get_close_matches(word, list(known), n=1)), "")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """'; did you mean …?' when something known is near, else ''."""
    found = nearest(word, known)
    return f"; did you mean {found!r}?" if found else ""


def to_toml(config: Mapping[str, object]) -> str:
    """Names and values as lines of a configuration file; JSON's numbers, booleans and lists are TOML's."""
    return "".join(f"{name} = {toml_value(value)}\n" for name, value in config.items())


def toml_value(value: object) -> str:
    """JSON's strings are TOML's but for two things: TOML takes no pair of surrogates for a letter (an emoji), and no
    bare DEL. ConfigError for what no TOML file can hold: bytes of a path that are no UTF-8."""
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ConfigError(f"{value!a}: is not valid UTF-8, so no configuration file can name it; choose another")
    return text
