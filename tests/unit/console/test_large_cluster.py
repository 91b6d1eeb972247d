"""Pages at 1,000 topics of 12 partitions and 500 groups, with simulated answers: bounded in size, and without a stall.

The time is that of this thread's processor, so that a busy machine changes nothing: the console answers nobody else in
it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import httpx

from penstock.admin import PartitionLag
from penstock.clock import Clock, ManualClock
from penstock.console.app import create_app
from penstock.console.cluster_link import ClusterLink
from penstock.console.settings import ConsoleSettings
from penstock.console.watching.cluster_watch import ClusterWatch
from penstock.console.watching.round_sample import GroupSample, RoundSample
from penstock.types import TopicPartition
from tests.support.large_cluster import GROUP_IDS, NAMES, PARTITIONS, LargeCluster

ORIGIN = "http://127.0.0.1:9180"
PAGE_BYTES_MAX = 300_000
PAGE_CPU_S_MAX = 2.0


def test_pages_of_a_large_cluster_are_bounded_and_do_not_stall() -> None:
    admin, clock = LargeCluster(), ManualClock(10_000)
    settings = ConsoleSettings(bootstrap="none:1", origins=(ORIGIN,))
    watch = ClusterWatch(settings, clock=clock)
    found: dict[str, tuple[int, float]] = {}

    class LargeLink(ClusterLink):
        @property
        def admin(self) -> Any:
            return admin

        async def reach(self) -> None:
            return None

    def measured(name: str, size: Callable[[], int]) -> None:
        begun = time.thread_time()
        found[name] = size(), time.thread_time() - begun

    async def story() -> None:
        lags = {group: await admin.group_lag(group) for group in GROUP_IDS}
        for turn in range(3):
            measured(f"a look, number {turn}", partial(observe, watch, clock, admin, lags, turn))
        app = create_app(settings, watch=watch, clock=clock, make_link=make_link)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=ORIGIN) as browser:
            for path in (
                "/topics",
                "/groups",
                "/topics.json",
                "/pictures",
                "/flow",
                "/layout",
                "/events",
                "/series?subject=topic-records",
                "/series.json?subject=topic-records",
            ):
                begun = time.thread_time()
                answer = await browser.get(path)
                assert answer.status_code == 200, answer.text
                found[path] = len(answer.content), time.thread_time() - begun

    def make_link(bootstrap: str, options: Mapping[str, Any], clock: Clock) -> ClusterLink:
        return LargeLink(bootstrap, options, clock)

    asyncio.run(story())
    assert {name: size for name, (size, _) in found.items() if size > PAGE_BYTES_MAX} == {}
    assert {name: seconds for name, (_, seconds) in found.items() if seconds > PAGE_CPU_S_MAX} == {}


def observe(
    watch: ClusterWatch,
    clock: ManualClock,
    admin: LargeCluster,
    lags: Mapping[str, Mapping[TopicPartition, PartitionLag]],
    turn: int,
) -> int:
    """One look at everything at once, which the sampler does in parts."""
    groups = {
        group: GroupSample("Stable", 1, dict.fromkeys(known, 5 + turn), {tp: one.lag or 0 for tp, one in known.items()})
        for group, known in lags.items()
    }
    ends = {TopicPartition(name, p): 100 * turn for name in NAMES for p in range(PARTITIONS)}
    topics = list(admin.topics.values())
    watch.hour.observe(clock.boot_ms(), RoundSample(topics=topics, ends=ends, groups=groups, listed_groups=GROUP_IDS))
    clock.advance(5_000)
    return 0
