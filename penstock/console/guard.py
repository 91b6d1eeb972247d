"""Middleware before all routes: the rules for every request, and the headers of every answer.

A request names this console as its host, or a page of another site could reach it by a name of its own that leads to
this machine (DNS rebinding). A post comes from this console's own pages: browsers say so in Origin, which
`Referrer-Policy: no-referrer` would make "null". Every answer says that no script, style, picture or frame from
elsewhere is wanted, and that nothing is stored. Not here: the token of forms (browsers.py), the limit of a body
(forms.py), and those of connections (connections.py).
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final
from urllib.parse import urlsplit

from penstock.console.settings import is_tls_at

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
METHODS: Final = ("GET", "HEAD", "POST")
TARGET_BYTES_MAX: Final = 20_000


class Guard:
    """The middleware."""

    def __init__(self, app: AsgiApp, origins: tuple[str, ...]) -> None:
        self._app = app
        self._origins = frozenset(origins)
        self._hosts = frozenset(urlsplit(origin).netloc for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            refusal = self._refusal(scope)
            if refusal is not None:
                await _refuse(*refusal, self._hardened(scope, send))
            else:
                await self._app(scope, receive, self._hardened(scope, send))

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """The status and the reason; None for a request that may pass."""
        headers = _headers(scope)
        if scope["method"] not in METHODS:
            return 405, "only GET, HEAD and POST are taken"
        if len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"") > TARGET_BYTES_MAX:
            return 414, "the address is too long"
        if headers.get("host", "") not in self._hosts:
            known = ", ".join(sorted(self._hosts))
            return 421, f"this console is {known}; `penstock console --public-url URL` gives it another name"
        if scope["method"] != "POST":
            return None if _may_ask(headers) else (403, "a page of another site has asked for this")
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins:
            return 403, "a page of another site has sent this, and it was not done"
        if origin is None and headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return 403, "a page of another site has sent this, and it was not done"
        return None

    def _hardened(self, scope: Scope, send: Send) -> Send:
        is_tls = is_tls_at(_headers(scope).get("host", ""), self._origins)
        more = {**HEADERS, **({"strict-transport-security": "max-age=31536000"} if is_tls else {})}
        if not scope["path"].startswith("/static/"):
            more["cache-control"] = "no-store"

        async def hardened(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                kept = [
                    (name, value) for name, value in message.get("headers", ()) if name.decode().lower() not in more
                ]
                message["headers"] = [*kept, *((name.encode(), value.encode()) for name, value in more.items())]
            await send(message)

        return hardened

    def __repr__(self) -> str:
        return f"Guard({', '.join(sorted(self._origins))})"


def _may_ask(headers: dict[str, str]) -> bool:
    """False for a request that a page of another site makes by itself, as for a picture, a frame or a stream. It could
    read no answer, and would still cost the cluster. A person may follow a link from anywhere. `same-site` is another
    port of this machine, to whose pages browsers give SameSite cookies."""
    if headers.get("sec-fetch-site", "none") in ("same-origin", "none"):
        return True
    return (
        headers.get("sec-fetch-mode", "navigate") == "navigate"
        and headers.get("sec-fetch-dest", "document") == "document"
    )


def _headers(scope: Scope) -> dict[str, str]:
    """The first value of each header."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    return found


async def _refuse(status: int, text: str, send: Send) -> None:
    body = json.dumps({"error": {"name": "Refused", "message": text}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
