"""The console in a real browser on a live cluster of three nodes: what a page says is what the command line says.

Playwright's API on the system's chromium; without one, all of it is skipped. A page counts as broken when the browser's
own console has an error, which a violation of the Content-Security-Policy is, too.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.console.page_table import PAGES
from penstock.testing import Cluster
from tests.support.amount import usually
from tests.support.command_line import penstock
from tests.support.console_server import serving_console
from tests.support.console_visitor import CHROMIUM, LOOKS_MS, Visitor, running_chromium
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed (apt-get install chromium)")
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"
UNEVEN = 300
"""Partitions that one broker has, and the others should have two thirds of."""
OF_EVERY_KIND = usually(
    ("/overview", "/records", "/flow"),
    long=("/overview", "/topic", "/records", "/group", "/series", "/events", "/flow", "/layout"),
)
"""The pages that have every kind of part between them: axe-core takes its time."""
WITH_EVERY_COLOUR = usually(("/overview",), long=("/overview", "/series", "/flow", "/layout"))
"""The pages that are looked at in the dark, too."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with running_chromium() as made:
        yield made


@dataclass
class Town:
    """A cluster under load, and a console on it."""

    cluster: Cluster
    url: str
    orders: str
    lagging: str
    group: str = HOSTILE
    stop: threading.Event = field(default_factory=threading.Event)

    def load(self) -> None:
        """A producer, and a member of a group that keeps up."""
        with (
            Producer(self.cluster.bootstrap) as producer,
            Consumer(
                self.cluster.bootstrap, group_id="keeps-up", auto_offset_reset="earliest", client_id=HOSTILE
            ) as consumer,
        ):
            consumer.subscribe([self.orders])
            number = 0
            while not self.stop.wait(0.1):
                number += 1
                producer.send(self.orders, HOSTILE.encode(), key=b"key %d" % number, headers=[(HOSTILE, b"\xff")])
                consumer.poll(timeout_ms=1)


@pytest.fixture(scope="module")
def town() -> Iterator[Town]:
    with Cluster(nodes=3) as cluster, serving_console(cluster.bootstrap, audit_topic="audit") as url:
        found = Town(cluster, url, cluster.topic("orders", partitions=3), cluster.topic("lagging"))
        with Producer(cluster.bootstrap) as producer:
            producer.send_many(found.lagging, [b"%d" % n for n in range(50)]).result()
            done = {"outcome": "done", "principal": HOSTILE, "api": HOSTILE, "request": {"name": HOSTILE}}
            producer.send(cluster.topic("audit"), json.dumps(done).encode()).result()
        with Admin(cluster.bootstrap) as admin:
            admin.alter_group_offsets(found.group, {TopicPartition(found.lagging, 0): 8})
        thread = threading.Thread(target=found.load, name="load", daemon=True)
        thread.start()
        yield found
        found.stop.set()
        thread.join(30)


@pytest.fixture
def visitor(browser: Any, town: Town) -> Iterator[Visitor]:
    found = Visitor(browser, town.url)
    yield found
    found.context.close()
    assert found.complaints == []


def shown_by_command(town: Town, *words: object) -> Any:
    return json.loads(penstock(*words, "--json", bootstrap=town.cluster.bootstrap).stdout)


def addresses(town: Town) -> dict[str, dict[str, object]]:
    """Every page that shows, with fields that lead somewhere."""
    known: dict[str, dict[str, object]] = {
        "/broker": {"id": 1},
        "/topic": {"name": town.orders},
        "/group": {"id": town.group},
        "/layout": {"topic": town.orders},
        "/series": {"subject": "topic-records", "name": town.orders},
        "/tail": {"name": town.orders},
        "/records": {"topic": town.orders},
        "/usage": {"topic": town.orders},
        "/flow": {},
    }
    return {page.path: known.get(page.path, {}) for page in PAGES if page.menu or page.path in known}


def test_every_page_is_shown_without_an_error_and_no_stored_script_runs(town: Town, visitor: Visitor) -> None:
    for path, fields in addresses(town).items():
        assert visitor.open(path, **fields)
        assert visitor.page.locator("h1").count() == 1, path
        assert visitor.page.locator("script:not([src])").count() == 0, path
        assert visitor.page.locator("main script, img").count() == 0, path


