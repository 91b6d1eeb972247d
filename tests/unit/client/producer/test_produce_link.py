"""A produce stream to one broker."""

from __future__ import annotations

import asyncio
import gc
import warnings
from types import SimpleNamespace
from typing import cast

from penstock.client.producer.sending.produce_link import ProduceLink
from penstock.client.wire.connection import Connection
from penstock.clock import ManualClock
from penstock.types import Endpoint


def test_a_link_that_is_given_up_before_its_tasks_run_leaves_nothing_behind() -> None:
    stream = SimpleNamespace(cancel=lambda: None)
    connection = SimpleNamespace(endpoint=Endpoint("a", 1), open_produce=lambda: stream)

    async def give_up() -> None:
        link = ProduceLink(cast(Connection, connection), ManualClock(), lambda *_: None, lambda *_: None)
        link.take_unanswered()
        await link.close()

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        asyncio.run(give_up())
        gc.collect()
    assert [str(one.message) for one in found] == [], "a coroutine was made and never awaited"
