"""Cordons brokers and log dirs by the broker's dynamic config `cordoned.log.dirs`, and takes it back (KIP-1066).

`*` is every log dir of the broker. Log dirs are asked of the broker itself: a path that it does not have is refused. A
broker that is away is cordoned all the same; then a path cannot be checked.

A drain cordons its broker first (`cordoned_while`). A cluster that knows no such key, or an operator who may not set
it, drains without: topics that are created meanwhile may place replicas there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.cli.output import note
from penstock.errors import (
    AuthorizationFailedError,
    ConfigError,
    InvalidConfigError,
    PenstockError,
)

if TYPE_CHECKING:
    from penstock.client.admin.admin import Admin
    from penstock.client.admin.admin_types import ConfigEntry

KEY = "cordoned.log.dirs"
EVERY_DIR = "*"
OF_FILE = "STATIC_BROKER_CONFIG"


def cordon_broker(admin: Admin, broker_id: int, log_dirs: list[str]) -> str:
    """Cordons these log dirs too, or without one the whole broker; the value that the key has then."""
    if not log_dirs:
        return _set(admin, broker_id, EVERY_DIR)
    wanted = [os.path.normpath(path) for path in log_dirs]
    known, entry = _checked(admin, broker_id, wanted), _entry(admin, broker_id)
    if entry is None:
        admin.alter_broker_config(broker_id, {}, append={KEY: wanted})
        note(f"broker {broker_id} is away: it says which of its log dirs are cordoned when it is back")
        return ",".join(wanted)
    now = _items(entry)
    if EVERY_DIR in now or (known and set(known) <= {*now, *wanted}):
        return _set(admin, broker_id, EVERY_DIR)
    return _set(admin, broker_id, ",".join(dict.fromkeys((*now, *wanted))))


def uncordon_broker(admin: Admin, broker_id: int, log_dirs: list[str]) -> str:
    """Lets new replicas come to these log dirs again, or without one to the whole broker; the value then."""
    freed = [os.path.normpath(path) for path in log_dirs]
    known, entry = _checked(admin, broker_id, freed), _entry(admin, broker_id)
    if not freed:
        if entry is not None and entry.source != OF_FILE:
            admin.alter_broker_config(broker_id, {KEY: None})
            entry = _entry(admin, broker_id)
        return "" if entry is not None and not _items(entry) else _set(admin, broker_id, "")
    if entry is None:
        admin.alter_broker_config(broker_id, {}, subtract={KEY: freed})
        note(f"broker {broker_id} is away: it says which of its log dirs are cordoned when it is back")
        return ""
    now = known if EVERY_DIR in _items(entry) else _items(entry)
    return _set(admin, broker_id, ",".join(path for path in now if path not in freed))


@contextmanager
def cordoned_while(admin: Admin, broker_id: int) -> Iterator[None]:
    """Cordons the broker. It stays cordoned after the work inside; work that ends with an error, or is interrupted,
    leaves the value that the key had before."""
    try:
        entry = _entry(admin, broker_id)
        _set(admin, broker_id, EVERY_DIR)
    except (AuthorizationFailedError, InvalidConfigError) as error:
        note(f"broker {broker_id} is not cordoned, so topics that are created now may place replicas there: {error}")
        yield
        return
    before = entry.value if entry is not None and entry.source == "DYNAMIC_BROKER_CONFIG" else None
    try:
        yield
    except BaseException:
        _take_back(admin, broker_id, before)
        raise
    note(f"broker {broker_id} stays cordoned; `penstock brokers uncordon {broker_id}` lets replicas come again")


def _take_back(admin: Admin, broker_id: int, before: str | None) -> None:
    try:
        admin.alter_broker_config(broker_id, {KEY: before})
    except PenstockError as error:
        note(f"broker {broker_id} is still cordoned: {error}; `penstock brokers uncordon {broker_id}` ends that")
    else:
        if before is None:
            note(f"broker {broker_id} is no longer cordoned")


def _set(admin: Admin, broker_id: int, value: str) -> str:
    admin.alter_broker_config(broker_id, {KEY: value})
    return value


def _entry(admin: Admin, broker_id: int) -> ConfigEntry | None:
    """The key as the broker has it; None if the broker is away, or too old to have it."""
    try:
        return admin.describe_broker_config(broker_id).get(KEY)
    except AuthorizationFailedError:
        raise
    except PenstockError:
        return None


def _items(entry: ConfigEntry) -> list[str]:
    return [item for item in (entry.value or "").split(",") if item]


def _checked(admin: Admin, broker_id: int, wanted: list[str]) -> list[str]:
    """The log dirs of the broker, empty if it does not say; ConfigError if it has not all that are wanted."""
    if not wanted:
        return []
    found = admin.describe_log_dirs([broker_id]).get(broker_id)
    known = [] if found is None or found.error is not None else [one.path for one in found.log_dirs]
    unknown = [path for path in wanted if path not in known]
    if known and unknown:
        raise ConfigError(f"--log-dir {unknown[0]}: broker {broker_id} has {', '.join(known)}")
    return known
