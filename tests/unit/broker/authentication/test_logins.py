"""Logging in by each mechanism, and that guessing is slow and bounded: in virtual time, with the cores that ship."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Coroutine, Sequence
from typing import Any

import pytest

from broker.audit.audit_log import AuditLog
from broker.audit.log_ins import AuditedLogIns
from broker.authentication.attempts import ALL_MAX, OF_HOST_MAX, SHARED_MAX
from broker.authentication.authentication_counts import AuthenticationCounts
from broker.authentication.logins import UNWATCHED, LoginListener, Logins, LogInWatch
from broker.authentication.tokens.ports import TokenStatistics
from penstock.errors import ResourceExhaustedError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError
from penstock.sasl.credentials import ScramCredential, ScramMechanism
from penstock.sasl.mechanisms import MECHANISMS
from penstock.sasl.oauthbearer import TokenOwner, UnknownKeyError
from penstock.sasl.refusal import SaslRefusedError
from penstock.types import Endpoint
from tests.support.raft_fakes import InlineExecutor
from tests.support.virtual_time import run_virtual

DELAY_MS = 100
HERE = Endpoint("10.0.0.1", 4711)
ALL = tuple(name for name, row in MECHANISMS.items() if not row.takes_token)
"""By a password."""


class Users:
    """Anna's password is `secret`."""

    def __init__(self) -> None:
        self._of_anna = {one: ScramCredential.of_password(one, "secret", b"salt", 4_096) for one in ScramMechanism}

    def credential(self, mechanism: ScramMechanism, username: str) -> ScramCredential:
        return self._of_anna[mechanism] if username == "anna" else ScramCredential.stand_in(mechanism, username, b"s")


USERS = Users()
NEIGHBOUR = Endpoint(HERE.host, 9_999)


class Tokens:
    """A listener's tokens are names of users; that of `later` counts once its key was asked for."""

    def __init__(self) -> None:
        self.learned, self.can_learn = 0, True

    def of(self, listener: str) -> Tokens | None:
        return self if listener == "OUTSIDE" else None

    def check(self, token: str) -> TokenOwner:
        if token == "later" and not (self.learned and self.can_learn):
            raise UnknownKeyError("its key is not known")
        if token.startswith("bad"):
            raise SaslRefusedError("it has expired")
        return TokenOwner(token, 4_000)

    async def learn(self) -> bool:
        self.learned += 1
        await asyncio.sleep(0.5)
        return self.can_learn

    def statistics(self) -> Sequence[TokenStatistics]:
        return ()


def listener(*, is_tls: bool = True, mechanisms: Collection[str] = tuple(MECHANISMS)) -> LoginListener:
    return LoginListener("OUTSIDE", mechanisms, is_tls)


class Bench:
    def __init__(self, watch: LogInWatch = UNWATCHED) -> None:
        self.counts, self.tokens = AuthenticationCounts(), Tokens()
        executor = InlineExecutor()
        self.logins = Logins(USERS, lambda: "nonceofserver", executor, self.counts, DELAY_MS, watch, self.tokens)

    async def log_in(self, mechanism: str, user: str, password: str, peer: Endpoint = HERE) -> str:
        """The principal."""
        dialogue = self.logins.begin(listener(), mechanism)
        client = MECHANISMS[mechanism].client(user, password, "nonceofclient")
        message = client.respond()
        while message is not None:
            message = client.respond(await self.logins.respond(dialogue, message, peer))
        assert dialogue.is_done
        return dialogue.principal

    def counted(self) -> tuple[int, int, int]:
        of = self.counts.statistics()["OUTSIDE"]
        return of.succeeded, of.failed, of.throttled


def now_ms() -> float:
    return asyncio.get_running_loop().time() * 1000


async def elapsed_ms(story: Coroutine[Any, Any, object]) -> tuple[float, object]:
    began = now_ms()
    try:
        result = await story
    except Exception as error:
        result = error
    return round(now_ms() - began), result


