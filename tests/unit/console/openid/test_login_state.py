"""A log-in that is under way is kept by its browser, and of use once, here, and soon."""

from __future__ import annotations

import base64
import hashlib

import pytest

from penstock.console.openid.errors import OpenIdRefusedError
from penstock.console.openid.login_state import LOGIN_MS, LoginState, LoginStates


def states(key: bytes = b"k", used_max: int = 10) -> LoginStates:
    numbers = iter(range(1_000))
    return LoginStates(lambda: f"secret-{next(numbers)}", key, used_max)


def begun(found: LoginStates, now_ms: int = 0, to: str = "/topics") -> tuple[LoginState, str]:
    login = found.begin("http://h/login/callback", to, now_ms)
    return login, found.sealed(login)


def test_a_log_in_comes_back_as_it_was_and_its_secrets_differ() -> None:
    found = states()
    login, cookie = begun(found)
    assert len({login.state, login.nonce, login.verifier}) == 3 and login.verifier not in repr(login)
    assert found.opened(cookie, login.state, LOGIN_MS - 1) == login
    digest = hashlib.sha256(login.verifier.encode()).digest()
    assert base64.urlsafe_b64decode(login.challenge + "=") == digest


@pytest.mark.parametrize("change", ["payload", "mac", "empty", "other process", "other state", "late", "before"])
def test_one_that_is_not_as_it_was_begun_is_refused(change: str) -> None:
    found = states()
    login, cookie = begun(found, 5)
    payload, _, mac = cookie.partition(".")
    cookies = {"payload": f"A{payload[1:]}.{mac}", "mac": f"{payload}.{mac[:-1]}g", "empty": ""}
    taker = states(b"another") if change == "other process" else found
    state = "ü" if change == "other state" else login.state
    now_ms = {"late": LOGIN_MS + 5, "before": 4}.get(change, 5)
    with pytest.raises(OpenIdRefusedError):
        taker.opened(cookies.get(change, cookie), state, now_ms)


def test_each_is_of_use_once_and_many_that_come_back_keep_no_other_out() -> None:
    found = states(used_max=2)
    pairs = [begun(found) for _ in range(3)]
    for login, cookie in pairs:
        found.opened(cookie, login.state, 1)
        with pytest.raises(OpenIdRefusedError, match="used already"):
            found.opened(cookie, login.state, 2)
    assert repr(found) == "LoginStates(2 used)"
    login, cookie = begun(found, LOGIN_MS)
    assert found.opened(cookie, login.state, LOGIN_MS + 1) == login and repr(found) == "LoginStates(1 used)"


def test_an_address_that_no_cookie_can_hold_is_refused() -> None:
    with pytest.raises(OpenIdRefusedError, match="too long"):
        begun(states(), to="/topics?filter=" + "a" * 4_000)
