"""The operators' HTTP pages: what each path answers, on a real socket."""

from __future__ import annotations

import gzip
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Gauge

from broker.metrics.exposition import Page, serve_pages
from penstock.errors import ConfigError
from penstock.testing.ports import HOST, free_ports
from penstock.types import Endpoint


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


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_an_ipv6_address_is_served() -> None:
    endpoint = Endpoint("::1", free_ports(1)[0].metrics)
    try:
        stop = serve_pages(endpoint, CollectorRegistry(), {})
    except ConfigError:
        pytest.skip("this machine has no ::1")
    assert get(endpoint, "/metrics")[0] == 200
    stop()
