"""Public keys stay fresh, and the old ones in force: in virtual time, with an issuer that can be made to fail."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import cast

import pytest

from broker.authentication.tokens.key_source import (
    FILE_REFRESH_MS_MAX,
    LEARN_MS_MIN,
    LEARN_SECONDS,
    KeySource,
)
from broker.authentication.tokens.ports import KeySourceSettings
from penstock.backoff import Backoff
from tests.support.issuer import Issuer, ec_key
from tests.support.virtual_time import VirtualTimeLoop, run_virtual

PAGE, HOUR_MS = "https://issuer.example/keys", 3_600_000
OLD, NEW = Issuer(ec_key("old")), Issuer(ec_key("old"), ec_key("new"))


class Stage:
    """A source, and what its issuer answers."""

    def __init__(self, url: str = PAGE) -> None:
        self.loop = cast(VirtualTimeLoop, asyncio.get_running_loop())
        settings = KeySourceSettings(url, HOUR_MS, 100, 10_000)
        self.source = KeySource(settings, Backoff(100, 10_000, Random(1)), self.loop.now_ms)
        self.answer: bytes | Exception = OLD.key_set
        self.takes_s, self.asked_ms = 0.0, list[int]()

    async def fetch(self, url: str) -> bytes:
        assert url == self.source.url
        self.asked_ms.append(self.loop.now_ms())
        await asyncio.sleep(self.takes_s)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def knows(self, kid: str) -> bool:
        return self.source.keys is not None and bool(self.source.keys.of(kid, "ES256"))


def run(story: Callable[[Stage], Awaitable[None]], url: str = PAGE) -> None:
    async def main() -> None:
        stage = Stage(url)
        serving = asyncio.create_task(stage.source.serve(stage.fetch))
        await asyncio.sleep(0.001)
        await story(stage)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    run_virtual(main())


def test_keys_are_asked_for_again_and_again() -> None:
    async def story(stage: Stage) -> None:
        assert stage.knows("old") and not stage.knows("new")
        stage.answer = NEW.key_set
        await asyncio.sleep(HOUR_MS / 1000)
        assert stage.knows("new") and len(stage.asked_ms) == 2

    run(story)


def test_a_file_is_looked_at_sooner() -> None:
    async def story(stage: Stage) -> None:
        await asyncio.sleep(10 * FILE_REFRESH_MS_MAX / 1000)
        assert len(stage.asked_ms) == 11

    run(story, "file:///keys")


@pytest.mark.parametrize(
    "failure", [OSError(f"{PAGE}: answers 503"), b"<html>", b'{"keys": []}', RuntimeError("a mistake of ours")]
)
def test_what_does_not_work_leaves_the_old_keys_in_force(
    caplog: pytest.LogCaptureFixture, failure: bytes | Exception
) -> None:
    async def story(stage: Stage) -> None:
        stage.answer = failure
        await asyncio.sleep(HOUR_MS / 1000 + 60)
        assert stage.knows("old") and stage.source.refused
        gaps = [later - earlier for earlier, later in zip(stage.asked_ms[1:], stage.asked_ms[2:], strict=False)]
        assert 80 <= gaps[0] <= 100 and 8_000 <= gaps[-1] <= 10_000 and len(gaps) < 16
        said = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert len(said) == 1 and "the old ones go on" in said[0].getMessage() and PAGE in said[0].getMessage()
        stage.answer = NEW.key_set
        await asyncio.sleep(10)
        assert stage.knows("new") and not stage.source.refused

    run(story)


def test_without_any_key_the_log_says_that_nobody_can_log_in(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        stage = Stage()
        stage.answer = OSError(f"{PAGE}: connection refused")
        serving = asyncio.create_task(stage.source.serve(stage.fetch))
        await asyncio.sleep(1)
        serving.cancel()
        assert stage.source.keys is None

    run_virtual(main())
    assert "nobody can log in by a token" in caplog.text


def test_an_unknown_key_is_asked_for_at_once_and_for_all_who_wait() -> None:
    async def story(stage: Stage) -> None:
        stage.answer, stage.takes_s = NEW.key_set, 1.0
        assert await asyncio.gather(*[stage.source.learn() for _ in range(50)]) == [True] * 50
        assert stage.knows("new") and len(stage.asked_ms) == 2

    run(story)


def test_who_makes_up_names_of_keys_has_the_issuer_asked_now_and_then_only() -> None:
    async def story(stage: Stage) -> None:
        for _ in range(1_000):
            await stage.source.learn()
            await asyncio.sleep(0.1)
        assert len(stage.asked_ms) == 1 + 100_000 // LEARN_MS_MIN

    run(story)


def test_a_log_in_does_not_wait_for_ever_for_an_issuer_that_hangs() -> None:
    async def story(stage: Stage) -> None:
        stage.takes_s = 1_000.0
        began = stage.loop.now_ms()
        assert not await stage.source.learn()
        assert stage.loop.now_ms() - began == LEARN_SECONDS * 1000 and stage.source.is_fetching

    run(story)


def test_nobody_is_asked_before_the_node_serves() -> None:
    async def main() -> None:
        assert not await Stage().source.learn()

    run_virtual(main())
