"""One broker: its log dirs with their disks, and the configuration that is not the default."""

from __future__ import annotations

import asyncio

from penstock.console.page import PageAsked, PartTime
from penstock.console.pages.brokers import BrokerRow, broker_row, log_dirs_or_refusal
from penstock.errors import ApiError, BrokerIdNotRegisteredError, TimedOutError
from penstock.lazy_dataclass import dataclass
from penstock.messages.configs import ConfigEntry
from penstock.written.numbers import INT32_MAX


@dataclass(frozen=True, slots=True)
class LogDirRow:
    """One log dir, in the words of `penstock log-dirs describe`."""

    log_dir: str
    directory_id: str
    replicas: int
    coming: int
    """Replicas that move to it from another log dir."""
    size_bytes: int
    usable_bytes: int
    total_bytes: int
    cordoned: bool
    error: str


@dataclass(frozen=True, slots=True)
class BrokerView:
    """One broker."""

    broker: BrokerRow
    log_dirs: tuple[LogDirRow, ...]
    configs: tuple[ConfigEntry, ...]
    """The keys that are not at their default."""
    configs_error: str
    """Why there are none: the right that is missing, or the broker that does not answer."""
    missing_right: str


async def show_broker(asked: PageAsked) -> BrokerView:
    """Asks the cluster for the broker, and the broker for the rest."""
    node_id = asked.fields.number("id", None, 0, INT32_MAX)
    described = {one.broker.node_id: one for one in await asked.admin.describe_brokers()}
    if node_id not in described:
        known = ", ".join(map(str, described))
        raise BrokerIdNotRegisteredError(f"broker {node_id} is not registered; these are: {known}")
    (found, refusal), (configs, error) = await asyncio.gather(
        log_dirs_or_refusal(asked, (node_id,)), _configs(asked, node_id)
    )
    dirs = found.get(node_id)
    return BrokerView(
        broker=broker_row(described[node_id], dirs),
        log_dirs=tuple(
            LogDirRow(
                log_dir=one.path,
                directory_id=one.directory_id,
                replicas=len(one.replicas),
                coming=len(one.coming),
                size_bytes=one.size_bytes,
                usable_bytes=one.usable_bytes,
                total_bytes=one.total_bytes,
                cordoned=one.is_cordoned,
                error=str(one.error or ""),
            )
            for one in (dirs.log_dirs if dirs is not None else ())
        ),
        configs=configs,
        configs_error=error,
        missing_right=refusal,
    )


async def _configs(asked: PageAsked, node_id: int) -> tuple[tuple[ConfigEntry, ...], str]:
    try:
        async with PartTime().part():
            entries = await asked.admin.describe_broker_config(node_id)
    except (ApiError, TimedOutError) as error:
        return (), str(error)
    return tuple(entry for _, entry in sorted(entries.items()) if not entry.is_default), ""
