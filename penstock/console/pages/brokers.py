"""The brokers: what each has, its state, and the room on its disks."""

from __future__ import annotations

import asyncio

from penstock.client.admin.admin_types import BrokerDescription
from penstock.client.admin.health.judge import address
from penstock.client.admin.log_dirs import BrokerLogDirs
from penstock.console.page import PageAsked
from penstock.errors import AuthorizationFailedError
from penstock.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """One broker, in the words of `penstock brokers list`."""

    broker: int
    address: str
    rack: str
    state: str
    replicas: int
    leaders: int
    cordoned: bool
    size_bytes: int | None
    """The size of its replicas; None where it does not say."""
    usable_bytes: int | None
    total_bytes: int | None
    error: str
    """Why it does not tell of its disks."""


@dataclass(frozen=True, slots=True)
class BrokersView:
    """Every registered broker."""

    brokers: tuple[BrokerRow, ...]
    missing_right: str
    """The right without which no disk is shown."""


async def show_brokers(asked: PageAsked) -> BrokersView:
    """Asks for the brokers and, of each, for its log dirs; one that does not answer has no sizes."""
    described, (log_dirs, refusal) = await asyncio.gather(asked.admin.describe_brokers(), log_dirs_or_refusal(asked))
    return BrokersView(tuple(broker_row(one, log_dirs.get(one.broker.node_id)) for one in described), refusal)


async def log_dirs_or_refusal(
    asked: PageAsked, broker_ids: tuple[int, ...] | None = None, topics: tuple[str, ...] = ()
) -> tuple[dict[int, BrokerLogDirs], str]:
    """The log dirs of brokers, or the right that the user lacks for them."""
    try:
        return await asked.admin.describe_log_dirs(broker_ids, topics), ""
    except AuthorizationFailedError as error:
        return {}, str(error)


def broker_row(described: BrokerDescription, dirs: BrokerLogDirs | None) -> BrokerRow:
    """The row of one broker."""
    broker = described.broker
    known = dirs is not None and dirs.error is None
    found = dirs.log_dirs if dirs is not None else ()
    return BrokerRow(
        broker=broker.node_id,
        address=address(broker),
        rack=broker.rack,
        state="fenced" if broker.fenced else "in service",
        replicas=described.replicas,
        leaders=described.leaders,
        cordoned=broker.cordoned,
        size_bytes=sum(one.size_bytes for one in found) if known else None,
        usable_bytes=_sum_known([one.usable_bytes for one in found]) if known else None,
        total_bytes=_sum_known([one.total_bytes for one in found]) if known else None,
        error=str(dirs.error) if dirs is not None and dirs.error is not None else "",
    )


def _sum_known(sizes: list[int]) -> int | None:
    """The sum; None where one is not known."""
    return None if not sizes or min(sizes) < 0 else sum(sizes)
