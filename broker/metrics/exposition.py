"""The pages of a process at `metrics.listener`: `/metrics` is the registry (metrics_text.py); the other paths are the
callers' (`/livez`, `/readyz`).

They do not need the node's event loop, so a scrape and a probe are answered while logs open and while the loop stands
still. Making `/metrics` takes milliseconds of the lock that all Python threads share. So one is made at a time, in a
thread of its own, and however many scrape, that takes MAKING_SHARE of a core: beyond it they get the last one, which is
KEPT_SECONDS_MAX old at most. The other pages are cheap, and made for each request. Not here: HTTP (page_server.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.process_collector import ProcessCollector

from broker.metrics.metrics_text import metrics_text
from broker.metrics.page_server import PAGE_LIMITS, TEXT, Page, PageLimits, PageServer
from broker.tls.ssl_contexts import ServerContexts
from penstock.errors import ConfigError
from penstock.types import Endpoint

METRICS: Final = "/metrics"
PROMETHEUS_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
MAKING_SHARE: Final = 0.1
MAKING_SECONDS_MAX: Final = 0.5
"""The most time for making pages that is saved up: a client that asks now and then has a new page each time."""
KEPT_SECONDS_MAX: Final = 5.0


def process_registry() -> CollectorRegistry:
    """A registry with the process's own figures."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return registry


def serve_pages(
    endpoint: Endpoint,
    registry: CollectorRegistry,
    pages: Mapping[str, Callable[[], Page]],
    contexts: ServerContexts | None = None,
    limits: PageLimits = PAGE_LIMITS,
) -> Callable[[], None]:
    """Answer from now on; returns a function that ends it. ConfigError if the address cannot be bound.

    `pages` are called in the thread of this server. `contexts` are those of a listener with TLS.
    """
    executor = ThreadPoolExecutor(1, thread_name_prefix="metrics-page")
    metrics = KeptPage(lambda: _metrics_page(registry), executor)

    def page_of(path: str) -> Awaitable[Page] | None:
        if path == METRICS:
            return metrics.get()
        return _made(pages[path]) if path in pages else None

    not_found = Page(f"no such page; there are {', '.join((METRICS, *pages))}\n", TEXT)
    try:
        server = PageServer(endpoint, page_of, not_found, contexts, limits)
    except OSError as error:
        raise ConfigError(
            f"metrics.listener: cannot listen on {endpoint}: {error.strerror}; choose a free port"
        ) from error
    server.start()

    def stop() -> None:
        server.stop()
        executor.shutdown()

    return stop


async def _made(page: Callable[[], Page]) -> Page:
    return page()


def _metrics_page(registry: CollectorRegistry) -> Page:
    page = Page(metrics_text(registry), PROMETHEUS_TEXT)
    len(page.zipped)  # made here and not on the loop: Prometheus always asks for it
    return page


class KeptPage:
    """A page that is made in another thread, by one request at a time, and kept while making it took too long."""

    def __init__(self, make: Callable[[], Page], executor: Executor) -> None:
        self._make, self._executor = make, executor
        self._page: Page | None = None
        self._made_at = self._counted_at = 0.0
        self._left = MAKING_SECONDS_MAX
        """The time that making pages may take now."""
        self._making: asyncio.Task[Page] | None = None

    async def get(self) -> Page:
        """The page as it is now, or was a moment ago."""
        loop = asyncio.get_running_loop()
        if self._making is None:
            now = loop.time()
            self._left = min(self._left + (now - self._counted_at) * MAKING_SHARE, MAKING_SECONDS_MAX)
            self._counted_at = now
            if self._page is not None and self._left <= 0 and now - self._made_at < KEPT_SECONDS_MAX:
                return self._page
            self._making = loop.create_task(self._made())
        return await asyncio.shield(self._making)

    async def _made(self) -> Page:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            self._page = await loop.run_in_executor(self._executor, self._make)
        finally:
            self._making = None
        self._made_at = loop.time()
        self._left -= self._made_at - began
        return self._page

    def __repr__(self) -> str:
        return f"KeptPage({'kept' if self._page is not None else 'not made yet'})"
