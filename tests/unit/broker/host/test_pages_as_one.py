"""The pages of several nodes become one: each family once, each sample with its node."""

from __future__ import annotations

import asyncio
import random

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.parser import text_string_to_metric_families

from broker.host.host_core import NodeState
from broker.host.host_pages import HostPages, NodeFacts, scrape_names
from broker.host.pages_as_one import one_page
from broker.metrics.metrics_text import metrics_text
from penstock.types import Endpoint


def a_page(value: float, *more: str) -> str:
    registry = CollectorRegistry()
    Gauge("plain", "no labels", registry=registry).set(value)
    Gauge("labelled", 'with "quotes" and { braces }', ["topic"], registry=registry).labels('a{b} "c",d').set(value)
    Counter("counted", "a counter", ["x"], registry=registry).labels("1").inc(value)
    Histogram("took", "a histogram", registry=registry).observe(value)
    for name in more:
        Gauge(name, "of one node alone", registry=registry).set(value)
    return "".join(f"{line}\n" for line in metrics_text(registry).splitlines() if "_created" not in line)


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return found


def test_every_sample_of_every_node_is_there_with_its_name_and_each_family_once() -> None:
    pages = {"h:1": a_page(1, "only_first"), "h:2": a_page(2), 'h"3': a_page(3, "only_last")}
    text = one_page(pages)
    expected = {
        (name, tuple(sorted((*labels, ("instance", of))))): value
        for of, page in pages.items()
        for (name, labels), value in samples(page).items()
    }
    assert samples(text) == expected
    heads = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads)) == len({family.name for family in text_string_to_metric_families(text)})


@pytest.mark.parametrize("seed", range(20))
def test_a_page_that_is_damaged_takes_no_line_of_another(seed: int) -> None:
    rng = random.Random(seed)
    damaged = "".join(rng.choice('#{}\n "=,ax1 HELPTYPE') for _ in range(400))
    page = a_page(2)
    text = one_page({"bad": damaged, "good": page})
    good = [line for line in one_page({"good": page}).splitlines() if not line.startswith("#")]
    assert [line for line in good if line not in text.splitlines()] == []


# -- over HTTP ---------------------------------------------------------------------------------------------------------


def facts(node_id: int, port: int, state: NodeState = NodeState.RUNNING) -> NodeFacts:
    return NodeFacts(node_id, f"h:{node_id}", Endpoint("127.0.0.1", port), state, 3)


async def served(pages: HostPages) -> str:
    page = pages.page_of("/metrics")
    assert page is not None
    return (await page).text


@pytest.mark.parametrize(
    ("answer", "is_up"),
    [
        (b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n# HELP a b\n# TYPE a gauge\na 1\n", True),
        (b"HTTP/1.1 503 busy\r\n\r\n", False),
        (b"", False),
        (b"no http at all", False),
    ],
)
def test_a_node_whose_page_does_not_answer_is_down_and_left_out(answer: bytes, is_up: bool) -> None:
    asked = []

    async def node(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        writer.close()

    async def run() -> str:
        async with await asyncio.start_server(node, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            pages = HostPages(lambda: [facts(7, port), NodeFacts(8, "h:8", None, NodeState.REFUSED, 0)])
            both = await asyncio.gather(*(served(pages) for _ in range(5)))
            assert len(set(both)) == 1
            return both[0]

    text = asyncio.run(run())
    assert len(asked) == 1, "five who ask at once are given one page"
    found = samples(text)
    assert found["penstock_host_node_up", (("instance", "h:7"), ("node", "7"))] == is_up
    assert found["penstock_host_node_up", (("instance", "h:8"), ("node", "8"))] == 0
    assert found["penstock_host_node_restarts_total", (("instance", "h:7"), ("node", "7"))] == 3
    assert (("a", (("instance", "h:7"),)) in found) == is_up


def test_ready_is_every_node_in_service_and_live_is_the_host() -> None:
    async def ok(pages: HostPages, path: str) -> bool:
        page = pages.page_of(path)
        assert page is not None
        return (await page).ok

    whole = HostPages(lambda: [facts(1, 1), facts(2, 2)])
    half = HostPages(lambda: [facts(1, 1), facts(2, 2, NodeState.WAITING)])
    assert (
        asyncio.run(ok(whole, "/readyz")) and not asyncio.run(ok(half, "/readyz")) and asyncio.run(ok(half, "/livez"))
    )
    assert whole.page_of("/other") is None


def test_names_are_of_the_host_and_the_nodes_own_page() -> None:
    assert scrape_names("h", {1: Endpoint("127.0.0.1", 9392), 2: None}) == {1: "h:9392", 2: "h:2"}