def test_pages_say_what_the_command_line_says(town: Town, visitor: Visitor) -> None:
    visitor.open("/topic", name=town.orders)
    described = shown_by_command(town, "topics", "describe", town.orders)
    rows = visitor.rows()
    assert [(int(row["partition"]), int(row["leader"]), int(row["epoch"])) for row in rows] == [
        (p["partition"], p["leader_id"], p["leader_epoch"]) for p in described["partitions"]
    ]
    assert [row["isr"] for row in rows] == [",".join(map(str, p["isr"])) for p in described["partitions"]]
    assert [row["replicas"] for row in rows] == [",".join(map(str, p["replicas"])) for p in described["partitions"]]
    visitor.open("/brokers")
    brokers = shown_by_command(town, "brokers", "list")
    assert [(row["broker"], row["address"], row["state"]) for row in visitor.rows()] == [
        (str(one["broker"]), one["address"], one["state"]) for one in brokers
    ]
    status = shown_by_command(town, "cluster", "health")["status"]
    assert f"The cluster is {status}." in visitor.open("/overview")


def test_a_group_that_lags_is_told_with_its_numbers_and_a_line(town: Town, visitor: Visitor) -> None:
    visitor.open("/group", id=town.group)
    (described,) = shown_by_command(town, "groups", "describe", town.group)
    (row,) = visitor.rows()
    (known,) = described["partitions"]
    assert "Nobody reads: the group has no members. Start its consumers." in visitor.page.inner_text("#group")
    assert (row["committed"], row["log end"], row["lag"]) == ("8", "50", "42")
    assert (known["committed"], known["lag"]) == (8, 42)
    visitor.page.wait_for_selector("figure[data-series*='group-lag'] canvas")
    with_line = visitor.page.request.get(f"{town.url}/series.json", params={"subject": "group-lag", "name": town.group})
    assert with_line.json()["lines"][0]["values"][-1] in (42, None)
    visitor.open("/flow")
    assert visitor.page.locator("svg.picture desc").text_content().count("reads lagging, lag 42") == 1


def test_a_record_is_found_by_its_key_with_a_few_clicks(town: Town, visitor: Visitor) -> None:
    visitor.open("/topics")
    visitor.page.click(f"text={town.orders}")
    visitor.page.click("main >> text=Records >> nth=0")
    visitor.page.fill("#key", "key 1")
    visitor.page.check("[name=whole]")
    visitor.page.click("text=Show")
    assert [row["key"] for row in visitor.rows()] == ["key 1"]
    assert "where the default partitioner puts this key" in visitor.page.inner_text("main")


def test_charts_and_the_tail_move_by_themselves(town: Town, visitor: Visitor) -> None:
    visitor.open("/topic", name=town.orders)
    canvas = visitor.page.wait_for_selector("figure canvas")
    before = canvas.evaluate("canvas => canvas.toDataURL()")
    moved = "before => document.querySelector('figure canvas').toDataURL() !== before"
    visitor.page.wait_for_function(moved, arg=before, polling=LOOKS_MS)
    visitor.open("/tail", name=town.orders)
    visitor.page.wait_for_selector("table[data-tail] tbody tr:nth-child(5)")
    newest = visitor.rows()[0]
    assert newest["value"] == HOSTILE and newest["key"].startswith("key ")
    assert newest["headers"] == f"{HOSTILE}=\\xff"
    visitor.page.click("#tail-stop")
    assert visitor.page.inner_text("#tail-state") == "stopped"


def test_without_scripts_pages_are_whole(town: Town, browser: Any) -> None:
    visitor = Visitor(browser, town.url, java_script_enabled=False)
    assert "records/s" in visitor.open("/series", subject="topic-records", name=town.orders)
    assert visitor.page.locator(".still svg line.line-0").count() > 1
    assert "The cluster is" in visitor.open("/overview")
    visitor.context.close()
    assert visitor.complaints == []


