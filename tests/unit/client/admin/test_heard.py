"""A change that some broker does not hear of ends within the time limit of its call; the error says that it is made."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.client.admin.async_admin import AsyncAdmin
from penstock.errors import TimedOutError
from tests.support.client_environment import fake_environment
from tests.support.fake_nodes import TOPIC, FakeNodes
from tests.support.virtual_time import run_virtual

LIMIT_MS = 2_000
NEW = "new"


def _create(admin: AsyncAdmin, nodes: FakeNodes) -> Awaitable[Any]:
    nodes.cluster.freeze_metadata(2, NEW)
    return admin.create_topic(NEW)


def _delete(admin: AsyncAdmin, nodes: FakeNodes) -> Awaitable[Any]:
    nodes.cluster.freeze_metadata(2, TOPIC)
    return admin.delete_topic(TOPIC)


def _alter(admin: AsyncAdmin, nodes: FakeNodes) -> Awaitable[Any]:
    nodes.cluster.metadata_offset = 10**9
    return admin.alter_topic_config(TOPIC, {"retention.ms": 5})


@pytest.mark.parametrize("hangs", [False, True], ids=["one lags", "all hang"])
@pytest.mark.parametrize(
    ("change", "said"), [(_create, "was created, but"), (_delete, "was deleted, but"), (_alter, "change was made, but")]
)
def test_a_change_that_a_broker_does_not_hear_of_ends_at_the_limit_of_the_call(
    change: Callable[[AsyncAdmin, FakeNodes], Awaitable[Any]], said: str, hangs: bool
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        nodes = FakeNodes({0: 1}, 3)
        bootstrap = [str(endpoint) for endpoint in nodes.bootstrap]
        environment = fake_environment(nodes.network)
        async with AsyncAdmin(bootstrap, environment=environment, default_api_timeout_ms=LIMIT_MS) as admin:
            began_s = loop.time()
            under_way = asyncio.ensure_future(change(admin, nodes))
            await asyncio.sleep(LIMIT_MS / 4 / 1000)
            for node in (1, 2, 3) if hangs else ():
                nodes.hang(node)
            with pytest.raises(TimedOutError, match=said):
                await under_way
            assert LIMIT_MS * 0.9 <= (loop.time() - began_s) * 1000 <= LIMIT_MS * 1.1

    run_virtual(main())
