"""The watch reaches its cluster as the console's own user, says why it does not, and closes its client."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.console.settings import ConsoleSettings
from penstock.console.watching.cluster_watch import NO_USER, ClusterWatch
from penstock.console.watching.last_hour import HourLimits
from penstock.errors import AuthenticationRequiredError, BootstrapError, SaslAuthenticationFailedError
from tests.support.virtual_time import VirtualTimeLoop, run_virtual
from tests.unit.console.watching.test_sampler import FakeAdmin


class FakeClient(FakeAdmin):
    """An admin client whose first calls may fail."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__()
        self.errors, self.options, self.is_closed = list(errors), dict[str, Any](), False

    def __call__(self, bootstrap: str, **options: Any) -> FakeClient:
        self.options = options
        return self

    async def describe_cluster(self) -> Any:
        if self.errors:
            raise self.errors.pop(0)
        return await super().describe_cluster()

    async def close(self) -> None:
        self.is_closed = True


def watched(client: FakeClient, seconds: float, **settings: Any) -> tuple[ClusterWatch, str]:
    """The watch after as long a time, and its reason a second after its start."""

    async def story() -> tuple[ClusterWatch, str]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        watch = ClusterWatch(
            ConsoleSettings(bootstrap="b:1", origins=("http://h",), **settings),
            limits=HourLimits(step_ms=1_000, steps=60),
            clock=loop,
            make_admin=client,
        )
        running = asyncio.create_task(watch.run())
        await asyncio.sleep(1)
        first = watch.why_not
        await asyncio.sleep(seconds)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return watch, first

    return run_virtual(story())


def test_a_cluster_is_watched_as_the_consoles_own_user() -> None:
    client = FakeClient()
    watch, first = watched(client, 20, own_login={"username": "eye"}, connection={"tls": True})
    assert (first, watch.why_not, watch.part_errors) == ("", "", {})
    assert client.options["username"] == "eye" and client.options["tls"] is True
    assert watch.hour.watched_ms >= 15_000 and 18 <= watch.feed.version <= 23  # once in a step
    assert 2 * client.options["request_timeout_ms"] < client.options["default_api_timeout_ms"]  # another one is asked
    assert client.is_closed
    assert watch.newest_wall_ms <= watch.clock.wall_ms() < watch.newest_wall_ms + 2_000
    assert watch.ago_ms(watch.clock.boot_ms() - 7) == 7
    assert watch.clock.wall_ms() - watch.since_wall_ms == pytest.approx(21_000, abs=1_000)


def test_a_first_answer_that_makes_no_sense_does_not_end_the_watch() -> None:
    client = FakeClient(ValueError("5 is no cluster"))
    watch, first = watched(client, 90)
    assert (first, watch.why_not) == ("the answer cannot be understood: ValueError", "")
    assert watch.hour.watched_ms > 20_000


def test_open_pages_hear_of_numbers_once_in_a_step_and_of_an_event_at_once() -> None:
    def versions(*, is_fenced: bool) -> tuple[int, int]:
        """The versions of the news before and after the broker list of one step, which comes after all else."""

        async def story() -> tuple[int, int]:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualTimeLoop)
            client = FakeClient()
            client.contact_s = 3.0
            limits = HourLimits(step_ms=10_000, steps=6)
            settings = ConsoleSettings(bootstrap="b:1", origins=("http://h",))
            watch = ClusterWatch(settings, limits=limits, clock=loop, make_admin=client)
            running = asyncio.create_task(watch.run())
            await asyncio.sleep(25 - loop.time() % 10)
            if is_fenced:
                client.fenced.add(2)
            found = watch.feed.version
            await asyncio.sleep(10)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            return found, watch.feed.version

        return run_virtual(story())

    before, after = versions(is_fenced=False)
    assert after == before + 1
    assert versions(is_fenced=True) == (before, after + 1)


def test_a_cluster_that_is_away_is_asked_again() -> None:
    watch, first = watched(FakeClient(BootstrapError("no broker"), BootstrapError("none")), 20)
    assert first == "no broker"
    assert watch.why_not == "" and watch.hour.now_ms is not None


@pytest.mark.parametrize("error", [BootstrapError("no broker"), AuthenticationRequiredError("log in")])
def test_open_pages_are_told_to_ask_where_the_watch_hears_nothing(error: Exception) -> None:
    """A page that stood still would go on to say that all is well."""
    watch, _ = watched(FakeClient(*[error] * 100), 30)
    assert watch.hour.now_ms is None and 14 <= watch.feed.version <= 16


def test_a_cluster_with_users_is_not_watched_by_nobody() -> None:
    client = FakeClient(AuthenticationRequiredError("log in"))
    watch, _ = watched(client, 30)
    assert watch.why_not == NO_USER and watch.hour.now_ms is None and watch.since_wall_ms == 0
    assert repr(watch).startswith("ClusterWatch(LastHour(0 rounds")
    wrong = FakeClient(SaslAuthenticationFailedError("the password is wrong"))
    assert watched(wrong, 30, own_login={"username": "eye"})[0].why_not == "the password is wrong"
    assert watched(FakeClient(*[AuthenticationRequiredError("log in")]), 90)[0].why_not == "", "it was asked again"


def test_an_end_wakes_whoever_waits() -> None:
    async def story() -> None:
        watch = ClusterWatch(ConsoleSettings(bootstrap="b:1", origins=("http://h",)), make_admin=FakeClient())
        waiting = asyncio.create_task(watch.feed.wait_newer(0, 1_000))
        await asyncio.sleep(1)
        watch.stop()
        assert await waiting == 1

    run_virtual(story())
