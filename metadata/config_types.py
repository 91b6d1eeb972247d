"""Defines a configuration key: its type, default and range; parses a text into a typed value or a clear error.

The keys of a topic are the table in topic_config.py. Texts are Kafka's: decimal integers, `true` and `false`,
comma-separated lists. What only Python accepts (`1_000`, digits of other scripts, `nan`) is refused, so that a text
means the same to every client that reads it back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from penstock.errors import InvalidConfigError

ConfigValue = int | float | bool | str | tuple[str, ...]

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,19}(\.[0-9]{1,19})?([eE][+-]?[0-9]{1,2})?")
_SHOWN_CHARACTERS: Final = 64


class ConfigKind(Enum):
    """The type of a key's value, under the name that Kafka's documentation uses."""

    INT = "int"
    LONG = "long"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class ConfigDefinition:
    """One key: a line of the reference."""

    name: str
    kind: ConfigKind
    default: ConfigValue
    broker_key: str  # the node's own key that gives the default for all topics
    doc: str
    minimum: int | float | None = None
    maximum: int | float | None = None
    choices: tuple[str, ...] = ()
    besides: int | None = None  # one number outside the range that is accepted too, and means something else

    @property
    def range_text(self) -> str:
        """What is accepted, in words."""
        if self.kind is ConfigKind.BOOLEAN:
            return "true or false"
        if self.kind is ConfigKind.LIST:
            return f"a comma-separated list of {', '.join(self.choices) or 'texts'}"
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.kind is ConfigKind.STRING:
            return "any text"
        also = "" if self.besides is None else f", or {self.besides}"
        return f"a number ({self.kind.value}) from {self.minimum} to {self.maximum}{also}"

    def parse(self, text: str) -> ConfigValue:
        """The typed value, or InvalidConfigError naming key, value and range."""
        value = _typed(self.kind, text.strip())
        if value is None or not self._accepts(value):
            shown = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
            raise InvalidConfigError(f"invalid value {shown!r} for {self.name}: it must be {self.range_text}")
        return value

    def _accepts(self, value: ConfigValue) -> bool:
        if isinstance(value, tuple):
            return (
                len(value) > 0
                and len(set(value)) == len(value)
                and all(item in self.choices if self.choices else item for item in value)
            )
        if isinstance(value, str):
            return not self.choices or value in self.choices
        if isinstance(value, bool):
            return True
        low = self.minimum is None or value >= self.minimum
        return value == self.besides or (low and (self.maximum is None or value <= self.maximum))


def config_text(value: ConfigValue) -> str:
    """A typed value as it is written: what `parse` makes the same value of."""
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _typed(kind: ConfigKind, text: str) -> ConfigValue | None:
    """The text as a value of the kind, None when it is not one."""
    match kind:
        case ConfigKind.INT | ConfigKind.LONG:
            return int(text) if _INTEGER.fullmatch(text) else None
        case ConfigKind.DOUBLE:
            return float(text) if _DECIMAL.fullmatch(text) else None
        case ConfigKind.BOOLEAN:
            return {"true": True, "false": False}.get(text.lower())
        case ConfigKind.LIST:
            return tuple(item.strip() for item in text.split(",")) if text else None
        case ConfigKind.STRING:
            return text
