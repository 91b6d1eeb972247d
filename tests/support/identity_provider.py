"""An identity provider on loopback, over real HTTP: OpenID Connect's code flow with PKCE, and ways in which it lies.

It logs in whoever comes as `user`. Codes and refresh tokens are of use once. `lies` has what it tells otherwise; a
request for a path in `hangs` is answered when the provider ends.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote_plus, urlencode, urlsplit

from tests.support.issuer import AUDIENCE, HOUR_S, Issuer, ec_key

CLIENT_ID = "console"


class IdentityProvider:
    """The provider's side of every log-in."""

    def __init__(self, secret: str = "") -> None:
        self.issuer, self.secret, self.user = Issuer(ec_key("first")), secret, "anna"
        self.lies: dict[str, Any] = {}
        self.hangs: set[str] = set()
        self.statuses: dict[str, int] = {}
        self.asked: list[str] = []
        self.given: list[str] = []
        """Every token that it has given."""
        self.life_s = HOUR_S
        self._codes: dict[str, dict[str, str]] = {}
        self._refreshing: set[str] = set()
        self.ended = threading.Event()
        self.now_s: Callable[[], int] = lambda: int(time.time())
        self.url = ""

    def authorize(self, query: dict[str, str]) -> str:
        """The address to which the person is led back."""
        code = secrets.token_urlsafe(16)
        self._codes[code] = query
        usual = {"code": code, "state": query["state"], "iss": self.url, "session_state": "x"}
        back = {**usual, **self.lies.get("back", {})}
        return f"{query['redirect_uri']}?{urlencode(back)}"

    def tokens(self, form: dict[str, str], authorization: str) -> tuple[int, Any]:
        """The answer of the token endpoint."""
        if self.secret and client_of(authorization) != (CLIENT_ID, self.secret):
            return 401, {"error": "invalid_client"}
        if form["grant_type"] == "refresh_token":
            if form["refresh_token"] not in self._refreshing:
                return 400, {"error": "invalid_grant"}
            self._refreshing.discard(form["refresh_token"])
            return 200, self._granted("")
        asked = self._codes.pop(form["code"], None)
        if asked is None or asked["redirect_uri"] != form["redirect_uri"] or asked["client_id"] != form["client_id"]:
            return 400, {"error": "invalid_grant", "error_description": "the code was used"}
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(digest).decode().rstrip("=") != asked["code_challenge"]:
            return 400, {"error": "invalid_grant", "error_description": "PKCE"}
        return 200, self._granted(asked["nonce"])

    def _granted(self, nonce: str) -> dict[str, Any]:
        now_s = self.now_s()
        refresh = secrets.token_urlsafe(16)
        self._refreshing.add(refresh)
        times = {"iat": now_s, "exp": now_s + self.life_s}
        mine = {"iss": self.url, "sub": self.user, **times}
        access = self.issuer.token(**{**mine, "aud": AUDIENCE, "jti": refresh, **self.lies.get("access", {})})
        identity = self.issuer.token(
            **{**mine, "aud": CLIENT_ID, "nonce": nonce or None, **self.lies.get("id", {})},
            key=self.lies.get("key"),
        )
        self.given += [access, identity, refresh]
        tokens = {
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": self.life_s,
            "id_token": identity,
            "refresh_token": refresh,
        }
        return {**tokens, **self.lies.get("tokens", {})}

    def description(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize?tenant=a",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            **self.lies.get("description", {}),
        }

    def answer(self, method: str, target: str, body: bytes, authorization: str) -> tuple[int, dict[str, str], bytes]:
        """The answer to any request."""
        parts = urlsplit(target)
        self.asked.append(parts.path)
        if parts.path in self.hangs:
            self.ended.wait()
        if parts.path in self.lies.get("raw", {}):
            return 200, {}, self.lies["raw"][parts.path]
        if parts.path in self.statuses:
            return self.statuses[parts.path], {"location": f"{self.url}/elsewhere"}, b"{}"
        if parts.path == "/authorize":
            return 302, {"location": self.authorize(dict(parse_qsl(parts.query)))}, b""
        if parts.path == "/keys":
            return 200, {}, self.issuer.key_set
        if parts.path == "/token" and method == "POST":
            form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
            status, answer = self.tokens(form, authorization)
            return status, {}, json.dumps(answer).encode()
        if parts.path == "/.well-known/openid-configuration":
            return 200, {}, json.dumps(self.description()).encode()
        return 404, {}, b"no such page"


def client_of(authorization: str) -> tuple[str, str]:
    """The name and the secret of a client, by RFC 6749, 2.3.1."""
    name, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
    return unquote_plus(name), unquote_plus(secret)


@contextmanager
def running_provider(secret: str = "") -> Iterator[IdentityProvider]:
    """A provider that answers until the `with` ends."""
    provider = IdentityProvider(secret)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            authorization = self.headers.get("authorization", "")
            status, headers, content = provider.answer(self.command, self.path, body, authorization)
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is written to the test's output."""

        def handle(self) -> None:
            try:
                super().handle()
            except ConnectionError:
                return  # the console has stopped waiting

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    provider.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield provider
    finally:
        provider.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()
