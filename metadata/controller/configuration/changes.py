"""Applies the changes of one resource to its texts: set, delete, append to a list, subtract from it (KIP-339). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from metadata.records import ConfigRecord
from penstock.config_keys import ConfigKey, ConfigValue, Kind
from penstock.errors import InvalidConfigError, InvalidRequestError
from penstock.messages.configs import ConfigChange, ConfigOperation

SHOWN_CHARACTERS: Final = 64


def altered_texts(
    before: Mapping[str, str],
    changes: tuple[ConfigChange, ...],
    definition_of: Callable[[str], ConfigKey],
    present: Callable[[str], ConfigValue],
) -> dict[str, str]:
    """The texts after every change; what is set is not checked yet. `present` is the value that a list begins with."""
    times = Counter(change.key for change in changes)
    after = dict(before)
    for key, operation, value in changes:
        if times[key] > 1:
            raise InvalidRequestError(f"{key[:SHOWN_CHARACTERS]!r} is named {times[key]} times for one resource")
        if operation == ConfigOperation.SET:
            after[key] = value.strip()
        elif operation == ConfigOperation.DELETE:
            if after.pop(key, None) is None:  # else it is known, or was to an older version
                definition_of(key)
        elif operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            after[key] = _listed(definition_of(key), present, ConfigChange(key, operation, value))
        else:
            raise InvalidRequestError(f"operation {operation} on {key[:SHOWN_CHARACTERS]!r} is not known")
    return after


def _listed(definition: ConfigKey, present: Callable[[str], ConfigValue], change: ConfigChange) -> str:
    """The list with the items added or taken out."""
    if definition.kind is not Kind.LIST:
        raise InvalidConfigError(f"{change.key} is not a list: set it, nothing can be appended or subtracted")
    wanted = definition.parse(change.value) if change.value.strip() else ()
    now = present(change.key)
    if not isinstance(now, tuple) or not isinstance(wanted, tuple):
        raise InvalidConfigError(f"{change.key} is not a list")
    if change.operation == ConfigOperation.APPEND:
        items = (*now, *(item for item in wanted if item not in now))
    else:
        items = tuple(item for item in now if item not in wanted)
    if not items and not definition.may_be_empty:
        raise InvalidConfigError(f"{change.key} would be empty: it must be {definition.range_text}")
    return ",".join(items)


def config_records(
    resource_type: str, name: str, before: Mapping[str, str], after: Mapping[str, str]
) -> list[ConfigRecord]:
    """The records of a change: one for each key whose text differs."""
    return [
        ConfigRecord(resource_type, name, key, after.get(key))
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]
