"""The pages of a host at its `metrics.listener`: `/metrics` of all nodes as one, `/livez`, `/readyz`.

The nodes' own pages are on 127.0.0.1 and are fetched when somebody asks, all at once; what was made is kept for
KEPT_SECONDS, so that a flood of requests makes one a second. A node that does not answer is left out, and
`penstock_host_node_up` says so. `/readyz` answers 200 while every node of the host is in service.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from broker.host.host_core import NodeState
from broker.host.pages_as_one import LABEL, one_page
from broker.metrics.exposition import PROMETHEUS_TEXT
from broker.metrics.metrics_text import metrics_text
from broker.metrics.page_server import TEXT, Page
from penstock.lazy_dataclass import dataclass
from penstock.types import Endpoint

PAGE_BYTES_MAX: Final = 64 * 1024 * 1024
FETCH_SECONDS: Final = 8.0
"""Prometheus gives up after ten."""
KEPT_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node as the host sees it now."""

    node_id: int
    name: str
    """The value of the label: what a scrape of the node alone would be called."""
    page: Endpoint | None
    state: NodeState
    restarts: int


class HostPages:
    """The pages by path; all of it runs in the thread of the page server."""

    def __init__(self, facts: Callable[[], list[NodeFacts]]) -> None:
        self._facts = facts
        self._kept: tuple[float, Page] | None = None
        self._lock: asyncio.Lock | None = None

    def page_of(self, path: str) -> Awaitable[Page] | None:
        """The page; None if the path has none."""
        if path == "/metrics":
            return self._metrics()
        if path == "/livez":
            return _done(Page('{"check": "host", "ok": true}\n', "application/x-ndjson"))
        return _done(self._ready()) if path == "/readyz" else None

    def _ready(self) -> Page:
        facts = self._facts()
        lines = []
        for node in facts:
            found: dict[str, object] = {"check": f"node {node.node_id}", "ok": node.state is NodeState.RUNNING}
            lines.append(json.dumps(found if found["ok"] else {**found, "missing": f"it is {node.state.value}"}) + "\n")
        return Page("".join(lines), "application/x-ndjson", all(node.state is NodeState.RUNNING for node in facts))

    async def _metrics(self) -> Page:
        self._lock = self._lock or asyncio.Lock()
        async with self._lock:
            if self._kept is None or time.monotonic() - self._kept[0] > KEPT_SECONDS:
                page = await self._made()
                self._kept = time.monotonic(), page
            return self._kept[1]

    async def _made(self) -> Page:
        facts = self._facts()
        texts = await asyncio.gather(*(_fetched(node.page) for node in facts))
        pages = {node.name: text for node, text in zip(facts, texts, strict=True) if text is not None}
        own = metrics_text(HostReadings(facts, {node.name for node in facts} & pages.keys()))
        return Page(own + one_page(pages), PROMETHEUS_TEXT)


class HostReadings:
    """The metrics of the host about its nodes."""

    def __init__(self, facts: list[NodeFacts], answered: set[str]) -> None:
        self._facts, self._answered = facts, answered

    def collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily(
            "penstock_host_node_up", "1 while the node is in service and its page answers.", labels=[LABEL, "node"]
        )
        restarts = CounterMetricFamily(
            "penstock_host_node_restarts",
            "Times that the host has started the node again after its process had ended by itself.",
            labels=[LABEL, "node"],
        )
        for node in self._facts:
            labels = [node.name, str(node.node_id)]
            up.add_metric(labels, node.state is NodeState.RUNNING and node.name in self._answered)
            restarts.add_metric(labels, node.restarts)
        yield up
        yield restarts


async def _fetched(page: Endpoint | None) -> str | None:
    """The text of the node's `/metrics`; None if it does not answer in time."""
    if page is None:
        return None
    try:
        async with asyncio.timeout(FETCH_SECONDS):
            return await _get(page, "/metrics")
    except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
        return None


async def _get(page: Endpoint, path: str) -> str:
    reader, writer = await asyncio.open_connection(page.host, page.port)
    try:
        writer.write(f"GET {path} HTTP/1.0\r\nHost: {page.host}\r\nConnection: close\r\n\r\n".encode())
        status = await reader.readline()
        while (await reader.readline()).strip():
            pass
        body = bytearray()
        while part := await reader.read(1 << 16):
            body += part
            if len(body) > PAGE_BYTES_MAX:
                raise ValueError("the page has no end")
        if status.split(b" ", 2)[1:2] != [b"200"]:
            raise ValueError(f"the page answers {status!r}")
        return body.decode("utf-8", "replace")
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _done(page: Page) -> Page:
    return page


NOT_FOUND: Final = Page("the pages are /metrics, /livez and /readyz\n", TEXT, ok=False)


def scrape_names(address: str, pages: Mapping[int, Endpoint | None]) -> dict[int, str]:
    """The label of each node: the host's address and the port of the node's own page; its id where it has none."""
    return {node_id: f"{address}:{node_id if page is None else page.port}" for node_id, page in pages.items()}
