"""The page of a topic shows what is known, where a part of the cluster does not answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.client.admin.admin_types import TopicDescription
from penstock.client.cluster.offsets import OffsetInfo
from penstock.console.pages.topic import show_topic
from penstock.errors import TimedOutError
from penstock.messages.metadata import PartitionInfo
from penstock.types import TopicPartition
from tests.support.console_pages import view_of

HUNG = 2


class FakeAdmin:
    """Partition 0 is led by broker 1, and 1 by broker 2, which hangs."""

    async def describe_topic(self, name: str) -> TopicDescription:
        return TopicDescription(name, "id", tuple(PartitionInfo(n, n + 1, 1, 0, (1, 2), (1, 2)) for n in range(2)))

    async def describe_topic_config(self, name: str) -> dict[str, Any]:
        return {}

    async def list_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetInfo]:
        if any(tp.partition + 1 == HUNG for tp in partitions):
            raise TimedOutError("broker 2 has not answered")
        return {tp: OffsetInfo(7, -1, 3) for tp in partitions}

    async def describe_log_dirs(self, brokers: Any, topics: Any) -> dict[int, Any]:
        return {}


def test_a_leader_that_hangs_hides_no_offsets_but_its_own() -> None:
    view = view_of(show_topic, FakeAdmin(), name="orders")
    assert [(row.earliest, row.latest) for row in view.partitions] == [(7, 7), (None, None)]
    assert view.offsets_error == "broker 2 has not answered"
