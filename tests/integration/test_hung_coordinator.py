"""A group's coordinator hangs (SIGSTOP) beside its lease, and goes on: another one has taken commits meanwhile, and
nobody is told an older offset.

Not here: a coordinator that the other nodes cannot reach (test_deposed_coordinators.py).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from penstock import Admin, CommittedOffset, TopicPartition
from penstock.errors import PenstockError
from penstock.testing import Cluster

GROUP, PLACE = "g", TopicPartition("t", 0)
CONFIG: dict[str, object] = {"offsets.topic.num.partitions": 1}
ASKERS, ASKED = 4, 10
ASK_MS = 3_000


def test_a_coordinator_that_hung_tells_no_offset_from_before() -> None:
    with Cluster(3, CONFIG) as cluster, Admin(cluster.bootstrap) as admin:
        admin.create_topic("t", 1)
        admin.alter_group_offsets(GROUP, {PLACE: CommittedOffset(1)})
        hung = cluster.leader("__consumer_offsets")
        with Admin(cluster.endpoint(hung), default_api_timeout_ms=ASK_MS) as through_it:
            assert through_it.group_offsets(GROUP)[PLACE].offset == 1
            with ThreadPoolExecutor(ASKERS) as threads:
                with cluster.paused(hung):
                    admin.alter_group_offsets(GROUP, {PLACE: CommittedOffset(2)})
                    assert cluster.leader("__consumer_offsets") != hung
                    asked = [threads.submit(offsets_of, through_it) for _ in range(ASKERS)]
                offsets = [offset for one in asked for offset in one.result()]
        assert set(offsets) == {2}


def offsets_of(admin: Admin) -> list[int]:
    """The first question waits at the node that hangs."""
    offsets = []
    for _ in range(ASKED):
        with suppress(PenstockError):
            offsets.append(admin.group_offsets(GROUP)[PLACE].offset)
    return offsets
