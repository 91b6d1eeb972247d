"""Streams to browsers by server-sent events: that something has changed, and the records of a topic as they come.

    GET /live                 event `changed`, at most once in LIVE_SECONDS, after the console's watch has learnt more
    GET /tail/stream?name=T   events `records` and `state`; `end` when it is over

A stream is bounded in number, rate, size and time, and ends with its session: it is no use of that session, so a tab
that was left open logs nobody in for ever. Texts are JSON in ASCII. Not here: how the watch learns (watching/), and how
a browser shows it (static/live.js).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from penstock.addresses import network_of
from penstock.client.consumer.async_consumer import AsyncConsumer
from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.console.app import Console, json_response
from penstock.console.browsers import Browser
from penstock.console.fields import Fields
from penstock.console.rendering import shown_time
from penstock.console.watching.live_feed import LiveFeed, TooManyStreamsError
from penstock.errors import PenstockError
from penstock.plain_text import one_line

LIVE_SECONDS: Final = 1.0
QUIET_SECONDS: Final = 15.0
"""A stream without news sends a comment after this time, so that a browser that is gone is noticed."""
STREAM_SECONDS_MAX: Final = 600.0
"""The browser begins another one."""
TAILS_MAX: Final = 16
TAIL_SECONDS: Final = 1.0
TAIL_RECORDS_MAX: Final = 20
"""Records in TAIL_SECONDS; of more, the rest is passed over."""
TAIL_FETCH_BYTES: Final = 256 * 1024
TAIL_LETTERS_MAX: Final = 400
TAIL_HEADERS_MAX: Final = 20
"""Headers of a record that are looked at: it may have 100,000, and the cell is cut anyway."""


def moving_routes(console: Console) -> Sequence[BaseRoute]:
    """The routes, for `create_app`."""
    tails = LiveFeed(TAILS_MAX, TAILS_MAX // 4)
    return (
        Route("/live", partial(_live, console), methods=["GET"]),
        Route("/tail/stream", partial(_tail, console, tails), methods=["GET"]),
    )


def sent(event: str, value: object) -> str:
    """One event as it goes to a browser. JSON in ASCII has no line break."""
    return f"event: {event}\ndata: {json.dumps(value)}\n\n"


async def _live(console: Console, request: Request) -> Response:
    browser = None
    try:
        browser = await console.browsers.find(request, touches=False)
        Fields.parsed(request.scope["query_string"], ())
        watch = console.watch
        if watch is None:
            return Response(status_code=204)  # a browser does not ask again
        stream_key = _whose(browser, request)
        watch.feed.check(stream_key)
    except TooManyStreamsError as error:
        return json_response({"error": {"name": type(error).__name__, "message": str(error)}}, 429)
    except Exception as error:
        return console.failed(error, browser, request, as_json=True)
    return _stream(_changes(console, browser, request, watch.feed), watch.feed, stream_key)


def _whose(browser: Browser, request: Request) -> str:
    """Names the owner of a stream: the user, or the network. A browser without a user brings any number of cookies."""
    return browser.user or network_of(request.client.host if request.client is not None else "")


async def _changes(console: Console, browser: Browser, request: Request, feed: LiveFeed) -> AsyncIterator[str]:
    version = feed.version
    yield sent("changed", {"version": version})
    while _is_open(console, browser, request):
        newer = await feed.wait_newer(version, QUIET_SECONDS)
        if newer == version:
            yield ": nothing new\n\n"
            continue
        version = newer
        yield sent("changed", {"version": version})
        await asyncio.sleep(LIVE_SECONDS)


async def _tail(console: Console, tails: LiveFeed, request: Request) -> Response:
    browser = None
    try:
        browser = await console.browsers.find(request, touches=False)
        name = Fields.parsed(request.scope["query_string"], ("name",)).text("name")
        await browser.link.admin.describe_topic(name)
        stream_key = _whose(browser, request)
        tails.check(stream_key)
    except TooManyStreamsError as error:
        return json_response({"error": {"name": type(error).__name__, "message": str(error)}}, 429)
    except Exception as error:
        return console.failed(error, browser, request, as_json=True)
    return _stream(_records(console, browser, request, name), tails, stream_key)


async def _records(console: Console, browser: Browser, request: Request, name: str) -> AsyncIterator[str]:
    consumer = browser.link.consumer(
        auto_offset_reset="latest", fetch_max_bytes=TAIL_FETCH_BYTES, max_partition_fetch_bytes=TAIL_FETCH_BYTES
    )
    try:
        await consumer.assign(await consumer.partitions_for(name))
        await consumer.seek_to_end()
        yield sent("state", {"text": "waiting for records"})
        while _is_open(console, browser, request):
            records = await _next_records(consumer)
            yield sent("records", {"records": [cells_of(record) for record in records]})
            if len(records) == TAIL_RECORDS_MAX:
                await consumer.seek_to_end()
                rate = TAIL_RECORDS_MAX / TAIL_SECONDS
                yield sent("state", {"text": f"more than {rate:.0f} records a second come; some are passed over"})
        yield sent("end", {"text": "the console or the session has ended"})
    except PenstockError as error:
        yield sent("end", {"text": one_line(error)})
    finally:
        await consumer.close()


async def _next_records(consumer: AsyncConsumer) -> list[ConsumerRecord]:
    """The records of the next moment, which lasts as long whether any come or not."""
    begun = asyncio.get_running_loop().time()
    records = await consumer.poll(timeout_ms=int(TAIL_SECONDS * 1000), max_records=TAIL_RECORDS_MAX)
    left = TAIL_SECONDS - (asyncio.get_running_loop().time() - begun)
    await asyncio.sleep(max(left, 0))
    return list(records)


def cells_of(record: ConsumerRecord) -> list[str]:
    """The cells of one row: time, partition, offset, key, value and headers, each one line and not long."""
    headers = ", ".join(
        f"{name[:TAIL_LETTERS_MAX]}={_text(value)}" for name, value in record.headers[:TAIL_HEADERS_MAX]
    )
    return [
        shown_time(record.timestamp_ms),
        str(record.partition),
        str(record.offset),
        _text(record.key),
        _text(record.value),
        _cut(one_line(headers)),
    ]


def _text(value: bytes | None) -> str:
    if value is None:
        return "–"
    return _cut(one_line(value[: 4 * TAIL_LETTERS_MAX].decode("utf-8", "backslashreplace")))


def _cut(text: str) -> str:
    return text if len(text) <= TAIL_LETTERS_MAX else f"{text[:TAIL_LETTERS_MAX]}…"


def _is_open(console: Console, browser: Browser, request: Request) -> bool:
    """True while neither the browser's session nor the console has ended."""
    if console.is_stopping or not browser.user:
        return not console.is_stopping
    session = console.browsers.session_of(request, touches=False)
    return session is not None and session.session_id == browser.browser_id


def _stream(events: AsyncIterator[str], feed: LiveFeed, key: str) -> Response:
    """The stream counts from its first event on: of a browser that is gone before, nothing would uncount it."""

    async def bounded() -> AsyncIterator[str]:
        with feed.stream(key):
            async with contextlib.aclosing(events) as source:  # type: ignore[type-var]
                until = asyncio.get_running_loop().time() + STREAM_SECONDS_MAX
                async for event in source:
                    yield event
                    if asyncio.get_running_loop().time() >= until:
                        return

    return StreamingResponse(bounded(), media_type="text/event-stream")
