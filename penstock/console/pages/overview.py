"""The overview: the health of the cluster as `penstock cluster health` has it, and what to do."""

from __future__ import annotations

import asyncio

from penstock.client.admin.health.health_check import OK, RANKS, ClusterHealth, HealthCheck
from penstock.console.page import PageAsked
from penstock.console.pages.events import EventRow, event_rows, lately
from penstock.console.pages.watched import WatchNote, watch_note
from penstock.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class OverviewView:
    """The cluster in a few lines."""

    health: ClusterHealth
    troubles: tuple[HealthCheck, ...]
    """The checks that are not ok, the worst first."""
    cluster_id: str
    controller_id: int
    brokers: int
    fenced: int
    leaders: int
    """Partitions that have a leader."""
    offline_partitions: int
    lately: tuple[EventRow, ...]
    """The newest events that the console has seen, causes before what follows from them."""
    note: WatchNote


async def show_overview(asked: PageAsked) -> OverviewView:
    """Asks every broker, as `penstock cluster health` does."""
    health, cluster, events = await asyncio.gather(
        asked.admin.cluster_health(), asked.admin.describe_cluster(), event_rows(asked)
    )
    troubles = [check for check in health.checks if check.status != OK]
    return OverviewView(
        health=health,
        troubles=tuple(sorted(troubles, key=lambda check: -RANKS.index(check.status))),
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        brokers=len(cluster.brokers),
        fenced=sum(broker.fenced for broker in cluster.brokers),
        leaders=sum(cluster.leaders.values()),
        offline_partitions=cluster.offline_partitions,
        lately=lately(events),
        note=watch_note(asked),
    )
