"""One configuration key of a node as a value: name, type, default, range, unit, meaning, and how it changes.

The keys are the rows of config_table.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
PORT_MAX = 65535


class Kind(Enum):
    """How a value is written: in TOML's own types; a list may also be one string with commas, as in Kafka's files."""

    INT = "integer"
    DOUBLE = "number"
    BOOL = "boolean"
    STRING = "string"
    LIST = "list of strings"


class Update(Enum):
    """How a key changes, in Kafka's words for it (dynamic update mode)."""

    RESTART = "read-only"
    """In the file, by a restart of the node."""
    CLUSTER = "cluster-wide"
    """While nodes run, for all brokers at once: the active controller uses the value too, so all must agree on it."""
    NODE = "per-broker"
    """While nodes run, for all brokers or for one; a node also takes it from its file when it is told to reload."""


class _Required:
    """The type of the default of a key that has none."""

    def __repr__(self) -> str:
        return "_Required()"


REQUIRED = _Required()


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One row of the table. `low` and `high` bound an INT or a DOUBLE, and an INT may be `besides` too; `choices` are a
    STRING's or a LIST's items."""

    name: str
    kind: Kind
    default: object
    doc: str
    low: int = 0
    high: int = INT32_MAX
    unit: str = ""
    choices: tuple[str, ...] = ()
    besides: int | None = None
    update: Update = Update.RESTART

    @property
    def attribute(self) -> str:
        """The name in Python: Kafka's with underscores."""
        return self.name.replace(".", "_")
