"""A provider that hangs holds up a log-in for a short time. How it lies is in ../logins/test_openid_login.py."""

from __future__ import annotations

import asyncio

import pytest

from penstock.console.openid.errors import ProviderAwayError
from penstock.console.openid.login_state import LoginStates
from penstock.console.openid.provider import LIFE_S_MAX, LIFE_S_USUAL, Provider, life_s_of
from penstock.console.settings import OpenIdSettings
from tests.support.identity_provider import CLIENT_ID, running_provider


def test_the_life_of_a_token_is_a_number_also_where_it_is_written_as_a_text() -> None:
    assert (life_s_of(3_599), life_s_of("3599"), life_s_of(10**9)) == (3_599, 3_599, LIFE_S_MAX)
    assert {life_s_of(odd) for odd in (None, True, 0, -5, 1.5, "", "-5", "1e3", "9" * 99, [])} == {LIFE_S_USUAL}


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token"])
def test_a_provider_that_hangs_is_given_up(path: str) -> None:
    with running_provider() as running:
        running.hangs = {path}
        settings = OpenIdSettings(issuer=running.url, client_id=CLIENT_ID)
        provider = Provider(settings, lambda: 0, lambda: 0, answer_seconds=0.2)
        login = LoginStates(lambda: "secret", b"key").begin("http://127.0.0.1:1/login/callback", "/topics", 0)

        async def story() -> None:
            with pytest.raises(ProviderAwayError, match=r"does not answer \(.*Timeout.*\)"):
                await provider.tokens_of(login, "code")

        asyncio.run(story())
        assert repr(provider) == f"Provider({running.url})"
