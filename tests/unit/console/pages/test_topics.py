"""The list of topics asks the cluster few questions, however many topics there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.client.admin.admin_types import TopicDescription
from penstock.console.page import ROWS_MAX
from penstock.console.pages.topics import show_topics
from penstock.messages.metadata import PartitionInfo
from tests.support.console_pages import view_of

NAMES = [f"topic-{number:04}" for number in range(1_000)]


class CountingAdmin:
    def __init__(self) -> None:
        self.questions = 0
        self.gone: set[str] = set()

    async def list_topics(self) -> list[str]:
        self.questions += 1
        return NAMES

    async def describe_topics(self, names: Sequence[str]) -> list[TopicDescription]:
        self.questions += 1
        infos = tuple(PartitionInfo(n, 1, 1, 0, (1, 2), (1, 2)) for n in range(12))
        return [TopicDescription(name, name, infos) for name in names if name not in self.gone]

    async def describe_log_dirs(self, brokers: Any, topics: Sequence[str]) -> dict[int, Any]:
        self.questions += 1
        return {}


def test_a_part_of_a_thousand_topics_is_three_questions() -> None:
    admin = CountingAdmin()
    view = view_of(show_topics, admin, page="7")
    assert [row.topic for row in view.topics] == NAMES[6 * ROWS_MAX : 7 * ROWS_MAX]
    assert (view.slice.pages, view.slice.total, admin.questions) == (20, 1_000, 3)


def test_a_topic_that_is_deleted_meanwhile_has_no_row_and_a_filter_without_topics_asks_no_more() -> None:
    admin = CountingAdmin()
    admin.gone = {NAMES[1]}
    assert len(view_of(show_topics, admin).topics) == ROWS_MAX - 1
    admin.questions = 0
    assert view_of(show_topics, admin, filter="nowhere").topics == () and admin.questions == 1
