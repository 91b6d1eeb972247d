"""The operators' HTTP pages: what each path answers, on a real socket."""

from __future__ import annotations

import asyncio
import gzip
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future

import pytest
from prometheus_client import CollectorRegistry, Gauge

from broker.metrics.exposition import (
    KEPT_SECONDS_MAX,
    MAKING_SECONDS_MAX,
    MAKING_SHARE,
    KeptPage,
    serve_pages,
)
from broker.metrics.page_server import Page
from penstock.errors import ConfigError
from penstock.testing.ports import HOST, free_ports
from penstock.types import Endpoint
from tests.support.virtual_time import VirtualTimeLoop, run_virtual


@pytest.fixture(scope="module")
def served() -> Iterator[Endpoint]:
    registry, endpoint = CollectorRegistry(), Endpoint(HOST, free_ports(1)[0].metrics)
    Gauge("one", "It is one.", registry=registry).set(1)
    pages = {"/bad": lambda: Page("no\n", "text/plain", ok=False)}
    stop = serve_pages(endpoint, registry, pages)
    yield endpoint
    stop()


def get(endpoint: Endpoint, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{endpoint}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_each_path_has_its_page(served: Endpoint) -> None:
    status, text = get(served, "/metrics")
    assert status == 200 and "\none 1.0\n" in text
    assert get(served, "/bad") == (503, "no\n")
    assert get(served, "/metricz") == (404, "no such page; there are /metrics, /bad\n")


def test_a_page_is_compressed_for_a_client_that_asks_for_it(served: Endpoint) -> None:
    request = urllib.request.Request(f"http://{served}/metrics", headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(answer.read()).decode() == get(served, "/metrics")[1]


def test_an_address_that_is_taken_names_the_key(served: Endpoint) -> None:
    with pytest.raises(ConfigError, match=rf"metrics.listener: cannot listen on {served}: .*; choose a free port"):
        serve_pages(served, CollectorRegistry(), {})


class Inline(Executor):
    """A thread whose work takes a while of virtual time."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop, self.seconds = loop, 0.05

    def submit(self, work: Callable[..., Page], /, *args: object, **kwargs: object) -> Future[Page]:  # type: ignore[override]
        done: Future[Page] = Future()
        self._loop.call_later(self.seconds, lambda: done.set_result(work()))
        return done


def test_pages_take_a_tenth_of_a_core_however_many_ask_and_are_never_old() -> None:
    made: list[float] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)

        def make() -> Page:
            made.append(loop.time())
            return Page(str(len(made)), "text/plain")

        executor = Inline(loop)
        kept = KeptPage(make, executor)
        assert [page.text for page in await asyncio.gather(*(kept.get() for _ in range(8)))] == ["1"] * 8
        until = loop.time() + 60
        while loop.time() < until:
            page = await kept.get()
            assert loop.time() - made[int(page.text) - 1] <= KEPT_SECONDS_MAX
            await asyncio.sleep(0.01)
        assert len(made) * executor.seconds <= 60 * MAKING_SHARE + MAKING_SECONDS_MAX + 2 * executor.seconds
        await asyncio.sleep(60)
        before = len(made)
        for _ in range(5):
            await kept.get()
            await asyncio.sleep(0.1)
        assert len(made) == before + 5, "now and then each asker has a new one"

    run_virtual(story())


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_an_ipv6_address_is_served() -> None:
    endpoint = Endpoint("::1", free_ports(1)[0].metrics)
    try:
        stop = serve_pages(endpoint, CollectorRegistry(), {})
    except ConfigError:
        pytest.skip("this machine has no ::1")
    assert get(endpoint, "/metrics")[0] == 200
    stop()
