"""Tries a console of this tree on nodes of an older release: `python -m tests.console.older_node [--release 0.2.0]`.

Three nodes run the code of the release, unpacked from the history; the console is a process of this tree. Every page
and its JSON twin is asked for, a topic is made and a record sent by their forms, and what pages say is held beside what
the release's own client says. A page about what the release does not know yet must say so (a status below 500), and is
listed. Exit code 1 if an answer is a bug (500) or a difference, or the cluster seems to be away.
"""

from __future__ import annotations

import argparse
import html
import re
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from penstock import Admin, Consumer, Producer
from penstock.console.page_table import PAGES
from penstock.testing import Cluster
from tests.support.console_process import ConsoleBrowser, running_console
from tests.upgrades.releases import release

TOPIC, GROUP = "orders", "shop"
FIELDS = {
    "/broker": "?id=0",
    "/topic": f"?name={TOPIC}",
    "/records": f"?topic={TOPIC}",
    "/record": f"?topic={TOPIC}&partition=0&offset=0",
    "/usage": f"?topic={TOPIC}",
    "/group": f"?id={GROUP}",
    "/transaction": "?id=billing",
    "/series": "?subject=topic-records",
    "/tail": f"?name={TOPIC}",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.console.older_node", description=__doc__)
    parser.add_argument("--release", default="0.2.0", help="one of tests/upgrades/releases.py, or the path of a tree")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        older = release(options.release, Path(directory))
        with older.code_of():
            cluster = Cluster(nodes=3)
            cluster.open()
        try:
            older.require_of(cluster.pid(0))
            fill(cluster.bootstrap)
            with (
                running_console(cluster.bootstrap, "--allow-changes") as url,
                ConsoleBrowser(url) as browser,
                Admin(cluster.bootstrap) as admin,
            ):
                wrong = [*pages(browser), *equalities(browser, admin), *changes(browser, admin)]
        finally:
            cluster.close()
    for one in wrong:
        print(f"WRONG: {one}")
    print(f"result: {'the console works through ' + options.release if not wrong else 'NOT as it must be'}")
    sys.exit(1 if wrong else 0)


def fill(bootstrap: str) -> None:
    """A topic with records, a group that has read some, and a transactional id."""
    with Admin(bootstrap) as admin:
        admin.create_topic(TOPIC, 3, replication_factor=3)
    with Producer(bootstrap, transactional_id="billing") as producer, producer.transaction():
        for number in range(30):
            producer.send(TOPIC, b"%d" % number, key=b"key %d" % number, partition=number % 3)
    with Consumer(bootstrap, group_id=GROUP, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([TOPIC])
        while not consumer.poll(timeout_ms=1_000):
            pass
        consumer.commit()


def pages(browser: ConsoleBrowser) -> list[str]:
    """Every page and its twin; what is wrong."""
    wrong, refused = [], []
    for page in PAGES:
        for path in (page.path, page.json_path):
            answer = browser.client.get(path + FIELDS.get(page.path, ""))
            if answer.status_code >= 500:
                wrong.append(f"{path}: {answer.status_code} {text_of(answer.text)}")
            elif answer.status_code != 200:
                refused.append(f"{path}: {answer.status_code} {text_of(answer.text)}")
    print(f"{2 * len(PAGES) - len(wrong) - len(refused)} of {2 * len(PAGES)} pages and twins are shown")
    for one in refused:
        print(f"  not known to the release: {one}")
    return wrong


def equalities(browser: ConsoleBrowser, admin: Admin) -> list[str]:
    """Differences between pages and the client."""
    wrong = []
    shown = browser.view(f"/topic.json?name={TOPIC}")["partitions"]
    known = admin.describe_topic(TOPIC).partitions
    if [(p["partition"], p["leader_id"], tuple(p["replicas"])) for p in shown] != [
        (p.partition, p.leader_id, p.replicas) for p in known
    ]:
        wrong.append(f"partitions: {shown} and {known}")
    lags = {(at.topic, at.partition): one.lag for at, one in admin.group_lag(GROUP).items()}
    told = {(p["topic"], p["partition"]): p["lag"] for p in browser.view(f"/group.json?id={GROUP}")["partitions"]}
    if lags != told:
        wrong.append(f"lag: {told} and {lags}")
    status = browser.view("/overview.json")["health"]["status"]
    if status != admin.cluster_health().status:
        wrong.append(f"health: {status}")
    by_key = browser.view(f"/records.json?topic={TOPIC}&from=oldest&key={quote('key 7')}")["records"]
    if [one["value"]["text"] for one in by_key] != ["7"]:
        wrong.append(f"the record of a key: {by_key}")
    return wrong


def changes(browser: ConsoleBrowser, admin: Admin) -> list[str]:
    """A topic is made and a record sent by the forms; what did not come to be."""
    made = browser.send("/create-topic", {"name": "made", "partitions": "2", "sure": "yes"})
    sent = browser.send("/send-record", {"topic": "made", "partition": "1", "value": "sent", "sure": "yes"})
    wrong = [f"{one.url}: {one.status_code} {text_of(one.text)}" for one in (made, sent) if one.status_code != 303]
    if not wrong and admin.describe_topic("made").partition_count != 2:
        wrong.append("the topic that was made has other partitions")
    return wrong


def text_of(page: str) -> str:
    """The words of a page, in one line."""
    main = re.search(r"<main.*?</main>", page, re.DOTALL)
    return html.unescape(" ".join(re.sub(r"<[^>]*>", " ", main[0] if main else page).split()))[:300]


if __name__ == "__main__":
    main()
