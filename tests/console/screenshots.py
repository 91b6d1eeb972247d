"""Looks at the console's pages: `python -m tests.console.screenshots [--output DIR] [--dark] [PATH …]`.

Starts three nodes with load and a console, waits until lines have some points, kills a node, and saves a PNG of each
page. Needs chromium and Playwright. It prints the name and the size of each picture.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path

import httpx
from playwright.sync_api import sync_playwright

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.testing import Cluster
from tests.support.console_server import serving_console
from tests.support.waiting import wait_until

SECONDS = 20
WAIT_MS = 60_000
PAGES = ("/overview", "/topic?name=orders", "/group?id=billing", "/pictures", "/flow", "/layout", "/events")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.console.screenshots", description=__doc__)
    parser.add_argument("paths", nargs="*", default=PAGES, metavar="PATH", help="a page, such as /topic?name=orders")
    parser.add_argument("--output", type=Path, default=Path(tempfile.gettempdir()) / "penstock-console")
    parser.add_argument("--dark", action="store_true")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    racks = [{"broker.rack": f"rack-{number}"} for number in range(3)]
    with Cluster(nodes=3, node_configs=racks) as cluster, serving_console(cluster.bootstrap) as url:
        live(cluster)
        cluster.kill(2)
        wait_until(lambda: "broker 2 went out of service" in httpx.get(f"{url}/events.json").text)
        shoot(url, options.paths, options.output, "dark" if options.dark else "light")


def live(cluster: Cluster) -> None:
    """Some seconds of records and commits, and a group that lags."""
    orders, views = cluster.topic("orders", partitions=6), cluster.topic("views", partitions=3)
    with Admin(cluster.bootstrap) as admin:
        admin.alter_group_offsets("reports", {TopicPartition(views, 0): 0})
    with Producer(cluster.bootstrap) as producer, Consumer(cluster.bootstrap, group_id="billing") as consumer:
        consumer.subscribe([orders])
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            producer.send_many(orders, [b"an order"] * 60)
            producer.send_many(views, [b"a view"] * 200)
            consumer.poll(timeout_ms=200)


def shoot(url: str, paths: list[str], output: Path, scheme: str) -> None:
    """A picture of each page."""
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=browser_path, args=flags)
        page = browser.new_page(viewport={"width": 1100, "height": 800}, color_scheme=scheme)
        page.set_default_timeout(WAIT_MS)
        for path in paths:
            page.goto(url + path)
            page.wait_for_timeout(1_500)
            file = output / f"{path.strip('/').partition('?')[0].replace('/', '-')}-{scheme}.png"
            page.screenshot(path=str(file), full_page=True)
            print(f"{file}: {file.stat().st_size:,} bytes")
        browser.close()


if __name__ == "__main__":
    main()
