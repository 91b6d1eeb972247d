"""The console in a real browser where a disk hangs, and on 1,000 topics of 12 partitions and 500 groups.

The disk is that of a real node, whose file system hangs while a flag stands (tests/support/hanging_fs.py). The large
cluster is simulated: it answers at once, so all that is slow here is the console's or the browser's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Admin, Producer
from penstock.console.cluster_link import ClusterLink
from penstock.errors import BootstrapError
from penstock.testing import Cluster
from tests.chaos.hung_disks import nodes_that_can_hang
from tests.support.command_line import penstock
from tests.support.console_server import serving_console
from tests.support.console_visitor import CHROMIUM, Visitor, running_chromium
from tests.support.hanging_fs import flag_of
from tests.support.large_cluster import GROUP_IDS, NAMES, LargeCluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed (apt-get install chromium)")
ELEMENTS_MAX = 20_000
"""Elements of a page, however large the cluster is."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with running_chromium() as made:
        yield made


@pytest.mark.long  # integration/test_console.py has a broker that hangs
def test_a_disk_that_hangs_is_told_with_what_to_do_and_no_page_hangs(browser: Any, tmp_path: Path) -> None:
    """That of a broker, and then that of the quorum's leader, which loses its lead. The tab is open before the disks
    hang, and never loaded again."""
    dirs = [tmp_path / f"node-{node}" / "data" for node in range(3)]
    with nodes_that_can_hang([[one] for one in dirs]), Cluster(nodes=3, directory=tmp_path) as cluster:
        with Producer(cluster.bootstrap) as producer:
            producer.send(cluster.topic("orders", partitions=3), b"x").result()
        with serving_console(cluster.bootstrap) as url:
            tab = Visitor(browser, url)
            tab.open("/overview")
            for after_the_leader in (1, 0):
                tab.wait_for_text("The cluster is healthy.")
                with Admin(cluster.bootstrap) as admin:
                    hung = (admin.describe_quorum().leader_id + after_the_leader) % 3
                flag = flag_of(dirs[hung])
                flag.touch()
                try:
                    with Producer(cluster.bootstrap) as producer:
                        for number in range(3):
                            producer.send("orders", b"y", partition=number)  # nobody waits for the ack
                        check_told(tab, cluster, f"log dir {dirs[hung]} of node {hung} has not answered for")
                        other = Visitor(browser, url)
                        for path in ("/brokers", "/topics", "/quorum"):
                            assert other.open(path)
                        other.context.close()
                        flag.unlink()
                finally:
                    flag.unlink(missing_ok=True)
            tab.wait_for_text("The cluster is healthy.")
            tab.context.close()
            assert tab.complaints == []


def check_told(tab: Visitor, cluster: Cluster, fault: str) -> None:
    """The page says so by itself, with the command line's remedy."""
    tab.wait_for_text(fault)
    told = json.loads(penstock("cluster", "health", "--json", bootstrap=cluster.bootstrap).stdout)
    (disks,) = (check for check in told["checks"] if check["name"] == "disks")
    text = str(tab.page.inner_text("main"))
    assert disks["status"] != "ok" and disks["remedy"] in text and f"disks: {disks['status']}" in text


def test_an_open_page_says_that_it_is_not_up_to_date(browser: Any) -> None:
    """All brokers are away, then the console is: what the page shows is no more than what was."""
    large, away = LargeCluster(), list[Exception]()

    class AwayLink(ClusterLink):
        @property
        def admin(self) -> Any:
            for error in away:
                raise error
            return large

        async def reach(self) -> None:
            """It takes anybody."""

    with serving_console("none:1", make_admin=lambda *_, **__: large, make_link=AwayLink) as url:
        tab = Visitor(browser, url)
        tab.open("/layout")
        assert tab.page.locator("#stale").count() == 0
        away.append(BootstrapError("no broker answers"))
        tab.wait_for_text("This page is as it was at")
        assert "the cluster does not answer" in tab.page.inner_text("#stale")
        away.clear()
        tab.page.wait_for_selector("#stale", state="detached")
    tab.wait_for_text("the console does not answer")
    tab.context.close()
    assert [one for one in tab.complaints if "Failed to load resource" not in one] == []


def test_a_thousand_topics_and_five_hundred_groups_are_shown_a_part_at_a_time(browser: Any) -> None:
    large = LargeCluster()

    class LargeLink(ClusterLink):
        @property
        def admin(self) -> Any:
            return large

        async def reach(self) -> None:
            """It takes anybody."""

    with serving_console("none:1", make_admin=lambda *_, **__: large, make_link=LargeLink) as url:
        tab = Visitor(browser, url)
        assert "1,000 topics" in tab.open("/topics") and "1 of 20" in tab.page.inner_text("nav.pager")
        assert [row["topic"] for row in tab.rows()] == NAMES[:50]
        tab.page.click("nav.pager a[rel=next]")
        assert [row["topic"] for row in tab.rows()] == NAMES[50:100]
        tab.page.fill("#filter", "0999")
        tab.page.keyboard.press("Enter")
        tab.page.wait_for_url("**filter=0999**")
        assert [row["topic"] for row in tab.rows()] == ["topic-0999"]
        tab.open("/groups", page=10)
        assert [row["group"] for row in tab.rows()] == GROUP_IDS[450:]
        lines = f"{url}/series.json?subject=group-lag"
        wait_until(lambda: tab.page.request.get(lines).json()["lines"] != [])
        for path in ("/pictures", "/flow", "/layout", "/events", "/series?subject=group-lag"):
            tab.page.goto(f"{url}{path}")
            elements = tab.page.evaluate("document.querySelectorAll('*').length")
            assert 20 < elements < ELEMENTS_MAX, (path, elements)
        tab.context.close()
        assert tab.complaints == []
