"""The answers of /livez, /readyz and /syncz while a node opens its logs, waits for its quorum, serves, stands still and
stops."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from prometheus_client import generate_latest

from broker.metrics.page_server import Page
from broker.node.node import Node
from broker.node.open_log_dirs import open_log_dirs
from broker.node.operator_pages import STILL_MS_MAX, Check, OperatorPages, checks
from penstock import AsyncAdmin
from penstock.clock import ManualClock
from raft.voters import NO_VOTERS
from storage.log_dirs.log_manager_config import LoadProgress
from tests.support.memory_cluster import MemoryCluster, in_service, run_in_memory
from tests.support.voters import voters_at


def lines(page: Page) -> list[dict[str, Any]]:
    return [json.loads(line) for line in page.text.splitlines()]


def missing(page: Page) -> dict[str, str]:
    """The checks that are not ok; empty only if the page is ok."""
    found = {line["check"]: line["missing"] for line in lines(page) if not line["ok"]}
    assert page.ok == (not found)
    return found


def test_a_node_that_opens_its_logs_is_live_and_not_ready() -> None:
    async def story(cluster: MemoryCluster) -> None:
        clock = ManualClock()
        pages = OperatorPages(cluster.config(0), "1.2.3", clock.now_ms)
        assert missing(pages.ready()) == {"logs": "the log dirs are being opened"}
        pages.opening(LoadProgress("/d", 12, 40, 0, was_clean=False))
        clock.advance(10 * STILL_MS_MAX)  # there is no event loop yet, which could stand still
        assert missing(pages.live()) == {}
        assert missing(pages.ready()) == {"logs": "28 of 40 left to check after an unclean stop in /d"}
        shown = generate_latest(pages.registry).decode()
        assert 'penstock_logs_to_open{log_dir="/d"} 28.0' in shown and "penstock_node_ready 0.0" in shown
        assert 'version="1.2.3"' in shown and "process_open_fds" in shown

    run_in_memory(1, story, nodes=1)


def test_a_node_that_starts_alone_names_the_voters_that_it_needs() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format()
        config, environment = cluster.config(0), cluster.environment(0)
        pages = OperatorPages(config, "1.2.3", ManualClock().now_ms)
        node = Node(config, open_log_dirs(config, environment, pages.opening), environment)
        await node.start()
        pages.runs(node)
        found = missing(pages.ready())
        assert list(found) == ["quorum", "registration", "in-service"]
        assert found["quorum"].startswith("the quorum has no leader that this node knows; 2 of these must run")
        await node.stop()

    run_in_memory(2, story, nodes=3)


def test_a_node_is_ready_while_it_serves_and_says_when_the_quorum_is_lost() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format()
        await cluster.start()
        pages = OperatorPages(cluster.config(0), "1.2.3", ManualClock().now_ms)
        pages.runs(cluster.nodes[0])
        assert missing(pages.ready()) == {}
        for node in cluster.nodes[1:]:
            await node.stop()
        broker = cluster.nodes[0].broker
        assert broker is not None
        await asyncio.sleep(5 * cluster.config(0).broker_session_timeout_ms / 1000)
        assert not broker.lifecycle.unfenced.is_set()
        assert list(missing(pages.ready())) == ["quorum", "in-service"]
        await cluster.nodes[0].stop()

    run_in_memory(3, story, nodes=3)


def test_a_loop_that_stands_still_is_not_live_unless_the_node_stops() -> None:
    async def story(cluster: MemoryCluster) -> None:
        clock = ManualClock()
        pages = OperatorPages(cluster.config(0), "1.2.3", clock.now_ms)
        cluster.format()
        await cluster.start()
        pages.runs(cluster.nodes[0])
        clock.advance(STILL_MS_MAX)
        assert missing(pages.live()) == {}
        clock.advance(1_500)
        assert missing(pages.live()) == {"event-loop": "the event loop has stood still for 12 s"}
        pages.beat()
        assert missing(pages.live()) == {}
        clock.advance(10 * STILL_MS_MAX)
        pages.stops()
        assert missing(pages.live()) == {} and missing(pages.ready()) == {"in-service": "the node stops"}
        await cluster.stop()

    run_in_memory(3, story, nodes=1)


def test_a_controller_alone_is_ready_with_a_leader() -> None:
    async def story(cluster: MemoryCluster) -> None:
        config = cluster.config(0)
        assert checks(config, config.first_voters, 2, 5, None) == [Check("logs"), Check("quorum")]
        missing = checks(config, voters_at(1, 2, 3, 4), -1, 5, None)[1].missing
        assert "; 3 of these must run and reach each other: 1@host-1:9193, 2@host-2:9193, " in missing
        cluster.is_dynamic = True
        missing = checks(cluster.config(0), NO_VOTERS, -1, 5, None)[1].missing
        assert missing.endswith("one of these must run: 127.0.0.1:9292, 127.0.0.1:9293, 127.0.0.1:9294")

    run_in_memory(4, story, nodes=3)


def test_a_broker_is_in_sync_again_only_when_its_replicas_are() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format()
        await cluster.start()
        async with AsyncAdmin(cluster.bootstrap(), environment=cluster.clients()) as admin:
            await admin.create_topic("orders", 2, replication_factor=3)
        await cluster.stop(1)
        assert missing(pages_of(cluster, 0).in_sync()) == {}, "another one's replicas are not its own"
        cluster.nodes.append(cluster.node(2))
        pages = pages_of(cluster, 2)
        assert "in-service" in missing(pages.in_sync())
        await cluster.nodes[2].start()
        await in_service(cluster.nodes[2])
        seen = set()
        while not pages.in_sync().ok:
            seen |= set(missing(pages.in_sync()).items())
            assert missing(pages.ready()) == {}
            await asyncio.sleep(0.01)
        assert ("replicas", "2 of 2 replicas are not in sync yet: orders-0, orders-1") in seen
        await cluster.stop()

    run_in_memory(5, story, nodes=3)


def test_a_controller_that_joins_is_in_sync_when_it_votes() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format_dynamic(0)
        await cluster.start()
        pages = pages_of(cluster, 1)
        disk = cluster.voter(1).directory_id
        assert missing(pages.in_sync()) == {"vote": f"controller 1 is not a voter yet, with the disk {disk}"}
        while not pages.in_sync().ok:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        assert cluster.nodes[1].raft.voters.names(1, disk)
        pages.stops()
        assert missing(pages.in_sync()) == {"in-service": "the node stops"}
        await cluster.stop()

    run_in_memory(6, story, nodes=3, config={"controller.quorum.auto.join.enable": True})


def pages_of(cluster: MemoryCluster, index: int) -> OperatorPages:
    pages = OperatorPages(cluster.config(index), "1.2.3", ManualClock().now_ms)
    pages.runs(cluster.nodes[index])
    return pages
