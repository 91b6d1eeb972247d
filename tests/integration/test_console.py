"""`penstock console` on a secured cluster of three nodes: its pages say what the command line says, and a user sees
what the ACLs give that user."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Admin, Consumer, Producer
from penstock.console.page_table import PAGES
from penstock.security import UserScramCredentialUpsertion
from penstock.testing import Cluster
from tests.support.console_process import ConsoleBrowser, running_console

GROUP = "<script>alert(1)</script>/.."
TOPIC = "orders.v1_x-y"
ADDRESSES = {"/broker": "?id=0", "/topic": f"?name={TOPIC}", "/group": "?id=%3Cscript%3Ealert(1)%3C%2Fscript%3E%2F.."}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, secure=True) as running:
        options = dict(running.client_options)
        with Admin(running.bootstrap, **options) as admin:
            admin.create_topic(TOPIC, 3, replication_factor=3)
            admin.alter_user_scram_credentials([UserScramCredentialUpsertion("anna", "anna's password")])
        with Producer(running.bootstrap, **options) as producer:
            for number in range(30):
                producer.send(TOPIC, b"value %d" % number, key=b"key %d" % number)
            producer.flush()
        with Consumer(running.bootstrap, group_id=GROUP, auto_offset_reset="earliest", **options) as consumer:
            consumer.subscribe([TOPIC])
            found = 0
            while found < 30:
                found += len(consumer.poll(timeout_ms=1000))
            consumer.commit()
        with Producer(running.bootstrap, **options) as producer:
            producer.send(TOPIC, b"late").result(60)
        yield running


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> Iterator[str]:
    with running_console(cluster.bootstrap, tls_ca=cluster.client_options["tls_ca"]) as address:
        yield address


@pytest.fixture
def admins(cluster: Cluster, url: str) -> Iterator[ConsoleBrowser]:
    password = Path(cluster.client_options["password_file"]).read_text(encoding="utf-8").strip()
    with ConsoleBrowser(url) as browser:
        assert browser.log_in("admin", password).status_code == 303
        yield browser


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap, **dict(cluster.client_options)) as client:
        yield client


def as_plain(value: Any) -> Any:
    return json.loads(json.dumps(dataclasses.asdict(value)))


def test_every_page_and_its_twin_answer_and_no_name_becomes_a_tag(admins: ConsoleBrowser) -> None:
    for page in PAGES:
        query = ADDRESSES.get(page.path, "")
        text = admins.page(page.path + query)
        assert "<script>alert" not in text and "<h1>" in text, page.path
        assert admins.view(page.json_path + query), page.path


def test_the_overview_is_the_health_of_the_command_line(admins: ConsoleBrowser, admin: Admin) -> None:
    assert admins.view("/overview.json")["health"] == as_plain(admin.cluster_health())
    assert "The cluster is healthy." in admins.page("/overview")


def test_a_topic_is_that_of_the_command_line(admins: ConsoleBrowser, admin: Admin) -> None:
    shown, topic = admins.view(f"/topic.json?name={TOPIC}"), admin.describe_topic(TOPIC)
    assert shown["topic_id"] == topic.topic_id
    told = [(p["partition"], p["leader_id"], tuple(p["replicas"])) for p in shown["partitions"]]
    assert told == [(p.partition, p.leader_id, p.replicas) for p in topic.partitions]
    assert sum(p["latest"] for p in shown["partitions"]) == 31
    sources = {entry["name"]: (entry["value"], entry["source"]) for entry in shown["configs"]}
    assert sources == {e.name: (e.value, str(e.source)) for e in admin.describe_topic_config(TOPIC).values()}
    assert [one["topic"] for one in admins.view("/topics.json?filter=v1_")["topics"]] == [TOPIC]


def test_a_groups_lag_is_that_of_the_command_line(admins: ConsoleBrowser, admin: Admin) -> None:
    shown, lags = admins.view("/group.json" + ADDRESSES["/group"]), admin.group_lag(GROUP)
    assert {(p["topic"], p["partition"]): p["lag"] for p in shown["partitions"]} == {
        tuple(at): one.lag for at, one in lags.items()
    }
    assert shown["lag"] == 1 and admins.view("/groups.json")["groups"][0]["lag"] == 1


def test_a_user_without_rights_is_told_which_one_is_missing(url: str) -> None:
    with ConsoleBrowser(url) as browser:
        assert browser.client.get("/topics.json").status_code == 401
        assert browser.log_in("anna", "wrong").status_code == 401
        assert browser.log_in("anna", "anna's password").status_code == 303
        assert browser.view("/topics.json")["topics"] == []
        refused = browser.view(f"/topic.json?name={TOPIC}", 403)["error"]
        assert refused["name"] == "TOPIC_AUTHORIZATION_FAILED" and "DESCRIBE" in refused["message"].upper()
        assert "A right is missing" in browser.page(f"/topic?name={TOPIC}", 403)


def test_a_broker_that_hangs_has_a_row_and_holds_up_no_other(admins: ConsoleBrowser, cluster: Cluster) -> None:
    cluster.pause(2)
    try:
        shown = {one["broker"]: one for one in admins.view("/brokers.json")["brokers"]}
        assert shown[2]["error"] and shown[2]["size_bytes"] is None
        assert shown[0]["size_bytes"] is not None and not shown[0]["error"]
        admins.view("/overview.json")
    finally:
        cluster.resume(2)


def test_a_cluster_that_is_away_is_a_calm_page_soon() -> None:
    with running_console("127.0.0.1:1") as address, ConsoleBrowser(address) as browser:
        assert "does not answer" in browser.page("/overview", 503)
        assert browser.view("/overview.json", 503)["error"]["name"] == "BootstrapError"
