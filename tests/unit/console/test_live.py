"""Streams to browsers: their limits, and the texts of records. tests/console/ has them in a real browser."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
from starlette.requests import Request

from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.console.app import create_app
from penstock.console.browsers import Browser
from penstock.console.live import TAIL_HEADERS_MAX, TAIL_LETTERS_MAX, _changes, _live, cells_of, moving_routes, sent
from penstock.console.settings import ConsoleSettings
from penstock.console.watching.cluster_watch import ClusterWatch
from penstock.console.watching.live_feed import LiveFeed

ORIGIN = "http://127.0.0.1:9180"
SETTINGS = ConsoleSettings(bootstrap="none:1", origins=(ORIGIN,))


class OpenConsole:
    """A console whose cluster takes anybody."""

    def __init__(self, watch: ClusterWatch | None) -> None:
        self.app = create_app(SETTINGS, watch=watch, more=moving_routes)
        self.app.state.console.browsers._needs_login = False

    async def get(self, path: str) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=ORIGIN) as client:
            return await client.get(path)


def test_a_console_without_a_watch_has_no_news() -> None:
    async def story() -> None:
        assert (await OpenConsole(None).get("/live")).status_code == 204

    asyncio.run(story())


def test_too_many_streams_are_refused() -> None:
    async def story() -> None:
        watch = ClusterWatch(SETTINGS)
        watch.feed = LiveFeed(waiting_max=0)
        answer = await OpenConsole(watch).get("/live")
        assert answer.status_code == 429
        assert answer.json()["error"]["name"] == "TooManyStreamsError"

    asyncio.run(story())


def test_a_browser_that_is_gone_before_its_stream_begins_takes_no_place() -> None:
    async def story() -> None:
        watch = ClusterWatch(SETTINGS)
        console = OpenConsole(watch).app.state.console
        request = Request({"type": "http", "method": "GET", "headers": [], "query_string": b"", "path": "/live"})
        for _ in range(3):
            response = await _live(console, request)
            assert response.status_code == 200  # and nobody ever takes its body
        assert watch.feed.open_streams == 0

    asyncio.run(story())


def test_a_network_without_a_log_in_has_one_share_whatever_cookies_its_browsers_bring() -> None:
    async def story() -> None:
        watch = ClusterWatch(SETTINGS)
        watch.feed = LiveFeed(waiting_max=4, waiting_of_one_max=2)
        console = OpenConsole(watch).app.state.console

        async def status(host: str, cookie: str) -> int:
            headers = [(b"cookie", f"penstock_form_9180={cookie}".encode())]
            scope = {"type": "http", "method": "GET", "headers": headers, "query_string": b"", "path": "/live"}
            return int((await _live(console, Request({**scope, "client": (host, 1)}))).status_code)

        with watch.feed.stream("2001:db8::/64"), watch.feed.stream("2001:db8::/64"):
            assert [await status(f"2001:db8::{n}", str(n)) for n in range(1, 3)] == [429, 429]
            assert await status("2001:db8:0:1::1", "1") == 200

    asyncio.run(story())


def test_a_stream_ends_with_its_console() -> None:
    async def story() -> None:
        watch = ClusterWatch(SETTINGS)
        console = OpenConsole(watch)
        console.app.state.console.stop()
        answer = await console.get("/live")
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert answer.text == 'event: changed\ndata: {"version": 1}\n\n'
        assert watch.feed.open_streams == 0

    asyncio.run(story())


def test_a_stream_ends_with_its_session_and_keeps_none_alive() -> None:
    async def story() -> None:
        console = OpenConsole(ClusterWatch(SETTINGS)).app.state.console
        sessions, link = console.browsers._sessions, console.browsers._nobody
        session = sessions.begin("anna", link, console.clock.now_ms())
        cookie = f"penstock_session_9180={session.session_id}".encode()
        request = Request({"type": "http", "headers": [(b"cookie", cookie)]})
        stream = _changes(console, Browser(session.session_id, link, "anna"), request, console.watch.feed)
        used_ms = session.used_ms
        assert await anext(stream) == sent("changed", {"version": 0})
        console.watch.feed.note()
        assert await anext(stream) == sent("changed", {"version": 1})
        assert session.used_ms == used_ms
        sessions.end(session.session_id)
        assert [event async for event in stream] == []

    asyncio.run(story())


def test_a_field_that_a_stream_does_not_know_is_refused() -> None:
    async def story() -> None:
        answer = await OpenConsole(ClusterWatch(SETTINGS)).get("/live?name=x")
        assert answer.status_code == 400

    asyncio.run(story())


def record(**values: Any) -> ConsumerRecord:
    usual = {"topic": "t", "partition": 3, "offset": 7, "timestamp_ms": 0, "timestamp_type": 0}
    return ConsumerRecord(**{**usual, "key": None, "value": b"v", "headers": (), **values})


def test_a_record_is_cells_of_plain_and_short_text() -> None:
    headers = (("trace", b"1\n2"), ("none", None))
    cells = cells_of(record(key=b"\xff<script>", value="\u202e".encode() + b"x" * 10_000, headers=headers))
    assert cells[:3] == ["1970-01-01 00:00:00.000+00:00", "3", "7"]
    assert cells[3] == "\\xff<script>"
    assert cells[4].startswith("\\u202exxx") and len(cells[4]) == TAIL_LETTERS_MAX + 1
    assert cells[5] == "trace=1\\n2, none=–"
    assert cells_of(record(value=None))[4] == "–"
    assert cells_of(record(headers=(("", b""),) * 100_000))[5].count("=") == TAIL_HEADERS_MAX


def test_an_event_is_one_line_of_ascii() -> None:
    text = sent("records", {"records": [["\n\ndata: x\u2028é"]]})
    assert text.count("\n") == 3 and text.isascii()
    assert json.loads(text.split("data: ", 1)[1]) == {"records": [["\n\ndata: x\u2028é"]]}