@pytest.mark.parametrize("mechanism", ALL)
def test_the_right_password_logs_in_at_once(mechanism: str) -> None:
    async def story() -> None:
        bench = Bench()
        assert await elapsed_ms(bench.log_in(mechanism, "anna", "secret")) == (0, "User:anna")
        assert bench.counted() == (1, 0, 0)

    run_virtual(story())


@pytest.mark.parametrize("mechanism", ALL)
@pytest.mark.parametrize(("user", "password"), [("anna", "Secret"), ("bert", "secret"), ("anna", "secret ")])
def test_a_wrong_one_is_refused_after_a_while_with_one_text(mechanism: str, user: str, password: str) -> None:
    async def story() -> None:
        bench = Bench()
        took, error = await elapsed_ms(bench.log_in(mechanism, user, password))
        assert isinstance(error, SaslAuthenticationFailedError) and took == DELAY_MS
        assert "the user's name or the password is wrong" in str(error) and user not in str(error)
        assert bench.counted() == (0, 1, 0)

    run_virtual(story())


@pytest.mark.parametrize("mechanism", ALL)
@pytest.mark.parametrize("message", [b"", b"\0", b"\xff" * 10, b"n,,n=anna", b"n,,n=anna,r=", b"x" * 8_000])
def test_what_is_no_message_of_the_mechanism_is_refused_like_a_wrong_password(mechanism: str, message: bytes) -> None:
    async def story() -> None:
        bench = Bench()
        asked = bench.logins.respond(bench.logins.begin(listener(), mechanism), message, HERE)
        took, error = await elapsed_ms(asked)
        assert isinstance(error, SaslAuthenticationFailedError) and took == DELAY_MS

    run_virtual(story())


@pytest.mark.parametrize(
    ("mechanism", "at", "words"),
    [
        ("GSSAPI", listener(), "does not offer the SASL mechanism 'GSSAPI'; it has SCRAM-SHA-256"),
        ("scram-sha-256", listener(), "does not offer"),
        ("", listener(), "does not offer"),
        ("PLAIN", listener(is_tls=False), "and this one over TLS only; it has SCRAM-SHA-256, SCRAM-SHA-512"),
        ("OAUTHBEARER", listener(is_tls=False), "and this one over TLS only; it has SCRAM-SHA-256, SCRAM-SHA-512"),
        ("PLAIN", listener(mechanisms=("SCRAM-SHA-512",)), "it has SCRAM-SHA-512 (sasl.enabled.mechanisms)"),
        ("x" * 9_000, listener(), "does not offer"),
    ],
)
def test_a_mechanism_that_the_listener_does_not_offer(mechanism: str, at: LoginListener, words: str) -> None:
    with pytest.raises(UnsupportedSaslMechanismError) as caught:
        Bench().logins.begin(at, mechanism)
    assert words in str(caught.value) and len(str(caught.value)) < 400


def test_guesses_of_one_address_are_bounded_and_keep_nobody_else_out() -> None:
    async def story() -> None:
        bench = Bench()
        guesses = [elapsed_ms(bench.log_in("PLAIN", "anna", f"guess {n}", Endpoint(HERE.host, n))) for n in range(100)]
        others = [elapsed_ms(bench.log_in(name, "anna", "secret", Endpoint("10.0.0.2", 1))) for name in ALL]
        waits_ms = await asyncio.gather(*guesses, *others)
        heard = [took for took, error in waits_ms[:100] if isinstance(error, SaslAuthenticationFailedError)]
        unheard = [took for took, error in waits_ms[:100] if isinstance(error, ResourceExhaustedError)]
        assert heard == [DELAY_MS] * OF_HOST_MAX and unheard == [0] * (100 - OF_HOST_MAX)
        assert waits_ms[100:] == [(0, "User:anna")] * len(ALL)
        assert bench.counted() == (len(ALL), OF_HOST_MAX, 100 - OF_HOST_MAX)
        assert await bench.log_in("PLAIN", "anna", "secret") == "User:anna", "the guesses are over"

    run_virtual(story())


