"""A token is renewed once for all who wait, early where it can be, and never after the provider refused it."""

from __future__ import annotations

import asyncio

import pytest

from penstock.console.openid.errors import OpenIdRefusedError, ProviderAwayError
from penstock.console.openid.provider import GrantedTokens
from penstock.console.openid.token_grant import RENEW_EARLY_MS, TRY_AGAIN_MS, TokenGrant

LIFE_MS = 300_000


def tokens(number: int, *, life_s: int = LIFE_MS // 1000, can_renew: bool = True) -> GrantedTokens:
    return GrantedTokens(f"access-{number}", f"refresh-{number}" if can_renew else "", "", life_s)


class FakeProvider:
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_answer = asyncio.Event()
        self.error: Exception | None = None

    async def renew(self, before: GrantedTokens) -> GrantedTokens:
        self.asked.append(before.refresh_token)
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return tokens(len(self.asked))


def test_a_young_token_is_left_alone_and_an_old_one_renewed_beside_the_request() -> None:
    async def story() -> None:
        provider = FakeProvider()
        grant = TokenGrant(tokens(0), provider.renew, 0)
        await grant.fresh(LIFE_MS - RENEW_EARLY_MS - 1)
        assert provider.asked == []
        for _ in range(3):
            await grant.fresh(LIFE_MS - 1)  # waits for nothing
        assert grant.token() == "access-0"
        provider.may_answer.set()
        await asyncio.gather(*(grant.fresh(LIFE_MS) for _ in range(3)))
        assert grant.token() == "access-1" and provider.asked == ["refresh-0"]
        assert "access" not in repr(grant) and "access" not in repr(tokens(0))

    asyncio.run(story())


def test_a_provider_that_is_away_is_asked_again_a_little_later() -> None:
    async def story() -> None:
        provider = FakeProvider()
        provider.may_answer.set()
        provider.error = ProviderAwayError("away")
        grant = TokenGrant(tokens(0), provider.renew, 0)
        for _ in range(3):
            with pytest.raises(ProviderAwayError):
                await grant.fresh(LIFE_MS)
        assert len(provider.asked) == 1 and not grant.is_over(LIFE_MS)
        provider.error = None
        await grant.fresh(LIFE_MS + TRY_AGAIN_MS)
        assert grant.token() == "access-2"
        await grant.close()

    asyncio.run(story())


def test_a_log_in_that_is_refused_or_cannot_be_renewed_ends_with_its_token() -> None:
    async def story() -> None:
        provider = FakeProvider()
        provider.may_answer.set()
        provider.error = OpenIdRefusedError("invalid_grant")
        grant = TokenGrant(tokens(0), provider.renew, 0)
        await grant.fresh(LIFE_MS - 1)
        with pytest.raises(OpenIdRefusedError):
            await grant.fresh(LIFE_MS)
        assert grant.is_over(LIFE_MS) and len(provider.asked) == 1
        lone = TokenGrant(tokens(0, can_renew=False), provider.renew, 0)
        await lone.fresh(LIFE_MS - 1)
        assert not lone.is_over(LIFE_MS - 1) and lone.is_over(LIFE_MS)
        with pytest.raises(OpenIdRefusedError):
            await lone.fresh(LIFE_MS)
        assert len(provider.asked) == 1

    asyncio.run(story())


def test_a_short_life_is_renewed_at_its_half_and_an_end_stops_a_renewal() -> None:
    async def story() -> None:
        provider = FakeProvider()
        grant = TokenGrant(tokens(0, life_s=10), provider.renew, 0)
        await grant.fresh(4_999)
        assert provider.asked == []
        await grant.fresh(5_000)
        await asyncio.sleep(0)
        assert provider.asked == ["refresh-0"]
        await grant.close()
        await grant.close()
        assert grant.token() == "access-0"
        provider.may_answer.set()
        short = TokenGrant(tokens(0, life_s=1), provider.renew, 0)
        for now_ms in (1_000, 301_000, 601_000):
            await short.fresh(now_ms)  # a renewal that went well is no reason to wait
        assert len(provider.asked) == 4

    asyncio.run(story())


def test_a_request_that_waits_for_a_renewal_learns_that_a_log_out_has_ended_it() -> None:
    async def story() -> None:
        grant = TokenGrant(tokens(0), FakeProvider().renew, 0)
        waiting = asyncio.create_task(grant.fresh(LIFE_MS))
        await asyncio.sleep(0)
        await grant.close()
        with pytest.raises(OpenIdRefusedError):
            await waiting
        other = TokenGrant(tokens(0), FakeProvider().renew, 0)
        waiting = asyncio.create_task(other.fresh(LIFE_MS))
        await asyncio.sleep(0)
        waiting.cancel()  # the browser is gone
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await other.close()

    asyncio.run(story())