def test_a_kill_a_move_and_a_return_show_up_in_open_pages(town: Town, visitor: Visitor) -> None:
    """The tab is opened before anything happens, and never loaded again."""
    moved = "moved"
    with Admin(town.cluster.bootstrap) as admin:
        admin.create_topic(moved, assignments=[[0, 1]])
    with Producer(town.cluster.bootstrap) as producer:
        producer.send(moved, b"x").result()
    visitor.open("/overview")
    events = Visitor(visitor.context.browser, town.url)
    events.open("/events")
    town.cluster.kill(2)
    visitor.wait_for_text("broker 2 went out of service")
    status = shown_by_command(town, "cluster", "health")["status"]
    assert status != "healthy"
    visitor.wait_for_text(f"The cluster is {status}.")
    with Admin(town.cluster.bootstrap) as admin:
        admin.alter_partition_reassignments({TopicPartition(moved, 0): [1, 2]})
        events.wait_for_text("moved begins to move partition 0 to broker 2")
        town.cluster.start(2)
        events.wait_for_text("moved has moved partition 0")
    events.wait_for_text("broker 2 is in service again")
    visitor.open("/layout", topic=moved)
    assert [row["replicas"] for row in visitor.rows()] == ["1,2"]
    events.context.close()
    assert events.complaints == []
    town.cluster.wait_in_sync()


def test_no_page_has_a_serious_violation_of_accessibility(town: Town, visitor: Visitor) -> None:
    axe = pytest.importorskip("axe_playwright_python", reason="axe-core is not installed (the extra `dev`)")
    script = (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    found: list[str] = []
    known = addresses(town)
    for path in OF_EVERY_KIND:
        visitor.open(path, **known[path])
        visitor.page.evaluate(script)
        for scheme, rules in (("light", ["wcag2a", "wcag2aa"]), ("dark", ["color-contrast"])):
            if scheme == "dark" and path not in WITH_EVERY_COLOUR:
                continue
            visitor.page.emulate_media(color_scheme=scheme)
            options = {"runOnly": rules, "resultTypes": ["violations"]}
            violations = visitor.page.evaluate("options => axe.run(document, options)", options)["violations"]
            bad = [one for one in violations if one["impact"] in ("serious", "critical")]
            found += [f"{path} ({scheme}): {one['id']}: {one['nodes'][0]['html'][:200]}" for one in bad]
    assert not found, "\n".join(found)


def test_pages_are_used_by_keyboard_alone(town: Town, visitor: Visitor) -> None:
    visitor.open("/overview")
    visitor.page.keyboard.press("Tab")
    assert visitor.page.evaluate("document.activeElement.className") == "skip"
    visitor.page.keyboard.press("Enter")
    assert visitor.page.url.endswith("#content")


def test_an_uneven_cluster_is_evened_by_a_form(town: Town, browser: Any) -> None:
    with Admin(town.cluster.bootstrap) as admin:
        admin.create_topic(uneven := "uneven", assignments=[[0]] * UNEVEN)
    with serving_console(town.cluster.bootstrap, allow_changes=True) as url:
        visitor = Visitor(browser, url)
        visitor.open("/plan", by="replicas")
        moved = [row["partition"] for row in visitor.rows(1)]
        visitor.page.click("text=Begin it here")
        visitor.page.fill("#count", str(UNEVEN))
        visitor.page.click("text=Show the plan")
        assert "penstock cluster balance --by replicas" in visitor.page.inner_text("pre")
        lines = visitor.page.locator("main li code").all_inner_texts()
        assert len(moved) > UNEVEN / 2 and {line.partition(": ")[0] for line in lines} >= set(moved)
        visitor.page.click("form.fields button")
        assert visitor.page.url == f"{url}/moves"
        visitor.wait_for_text("0 partitions move")
        with Admin(town.cluster.bootstrap) as admin:
            wait_until(lambda: admin.list_partition_reassignments() == {})
            placed = {p.replicas for p in admin.describe_topic(uneven).partitions}
            admin.delete_topic(uneven)
        assert len(placed) > 1
        visitor.open("/plan", by="replicas")
        visitor.context.close()
        assert visitor.complaints == []
