"""Every request names this console, a post comes from its own pages, and every answer limits what a browser does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx
import pytest

from penstock.console.guard import POLICY, Guard, Receive, Scope, Send

ORIGIN = "http://127.0.0.1:9180"


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    headers = [(b"content-type", b"text/plain"), (b"Cache-Control", b"public")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"passed"})


def asked(
    method: str = "GET", headers: Mapping[str, str] | None = None, url: str = f"{ORIGIN}/topics"
) -> httpx.Response:
    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(Guard(app, (ORIGIN, "https://console.example")))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport) as client:
            return await client.request(method, url, headers=dict(headers or {}))

    return asyncio.run(run())


def test_an_answer_allows_nothing_from_elsewhere_and_is_not_stored() -> None:
    answer = asked()
    assert (answer.status_code, answer.text) == (200, "passed")
    assert answer.headers["content-security-policy"] == POLICY and "unsafe" not in POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers.get_list("cache-control") == ["no-store"]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:9181", "127.0.0.1:9180.evil.example", ""])
def test_a_name_that_somebody_else_leads_here_is_refused(host: str) -> None:
    answer = asked(headers={"host": host})
    assert answer.status_code == 421 and "passed" not in answer.text


def test_the_public_name_is_taken_too() -> None:
    assert asked(url="https://console.example/").status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": ORIGIN}, 200),
        ({"origin": "https://console.example"}, 200),
        ({}, 200),  # no browser: the form's token still has to be right
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:9181"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
    ],
)
def test_a_post_comes_from_a_page_of_this_console(headers: Mapping[str, str], status: int) -> None:
    assert asked("POST", headers).status_code == status


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"])
def test_other_methods_are_refused(method: str) -> None:
    assert asked(method).status_code == 405


def test_a_long_address_is_refused() -> None:
    assert asked(url=f"{ORIGIN}/topics?filter={'a' * 30_000}").status_code == 414


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize(
    ("mode", "dest", "status"),
    [
        ("navigate", "document", 200),  # a link in a chat
        ("navigate", "iframe", 403),
        ("no-cors", "image", 403),
        ("no-cors", "script", 403),
        ("cors", "empty", 403),  # fetch, and EventSource
    ],
)
def test_a_page_of_another_site_makes_no_request_by_itself(site: str, mode: str, dest: str, status: int) -> None:
    headers = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": dest}
    assert asked(headers=headers).status_code == status
    assert asked(headers={**headers, "sec-fetch-site": "same-origin"}).status_code == 200
    assert asked("HEAD", headers=headers).status_code == status


def test_browsers_come_back_by_tls_alone_where_they_come_by_tls() -> None:
    assert "strict-transport-security" in asked(url="https://console.example/").headers
    assert "strict-transport-security" not in asked().headers
