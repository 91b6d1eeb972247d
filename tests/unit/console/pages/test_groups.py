"""A coordinator that hangs holds up neither the list of groups nor a topic's readers."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.admin import GroupListing, GroupType, TopicDescription
from penstock.client.admin.groups.group_types import PartitionLag
from penstock.console.cluster_link import PAGE_SECONDS
from penstock.console.fields import Fields
from penstock.console.page import PageAsked
from penstock.console.pages.groups import LAGS_AT_ONCE, show_groups
from penstock.console.pages.usage import show_usage
from penstock.types import TopicPartition
from tests.support.console_pages import SETTINGS, FakeAdminLink
from tests.support.virtual_time import run_virtual

HUNG, WELL = "hung", "well"


class FakeAdmin:
    """More groups than are asked at a time have a coordinator that does not answer; one has another."""

    async def list_groups(self, states: Any = ()) -> list[GroupListing]:
        names = [f"{HUNG}-{n}" for n in range(LAGS_AT_ONCE + 1)]
        return [GroupListing(name, "Stable", GroupType.CLASSIC, "consumer", 1) for name in (WELL, *names)]

    async def group_lag(self, group_id: str) -> dict[TopicPartition, PartitionLag]:
        if group_id != WELL:
            await asyncio.sleep(3_600)
        return {}

    async def describe_topic(self, name: str) -> TopicDescription:
        return TopicDescription(name, "id", ())


def test_groups_whose_coordinator_hangs_are_rows_without_a_lag() -> None:
    async def story() -> None:
        begun = asyncio.get_running_loop().time()
        view = await show_groups(PageAsked(FakeAdminLink(FakeAdmin()), Fields({}), SETTINGS, 0))
        assert asyncio.get_running_loop().time() - begun < PAGE_SECONDS
        well, *hung = view.groups
        assert (well.lag, well.error) == (0, "")
        assert len(hung) == LAGS_AT_ONCE + 1
        assert {(row.lag, row.error) for row in hung} == {(None, "no answer within 5 s")}

    run_virtual(story())


def test_groups_that_do_not_answer_are_told_beside_a_topics_readers() -> None:
    async def story() -> None:
        begun = asyncio.get_running_loop().time()
        view = await show_usage(PageAsked(FakeAdminLink(FakeAdmin()), Fields({"topic": "orders"}), SETTINGS, 0))
        assert asyncio.get_running_loop().time() - begun < PAGE_SECONDS
        assert view.groups_error.startswith(f"{LAGS_AT_ONCE + 1} groups gave no answer; hung-")

    run_virtual(story())
