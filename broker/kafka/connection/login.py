"""The log-in of one connection to a listener with SASL: who it is, and since when, until when.

    nobody ── SaslHandshake ──► a mechanism ── SaslAuthenticate … ──► User:anna ──► again, before its time is over

Before it is somebody, a connection may ask for nothing else, and no longer than LOGIN_MS_MAX; requests are small, and
each has FRAME_MS_MAX to be whole. A log-in that fails ends the connection once its answer has left. A later one
(KIP-368) must be of the same user by the same mechanism; when the time of the last one is over
(`connections.max.reauth.ms`), the next request for anything else ends the connection. Not here: a dialogue's messages,
and the delay of refusals (`broker/authentication/logins.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from broker.authentication.authentication_counts import AuthenticationCounts
from broker.authentication.logins import Dialogue, LoginListener, Logins, offered_by
from broker.kafka.apis.authentication.sasl import BEFORE_LOGIN
from broker.kafka.plan import ConnectionEnds, LoginStep
from penstock.errors import (
    ApiError,
    IllegalSaslStateError,
    ResourceExhaustedError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from penstock.types import Endpoint

LOGIN_MS_MAX: Final = 30_000
"""A client logs in within a second. A client that never logs in holds the place of another."""
FRAME_MS_MAX: Final = 5_000
"""A request before a log-in comes in one piece, or nearly. A request that does not end holds memory of its
neighbours."""


class KafkaLogin:
    """The log-in of one connection. Times are monotonic."""

    def __init__(
        self,
        listener: LoginListener,
        logins: Logins,
        counts: AuthenticationCounts,
        lifetime_ms: Callable[[Dialogue], int],
        peer: Endpoint,
        now_ms: Callable[[], int],
        on_login: Callable[[str], None],
        on_failure: Callable[[], object],
    ) -> None:
        """`on_login` hears the principal, each time; `on_failure` ends the connection."""
        self._listener, self._logins, self._counts = listener, logins, counts
        self._lifetime_ms, self._peer, self._now_ms = lifetime_ms, peer, now_ms
        self._on_login, self._on_failure = on_login, on_failure
        self._begun_ms = now_ms()
        self._ends_ms: int | None = None
        self._dialogue: Dialogue | None = None
        self._is_over = False
        self._refusal: SaslAuthenticationFailedError | None = None
        """The error that its client is told next, after the mechanism's own words."""
        self._mechanism = self.principal = ""
        """`principal` is "" for nobody yet."""

    @property
    def offered(self) -> Sequence[str]:
        return offered_by(self._listener)

    def is_late(self, now_ms: int, frame_since_ms: int | None = None) -> bool:
        """True if the connection has had its time and nobody has logged in, or a request has had its own, which began
        to come at `frame_since_ms`."""
        if self.principal:
            return False
        has_slow_frame = frame_since_ms is not None and now_ms - frame_since_ms > FRAME_MS_MAX
        return has_slow_frame or now_ms - self._begun_ms > LOGIN_MS_MAX

    def check(self, key: int, name: str) -> None:
        """ConnectionEnds if it may not ask for the API now."""
        if self._is_over:
            raise ConnectionEnds("its log-in failed")
        if key in BEFORE_LOGIN:
            return
        if self._refusal is not None:
            raise ConnectionEnds(f"{name} after its log-in failed")
        if not self.principal:
            raise ConnectionEnds(
                f"{name} before it has logged in; this listener has SASL ({', '.join(self.offered)}), and the client"
                " may not be configured for it"
            )
        if self._ends_ms is not None and self._now_ms() >= self._ends_ms:
            raise ConnectionEnds(
                f"{name} by {self.principal}, whose log-in is over (connections.max.reauth.ms); its client did not log"
                " in again"
            )

    def choose(self, mechanism: str) -> ApiError | None:
        """Begins a dialogue. An error ends the connection."""
        try:
            if self._refusal is not None:
                raise self._refusal
            if self.principal and mechanism != self._mechanism:
                raise IllegalSaslStateError(
                    f"{self.principal} has logged in by {self._mechanism}; a connection keeps its mechanism"
                )
            self._dialogue = self._logins.begin(self._listener, mechanism)
        except (UnsupportedSaslMechanismError, IllegalSaslStateError, SaslAuthenticationFailedError) as error:
            self._fail()
            return error
        return None

    async def respond(self, message: bytes) -> LoginStep:
        """The answer to a message of the client. ConnectionEnds where a client had better connect again later."""
        if self._refusal is not None:
            self._fail()
            return LoginStep(error=self._refusal)
        dialogue = self._dialogue
        if dialogue is None:
            self._fail()
            return LoginStep(error=IllegalSaslStateError("SaslAuthenticate comes after SaslHandshake"))
        try:
            answer = await self._logins.respond(dialogue, message, self._peer)
        except ResourceExhaustedError as error:
            raise ConnectionEnds(error.message) from None
        except SaslAuthenticationFailedError as error:
            if not dialogue.refusal_message:
                self._fail()
                return LoginStep(error=error)
            self._refusal = error
            return LoginStep(dialogue.refusal_message)
        if not dialogue.is_done:
            return LoginStep(answer)
        self._dialogue = None
        return self._logged_in(dialogue, answer)

    def _logged_in(self, dialogue: Dialogue, answer: bytes) -> LoginStep:
        if self.principal:
            if dialogue.principal != self.principal:
                self._fail()
                return LoginStep(
                    error=SaslAuthenticationFailedError(
                        f"this connection is {self.principal}, and cannot become {dialogue.principal}"
                    )
                )
            self._counts.renewed(self._listener.name)
        self._mechanism, self.principal = dialogue.mechanism.name, dialogue.principal
        lifetime_ms = self._lifetime_ms(dialogue)
        self._ends_ms = self._now_ms() + lifetime_ms if lifetime_ms else None
        self._on_login(self.principal)
        return LoginStep(answer, lifetime_ms)

    def _fail(self) -> None:
        self._dialogue, self._is_over = None, True
        self._on_failure()

    def __repr__(self) -> str:
        return f"KafkaLogin({self._listener.name}, {self.principal or 'nobody'})"
