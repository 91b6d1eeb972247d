"""The feed tells every waiter of the newest state, and limits how many wait."""

from __future__ import annotations

import asyncio

import pytest

from penstock.console.watching.live_feed import LiveFeed, TooManyStreamsError
from tests.support.virtual_time import run_virtual


def test_everybody_who_waits_is_told_of_the_newest_version_once() -> None:
    async def story() -> None:
        feed = LiveFeed()
        waiting = [asyncio.create_task(feed.wait_newer(0, 100)) for _ in range(3)]
        await asyncio.sleep(1)
        feed.note()
        feed.note()
        assert await asyncio.gather(*waiting) == [2, 2, 2]
        assert await feed.wait_newer(1, 100) == 2, "it has missed one, and does not wait"
        begun = asyncio.get_running_loop().time()
        assert await feed.wait_newer(2, 15) == 2, "nothing new"
        assert asyncio.get_running_loop().time() - begun == pytest.approx(15)

    run_virtual(story())


def test_streams_are_limited_in_all_and_for_each_browser() -> None:
    async def story() -> None:
        feed = LiveFeed(waiting_max=3, waiting_of_one_max=2)
        with feed.stream("a"), feed.stream("a"):
            with pytest.raises(TooManyStreamsError, match="too many pages"), feed.stream("a"):
                pass
            with feed.stream("b"), pytest.raises(TooManyStreamsError), feed.stream("c"):
                pass
            assert repr(feed) == "LiveFeed(version 0, 2 streams)"
        assert feed.open_streams == 0

    run_virtual(story())