def test_one_connection_that_guesses_holds_up_nobody_behind_its_address() -> None:
    async def story() -> None:
        bench = Bench()
        guesses = [elapsed_ms(bench.log_in("PLAIN", "anna", f"guess {n}")) for n in range(100)]
        waits_ms = await asyncio.gather(*guesses, elapsed_ms(bench.log_in("PLAIN", "anna", "secret", NEIGHBOUR)))
        assert waits_ms[-1] == (0, "User:anna") and bench.counted() == (1, 1, 99)

    run_virtual(story())


def test_guesses_behind_an_address_by_which_somebody_has_logged_in_hold_up_no_client_of_it() -> None:
    async def story() -> None:
        bench = Bench()
        await bench.log_in("PLAIN", "anna", "secret")
        peers = [Endpoint(HERE.host, port) for port in range(1, 2 * OF_HOST_MAX)]
        guesses = [elapsed_ms(bench.log_in("PLAIN", "anna", "guess", peer)) for peer in peers]
        waits_ms = await asyncio.gather(*guesses, elapsed_ms(bench.log_in("PLAIN", "anna", "secret", NEIGHBOUR)))
        assert waits_ms[-1] == (0, "User:anna")

    run_virtual(story())


@pytest.mark.parametrize("mechanism", ALL)
def test_sixteen_addresses_that_guess_hold_nobody_up(mechanism: str) -> None:
    async def story() -> None:
        bench = Bench()
        hosts = [f"10.1.0.{n}" for n in range(SHARED_MAX // OF_HOST_MAX)]
        peers = [Endpoint(host, n) for host in hosts for n in range(100)]
        guesses = [elapsed_ms(bench.log_in(mechanism, "anna", "no", peer)) for peer in peers]
        guessing = asyncio.ensure_future(asyncio.gather(*guesses))
        await asyncio.sleep(DELAY_MS / 2000)
        assert len(bench.logins.attempts) == SHARED_MAX
        for newcomer in (HERE, Endpoint("10.0.0.2", 1), Endpoint("2001:db8::1", 1)):
            assert await elapsed_ms(bench.log_in(mechanism, "anna", "secret", newcomer)) == (0, "User:anna")
        waits_ms = await guessing
        assert sum(isinstance(error, SaslAuthenticationFailedError) for _, error in waits_ms) == SHARED_MAX
        assert not len(bench.logins.attempts)

    run_virtual(story())


@pytest.mark.long  # 4,000 log-ins; test_attempts.py has the limit and who stays above it, without log-ins
def test_guesses_of_many_addresses_are_bounded_together_and_whoever_has_logged_in_before_is_heard() -> None:
    async def story() -> None:
        bench = Bench()
        await bench.log_in("SCRAM-SHA-256", "anna", "secret")
        hosts = [Endpoint(f"10.1.{n // 250}.{n % 250}", 1) for n in range(ALL_MAX + 10)]
        guesses = (elapsed_ms(bench.log_in("SCRAM-SHA-256", "anna", "no", host)) for host in hosts)
        guessing = asyncio.ensure_future(asyncio.gather(*guesses))
        await asyncio.sleep(DELAY_MS / 2000)
        assert await elapsed_ms(bench.log_in("SCRAM-SHA-256", "anna", "secret")) == (0, "User:anna")
        waits_ms = await guessing
        assert sum(isinstance(error, SaslAuthenticationFailedError) for _, error in waits_ms) == ALL_MAX

    run_virtual(story())


def test_log_ins_are_audited_in_bounded_lines_and_a_refusal_without_the_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        bench = Bench(AuditedLogIns(audit))
        for _ in range(20):
            await elapsed_ms(bench.log_in("PLAIN", "anna", "guess"))
            await elapsed_ms(bench.log_in("PLAIN", "anna", "secret"))
        await elapsed_ms(bench.log_in("PLAIN", "anna", "guess", Endpoint("10.0.0.2", 9)))

    audit = AuditLog(lambda: 0)
    with caplog.at_level("INFO", "penstock.audit"):
        run_virtual(story())
    refused, logged_in, other = (json.loads(record.getMessage()) for record in caplog.records)
    at = {"host": "10.0.0.1", "port": 4711, "listener": "OUTSIDE", "api": "SaslAuthenticate", "mechanism": "PLAIN"}
    assert logged_in == {"outcome": "logged in", "principal": "User:anna", **at}
    assert refused.pop("why")
    error = {"error": "SASL_AUTHENTICATION_FAILED"}
    assert refused == {"outcome": "not logged in", "principal": "User:ANONYMOUS", **at, **error}
    assert other["host"] == "10.0.0.2" and other["left_out"] == 19
    found = audit.statistics()
    assert (found.log_ins, found.failed_log_ins, found.refusals) == (19, 19, 0)
    assert not [record for record in caplog.records if "guess" in record.getMessage()]
    assert "anna" not in json.dumps([refused, other])


def test_the_addresses_of_one_network_of_64_bits_fill_no_audit_log(caplog: pytest.LogCaptureFixture) -> None:
    watch = AuditedLogIns(AuditLog(lambda: 0))
    with caplog.at_level("INFO", "penstock.audit"):
        for number in range(1, 20):
            watch.refused("OUTSIDE", "PLAIN", Endpoint(f"2001:db8::{number:x}", 1), "a guess")
        watch.refused("OUTSIDE", "PLAIN", HERE, "a guess")
    assert [json.loads(record.getMessage())["host"] for record in caplog.records] == ["2001:db8::1", "10.0.0.1"]


def test_nothing_secret_is_in_a_text() -> None:
    bench = Bench()
    dialogue = bench.logins.begin(listener(), "PLAIN")
    assert "secret" not in repr(bench.logins) + repr(dialogue) + repr(bench.counts)


def test_a_token_logs_in_and_ends() -> None:
    async def story() -> None:
        bench = Bench()
        dialogue = bench.logins.begin(listener(), "OAUTHBEARER")
        message = MECHANISMS["OAUTHBEARER"].client("", "anna", "").respond() or b""
        assert await bench.logins.respond(dialogue, message, HERE) == b""
        assert (dialogue.principal, dialogue.ends_ms) == ("User:anna", 4_000)
        assert bench.counted() == (1, 0, 0) and bench.tokens.learned == 0

    run_virtual(story())


def test_a_token_that_does_not_count_is_refused_like_a_wrong_password(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        bench = Bench()
        took, error = await elapsed_ms(bench.log_in("OAUTHBEARER", "", "bad-token-of-anna"))
        assert isinstance(error, SaslAuthenticationFailedError) and took == DELAY_MS
        assert "it has expired" in str(error) and "bad-token" not in str(error)
        assert bench.counted() == (0, 1, 0)

    run_virtual(story())
    assert "bad-token" not in caplog.text


def test_an_unknown_key_is_asked_for_once_and_the_same_message_judged_again() -> None:
    async def story() -> None:
        bench = Bench()
        assert await elapsed_ms(bench.log_in("OAUTHBEARER", "", "later")) == (500, "User:later")
        assert bench.tokens.learned == 1 and bench.counted() == (1, 0, 0)
        bench.tokens.can_learn = False
        took, error = await elapsed_ms(bench.log_in("OAUTHBEARER", "", "later"))
        assert isinstance(error, SaslAuthenticationFailedError) and took == 500 + DELAY_MS
        assert "its key is not known" in str(error) and bench.counted() == (1, 1, 0)

    run_virtual(story())


def test_a_listener_without_tokens_takes_none() -> None:
    async def story() -> None:
        bench = Bench()
        dialogue = bench.logins.begin(LoginListener("ELSEWHERE", tuple(MECHANISMS), True), "OAUTHBEARER")
        message = MECHANISMS["OAUTHBEARER"].client("", "anna", "").respond() or b""
        with pytest.raises(SaslAuthenticationFailedError, match="no tokens are taken here"):
            await bench.logins.respond(dialogue, message, HERE)
        assert not dialogue.is_done

    run_virtual(story())
