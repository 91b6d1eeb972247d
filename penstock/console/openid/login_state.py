"""The state of a log-in that is under way at the provider, kept by the browser alone. Pure.

    cookie    BASE64URL(JSON of LoginState) "." HEX(HMAC-SHA256 under a key of this process)

The provider sends back `state`, which must be that of the cookie of the same browser: a log-in that somebody else has
begun counts for nobody (RFC 6749, 10.12). The verifier (PKCE) and the nonce bind the code and the ID token to it. Each
is of use once, for LOGIN_MS. The console keeps no log-in that was begun, so nobody can fill its memory with them; of
those that came back it remembers the newest, as long as they would count. Strangers can make it forget the older ones,
and keep nobody out by it: a code is of use once at the provider, too.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, field
from typing import Final

from penstock.console.openid.errors import OpenIdRefusedError
from penstock.lazy_dataclass import dataclass

LOGIN_MS: Final = 10 * 60_000
"""A person types a password and a second factor in it."""
USED_MAX: Final = 10_000
COOKIE_LETTERS_MAX: Final = 3_800
"""Browsers keep 4,096 bytes."""
AGAIN: Final = "begin the log-in again"


@dataclass(frozen=True, slots=True)
class LoginState:
    """One log-in that is under way."""

    state: str
    nonce: str
    verifier: str = field(repr=False)
    redirect_uri: str
    to: str
    """The page that the browser wanted."""
    begun_ms: int

    @property
    def challenge(self) -> str:
        """The verifier as the provider gets it first (S256)."""
        digest = hashlib.sha256(self.verifier.encode("ascii")).digest()
        return base64.urlsafe_b64encode(digest).decode("ascii").rstrip("=")


class LoginStates:
    """Begins log-ins, and takes each back once."""

    def __init__(self, new_secret: Callable[[], str], key: bytes, used_max: int = USED_MAX) -> None:
        """`new_secret` gives random text of 43 letters or more, as RFC 7636 wants of a verifier."""
        self._new_secret, self._key, self._used_max = new_secret, key, used_max
        self._used: OrderedDict[str, int] = OrderedDict()

    def begin(self, redirect_uri: str, to: str, now_ms: int) -> LoginState:
        """A new log-in."""
        return LoginState(self._new_secret(), self._new_secret(), self._new_secret(), redirect_uri, to, now_ms)

    def sealed(self, login: LoginState) -> str:
        """The log-in as the browser keeps it. OpenIdRefusedError if its page's address is too long for a cookie."""
        payload = base64.urlsafe_b64encode(json.dumps(asdict(login)).encode()).decode("ascii")
        if len(payload) > COOKIE_LETTERS_MAX:
            raise OpenIdRefusedError("the address of the page is too long to come back to; log in from /login")
        return f"{payload}.{self._mac(payload)}"

    def opened(self, cookie: str, state: str, now_ms: int) -> LoginState:
        """The log-in of the browser's cookie, once; OpenIdRefusedError unless the provider sent this very `state`."""
        payload, _, mac = cookie.partition(".")
        if not payload or not hmac.compare_digest(self._mac(payload).encode(), mac.encode()):
            raise OpenIdRefusedError(f"this browser has begun no log-in here, or it is too old; {AGAIN}")
        login = LoginState(**json.loads(base64.urlsafe_b64decode(payload)))
        if not hmac.compare_digest(login.state.encode(), state.encode()):
            raise OpenIdRefusedError(f"the answer is of another log-in than this browser's last one; {AGAIN}")
        if not 0 <= now_ms - login.begun_ms < LOGIN_MS:
            raise OpenIdRefusedError(f"the log-in took longer than {LOGIN_MS // 60_000} minutes; {AGAIN}")
        self._use(login, now_ms)
        return login

    def _use(self, login: LoginState, now_ms: int) -> None:
        while self._used and now_ms - next(iter(self._used.values())) >= LOGIN_MS:
            self._used.popitem(last=False)
        if login.state in self._used:
            raise OpenIdRefusedError(f"this answer has been used already; {AGAIN}")
        while len(self._used) >= self._used_max:
            self._used.popitem(last=False)
        self._used[login.state] = now_ms

    def _mac(self, payload: str) -> str:
        return hmac.new(self._key, payload.encode(), hashlib.sha256).hexdigest()

    def __repr__(self) -> str:
        return f"LoginStates({len(self._used)} used)"
