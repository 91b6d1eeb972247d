"""The operators' pages beside whoever means ill: real connections, few threads, and a deadline for each."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric

from broker.metrics.exposition import serve_pages
from broker.metrics.page_server import HEAD_BYTES_MAX, Page, PageLimits, PageServer
from broker.metrics.page_turns import OF_NETWORK_MAX
from penstock.testing.ports import HOST, free_ports
from penstock.types import Endpoint

ELSEWHERE = "127.0.0.2"
SECONDS_MAX = 60
LARGE = 32 << 20
LIMITS = PageLimits()
Serve = Callable[..., Endpoint]


class Slow:
    """A registry's part that is made when it may be, and counts how often it was."""

    def __init__(self) -> None:
        self.may_go, self.is_asked = threading.Event(), threading.Event()
        self.made = 0

    def collect(self) -> Iterator[Metric]:
        self.made += 1
        self.is_asked.set()
        assert self.may_go.wait(SECONDS_MAX)
        yield GaugeMetricFamily("made", "How often.", value=self.made)


@pytest.fixture
def serve() -> Iterator[Serve]:
    stops = []

    def served(slow: Slow | None = None, limits: PageLimits = LIMITS) -> Endpoint:
        endpoint, registry = Endpoint(HOST, free_ports(1)[0].metrics), CollectorRegistry()
        if slow is not None:
            registry.register(slow)  # type: ignore[arg-type]
        pages = {"/livez": lambda: Page("live\n", "text/plain"), "/large": lambda: Page("x" * LARGE, "text/plain")}
        stops.append(serve_pages(endpoint, registry, pages, limits=limits))
        return endpoint

    yield served
    for stop in stops:
        stop()


@contextlib.contextmanager
def held(endpoint: Endpoint, count: int, sent: bytes = b"G") -> Iterator[list[socket.socket]]:
    """Connections that have sent so much and go on as they like."""
    with contextlib.ExitStack() as opened:
        yield [opened.enter_context(begun(endpoint, sent)) for _ in range(count)]


def begun(endpoint: Endpoint, sent: bytes, host: str = HOST) -> socket.socket:
    one = socket.create_connection(endpoint, SECONDS_MAX, (host, 0))
    with contextlib.suppress(OSError):  # it was refused
        one.sendall(sent)
    return one


def answer(one: socket.socket) -> bytes:
    """Everything until the end; nothing if the connection was refused."""
    heard = []
    with one, contextlib.suppress(ConnectionError):
        while more := one.recv(1 << 16):
            heard.append(more)
    return b"".join(heard)


def get(endpoint: Endpoint, path: str, host: str = HOST) -> bytes:
    return answer(begun(endpoint, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode(), host))


def test_connections_that_send_nothing_take_no_thread_and_no_place_of_another_network(serve: Serve) -> None:
    slow = Slow()
    slow.may_go.set()
    endpoint = serve(slow)
    get(endpoint, "/metrics")
    before = threading.active_count()
    with held(endpoint, 10 * OF_NETWORK_MAX):
        began = time.monotonic()
        assert get(endpoint, "/livez", ELSEWHERE).endswith(b"live\n")
        assert get(endpoint, "/metrics", ELSEWHERE).startswith(b"HTTP/1.1 200 OK")
        assert time.monotonic() - began < LIMITS.head_seconds, "it waited for no deadline"
        assert threading.active_count() == before


def test_a_connection_that_is_cut_before_it_was_served_leaves_nothing_behind() -> None:
    limits = PageLimits(connections=4, head_seconds=0.2)
    endpoint = Endpoint(HOST, free_ports(1)[0].metrics)
    server = PageServer(endpoint, lambda path: None, Page("no\n", "text/plain"), None, limits)
    with contextlib.ExitStack() as opened:
        came = [opened.enter_context(begun(endpoint, b"G")) for _ in range(4)]
        came += [opened.enter_context(begun(endpoint, b"G", ELSEWHERE)) for _ in range(2)]
        server.start()  # accepts all of them before it serves one, and the last two take places of the first network
        try:
            assert [answer(one) for one in came] == [b""] * len(came)
            until = time.monotonic() + SECONDS_MAX
            while repr(server) != "PageServer(0 connections)" and time.monotonic() < until:
                time.sleep(0.01)
            assert repr(server) == "PageServer(0 connections)"
        finally:
            server.stop()


def test_a_head_has_a_deadline_however_its_bytes_come(serve: Serve) -> None:
    one, until = begun(serve(limits=PageLimits(head_seconds=0.2)), b"G"), time.monotonic() + SECONDS_MAX
    one.settimeout(0.02)
    was_closed = False
    while not was_closed and time.monotonic() < until:
        try:
            one.sendall(b"G")
            was_closed = one.recv(1) == b""
        except TimeoutError:
            continue
        except ConnectionError:
            was_closed = True
    one.close()
    assert was_closed


def test_an_answer_that_nobody_reads_has_a_deadline_and_takes_little_memory(serve: Serve) -> None:
    endpoint = serve(limits=PageLimits(answer_seconds=0.2))
    with begun(endpoint, b"GET /large HTTP/1.1\r\n\r\n") as one:
        assert one.recv(1) == b"H"
        until = time.monotonic() + SECONDS_MAX
        while _is_open(one) and time.monotonic() < until:
            time.sleep(0.02)
        assert not _is_open(one), "the rest of its answer is not kept, by the system neither"
    assert len(get(serve(), "/large")) > LARGE, "whoever reads has all of it"


def _is_open(one: socket.socket) -> bool:
    """False once the other end has given it up."""
    state = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    return state == 1


def test_a_probe_waits_for_no_page_that_is_being_made(serve: Serve) -> None:
    slow = Slow()
    endpoint = serve(slow)
    with begun(endpoint, b"GET /metrics HTTP/1.1\r\n\r\n") as scrape:
        assert slow.is_asked.wait(SECONDS_MAX)
        assert get(endpoint, "/livez").endswith(b"live\n")
        slow.may_go.set()
        assert answer(scrape).endswith(b"\nmade 1.0\n")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /livez HTTP/1.0\r\n\r\n", b"200"),
        (b"HEAD /livez HTTP/1.1\r\n\r\n", b"200"),
        (b"GET /livez?verbose HTTP/1.1\r\n\r\n", b"200"),
        (b"POST /livez HTTP/1.1\r\n\r\n", b"405"),
        (b"GET /livez\r\n\r\n", b"400"),
        (b"\r\n\r\n", b"400"),
        (b"GET /" + b"x" * HEAD_BYTES_MAX + b" HTTP/1.1\r\n\r\n", b"431"),
    ],
)
def test_each_request_has_its_answer_and_then_the_connection_ends(serve: Serve, sent: bytes, status: bytes) -> None:
    response = answer(begun(serve(), sent))
    assert response.split(b" ")[1] == status and b"\r\nConnection: close\r\n" in response
    assert response.endswith(b"\r\n\r\n") is sent.startswith(b"HEAD")


def test_a_page_that_cannot_be_made_is_an_error_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Page:
        raise RuntimeError("a mistake of ours")

    endpoint = Endpoint(HOST, free_ports(1)[0].metrics)
    stop = serve_pages(endpoint, CollectorRegistry(), {"/broken": broken})
    try:
        response = get(endpoint, "/broken")
    finally:
        stop()
    assert b" 500 " in response and b"a mistake of ours" not in response and "a mistake of ours" in caplog.text
