"""Makes of a request, or its answer, what a line of the audit log shows: each field that says something, no secret.

A new API is shown without a word here. A secret is a field that its record's `repr` leaves out; no bytes are shown, and
of a configuration only values of keys that there are, none of which is a secret: somebody may have typed a password
where it does not belong. Fields that have their default are left out. Pure. Not here: which requests are shown
(audited_requests.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from math import isfinite
from typing import Any, Final, NamedTuple

from broker.audit.audit_log import NAME_SHOWN
from broker.config.keys.config_table import KEYS
from metadata.topic_config import EVERY_TOPIC_KEY
from penstock.errors import ApiError
from penstock.messages.configs import ConfigChange, ConfigOperation
from penstock.messages.elections import ElectionType, ElectLeadersRequest
from penstock.messages.security.users import ScramDeletion, ScramUpsertion
from penstock.sasl.credentials import ScramMechanism
from penstock.types import NO_OFFSET

VALUES_MAX: Final = 2_000
"""Values of one request, or of one answer."""
HIDDEN: Final = "(hidden)"
MORE: Final = "and_more"
NO_MATTER: Final = frozenset(("timeout_ms", "metadata", "retention_ms", "knows_stale_epoch"))
"""Fields that change nothing, and the note that a client keeps with an offset."""
_WORDS: Final[Mapping[tuple[type, str], type[Enum]]] = {
    (ConfigChange, "operation"): ConfigOperation,
    (ElectLeadersRequest, "election_type"): ElectionType,
    (ScramDeletion, "mechanism"): ScramMechanism,
    (ScramUpsertion, "mechanism"): ScramMechanism,
}
"""Numbers that came, and the words for them."""


def audit_view(value: object) -> Any:
    """The value in the terms of JSON, as small as it has to be."""
    return _Shown().of(value)


def cut(text: str) -> str:
    return text if len(text) <= NAME_SHOWN else f"{text[:NAME_SHOWN]}…"


def config_value(key: str, value: str) -> str:
    """The value of a key, if it is one."""
    return cut(value) if key in KEYS or key in EVERY_TOPIC_KEY else HIDDEN


class _Field(NamedTuple):
    name: str
    default: object


@cache
def _fields_of(kind: Any) -> tuple[_Field, ...]:
    if is_dataclass(kind):
        made = [
            _Field(one.name, one.default if one.default_factory is MISSING else one.default_factory())
            for one in fields(kind)
            if one.repr
        ]
    else:
        defaults = getattr(kind, "_field_defaults", {})
        made = [_Field(name, defaults.get(name, MISSING)) for name in getattr(kind, "_fields", ())]
    return tuple(one for one in made if one.name not in NO_MATTER)


class _Shown:
    """The shown form of one request, or answer, bounded in all."""

    def __init__(self) -> None:
        self._left = VALUES_MAX

    def of(self, value: Any) -> Any:
        if isinstance(value, Enum):
            return value.value if isinstance(value.value, str) else value.name
        if isinstance(value, float) and not isfinite(value):
            return str(value)  # JSON has no such number
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, str):
            return cut(value)
        if isinstance(value, ApiError):
            return value.kafka_name
        if isinstance(value, Mapping):
            return self._config(value)
        kind: Any = type(value)
        if _fields_of(kind):
            return self._record(kind, value)
        return self._list(value) if isinstance(value, list | tuple | set | frozenset) else HIDDEN

    def _record(self, kind: Any, value: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, default in _fields_of(kind):
            here = getattr(value, name)
            if here != default and not (name == "metadata_offset" and here == NO_OFFSET):
                found[name] = self.of(self._worded(kind, name, here))
        if isinstance(value, ConfigChange) and value.value:
            found["value"] = config_value(value.key, value.value)
        return found

    def _worded(self, kind: type, name: str, value: Any) -> Any:
        words = _WORDS.get((kind, name))
        known = [word.name for word in words or () if word.value == value]
        return known[0] if known else value

    def _list(self, values: Collection[Any]) -> list[Any]:
        found: list[Any] = []
        for one in values:
            if self._left <= 0:
                return [*found, {MORE: len(values) - len(found)}]
            self._left -= 1
            found.append(self.of(one))
        return found

    def _config(self, values: Mapping[Any, Any]) -> dict[str, Any]:
        fit = list(values)[: max(self._left, 0)]
        self._left -= len(fit)
        found: dict[str, Any] = {cut(key): config_value(key, str(values[key])) for key in fit}
        return found | ({MORE: len(values) - len(fit)} if len(fit) < len(values) else {})
