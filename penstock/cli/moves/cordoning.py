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
from typing import TYPE_CHECKING, Any

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
OF_FILE, OWN = "STATIC_BROKER_CONFIG", "DYNAMIC_BROKER_CONFIG"


class Cordons:
    """The cordons of one broker; with `dry_run` a change is only checked."""

    def __init__(self, admin: Admin, broker_id: int, *, dry_run: bool = False) -> None:
        self._admin, self.broker_id, self.dry_run = admin, broker_id, dry_run

    def set(self, value: str | None) -> str:
        """The value that the key has then."""
        self._admin.alter_broker_config(self.broker_id, {KEY: value}, validate_only=self.dry_run)
        return value or ""

    def change_list(self, **lists: list[str]) -> None:
        """`append`, or `subtract`, by the controller: the broker is away, and what it has is not known."""
        changes: dict[str, Any] = {how: {KEY: items} for how, items in lists.items()}
        self._admin.alter_broker_config(self.broker_id, {}, **changes, validate_only=self.dry_run)

    def change_paths(self, **lists: list[str]) -> None:
        """Changes the list by paths, which cannot be checked: the broker is away."""
        self.change_list(**lists)
        note(f"broker {self.broker_id} is away: it says which of its log dirs are cordoned when it is back")

    def entry(self) -> ConfigEntry | None:
        """The key as the broker has it; None if the broker is away, or too old to have it."""
        try:
            return self._admin.describe_broker_config(self.broker_id).get(KEY)
        except AuthorizationFailedError:
            raise
        except PenstockError:
            return None

    def checked(self, wanted: list[str]) -> list[str]:
        """The log dirs of the broker, empty if it does not say; ConfigError if it has not all that are wanted."""
        if not wanted:
            return []
        found = self._admin.describe_log_dirs([self.broker_id]).get(self.broker_id)
        known = [] if found is None or found.error is not None else [one.path for one in found.log_dirs]
        unknown = [path for path in wanted if path not in known]
        if known and unknown:
            raise ConfigError(f"--log-dir {unknown[0]}: broker {self.broker_id} has {', '.join(known)}")
        return known


def cordon_broker(cordons: Cordons, log_dirs: list[str]) -> str:
    """Cordons these log dirs too, or without one the whole broker; the value that the key has then."""
    if not log_dirs:
        return cordons.set(EVERY_DIR)
    wanted = list(dict.fromkeys(map(os.path.normpath, log_dirs)))
    known, entry = cordons.checked(wanted), cordons.entry()
    if entry is None:
        cordons.change_paths(append=wanted)
        return ",".join(wanted)
    now = _items(entry)
    if EVERY_DIR in now or (known and set(known) <= {*now, *wanted}):
        return cordons.set(EVERY_DIR)
    return cordons.set(",".join(dict.fromkeys((*now, *wanted))))


def uncordon_broker(cordons: Cordons, log_dirs: list[str]) -> str:
    """Lets new replicas come to these log dirs again, or without one to the whole broker; the value then. An empty
    value stands over that of the broker's file."""
    freed = list(map(os.path.normpath, log_dirs))
    known, entry = cordons.checked(freed), cordons.entry()
    if not freed:
        if entry is not None and entry.source != OF_FILE:
            cordons.set(None)
            entry = None if cordons.dry_run else cordons.entry()
        return "" if entry is not None and not _items(entry) else cordons.set("")
    if entry is None:
        cordons.change_paths(subtract=freed)
        return ""
    if EVERY_DIR in _items(entry) and not known:
        raise ConfigError(
            f"--log-dir {freed[0]}: broker {cordons.broker_id} is cordoned whole, and does not say which other log dirs"
            " it has; that takes DESCRIBE on the cluster, and a broker that answers"
        )
    now = known if EVERY_DIR in _items(entry) else _items(entry)
    return cordons.set(",".join(path for path in now if path not in freed))


@contextmanager
def cordoned_while(admin: Admin, broker_id: int) -> Iterator[None]:
    """Cordons the broker. It stays cordoned after the work inside; work that ends with an error, or is interrupted,
    leaves the value that the key had before. A broker that is away does not tell that value, so the controller adds
    `*` to it, and takes it off again; nothing is taken back of a broker that was cordoned already."""
    cordons = Cordons(admin, broker_id)
    was_cordoned = any(broker.node_id == broker_id and broker.cordoned for broker in admin.describe_cluster().brokers)
    try:
        entry = cordons.entry()
        if entry is not None:
            cordons.set(EVERY_DIR)
        elif not was_cordoned:
            cordons.change_list(append=[EVERY_DIR])
    except (AuthorizationFailedError, InvalidConfigError) as error:
        note(f"broker {broker_id} is not cordoned, so topics that are created now may place replicas there: {error}")
        yield
        return
    try:
        yield
    except BaseException:
        _take_back(cordons, entry, was_cordoned=was_cordoned)
        raise
    note(f"broker {broker_id} stays cordoned; `penstock brokers uncordon {broker_id}` lets replicas come again")


def _take_back(cordons: Cordons, entry: ConfigEntry | None, *, was_cordoned: bool) -> None:
    broker_id = cordons.broker_id
    try:
        if entry is not None:
            cordons.set(entry.value if entry.source == OWN else None)
        elif not was_cordoned:
            cordons.change_list(subtract=[EVERY_DIR])
    except PenstockError as error:
        note(f"broker {broker_id} is still cordoned: {error}; `penstock brokers uncordon {broker_id}` ends that")
    else:
        note(f"broker {broker_id} " + ("stays cordoned, as it was before" if was_cordoned else "is no longer cordoned"))


def _items(entry: ConfigEntry) -> list[str]:
    """The items as the broker reads them: `configs alter` takes spaces and slashes at an end, too."""
    items = filter(None, map(str.strip, entry.value.split(",")))
    return [item if item == EVERY_DIR else os.path.normpath(item) for item in items]
