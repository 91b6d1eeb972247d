"""Asks the identity provider: its own description, its keys, and tokens for a code or a refresh token. An edge.

    GET  ISSUER/.well-known/openid-configuration      where the rest is (OpenID Connect Discovery 1.0)
    GET  jwks_uri                                      its public keys
    POST token_endpoint                                tokens

Each answer has PROVIDER_SECONDS and a size; one that leads elsewhere is refused. A provider that lies, hangs or is away
costs a log-in and nothing else. Not here: what counts of an ID token (id_token.py), and when a token is renewed
(token_grant.py).
"""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import ssl
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx

from penstock.console.openid.errors import OpenIdRefusedError, ProviderAwayError
from penstock.console.openid.id_token import PersonOfToken, check_id_token
from penstock.console.openid.login_state import LoginState
from penstock.console.openid.urls import is_safe_url, provider_word
from penstock.console.settings import OpenIdSettings
from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.sasl.oauthbearer import UnknownKeyError, is_token
from penstock.tokens.key_set import SET_BYTES_MAX, KeySet, read_key_set
from penstock.written.numbers import parse_number

PROVIDER_SECONDS: Final = 8.0
KEPT_MS: Final = 3_600_000
KEYS_AGAIN_MS: Final = 10_000
"""Keys are asked for at most so often because a token names one that is not known."""
ANSWER_BYTES_MAX: Final = 256 * 1024
LIFE_S_USUAL, LIFE_S_MAX = 300, 24 * 3_600
"""The life of an access token whose end the provider does not say, and the longest that is believed."""
BASIC, POST = "client_secret_basic", "client_secret_post"
DISCOVERY: Final = "/.well-known/openid-configuration"


@dataclass(frozen=True, slots=True)
class Description:
    """The provider's own description, as far as it is needed."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    auth_methods: tuple[str, ...]
    names_itself: bool
    """It says in each answer which issuer it is (RFC 9207)."""


@dataclass(frozen=True, slots=True)
class GrantedTokens:
    """The tokens of one person. No repr has one."""

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    """"" where the provider gives none."""
    id_token: str = field(repr=False)
    life_s: int


@functools.cache
def _trusted() -> ssl.SSLContext:
    """The authorities whose certificates are trusted. To read them takes 25 ms of a processor."""
    return httpx.create_ssl_context()


class Provider:
    """One identity provider."""

    def __init__(
        self,
        settings: OpenIdSettings,
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        answer_seconds: float = PROVIDER_SECONDS,
    ) -> None:
        """`now_ms` is monotonic."""
        self.settings, self._now_ms, self._wall_ms = settings, now_ms, wall_ms
        self._answer_seconds = answer_seconds
        self._description: tuple[int, Description] | None = None
        self._keys: tuple[int, KeySet] | None = None

    async def login_address(self, login: LoginState) -> str:
        """The provider's page where the person logs in."""
        asked = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": login.redirect_uri,
            "scope": self.settings.scopes,
            "state": login.state,
            "nonce": login.nonce,
            "code_challenge": login.challenge,
            "code_challenge_method": "S256",
            **({"audience": self.settings.audience} if self.settings.audience else {}),
        }
        endpoint = (await self._describe()).authorization_endpoint
        return f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(asked)}"

    async def check_answered(self, issuer: str) -> None:
        """OpenIdRefusedError if an answer is another provider's: `issuer` is the one that it names, "" for none."""
        if issuer != self.settings.issuer and (issuer or (await self._describe()).names_itself):
            raise OpenIdRefusedError("the answer is of another identity provider than the one that was asked")

    async def tokens_of(self, login: LoginState, code: str) -> tuple[GrantedTokens, PersonOfToken]:
        """The tokens for the code of a log-in, and the person."""
        asked = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": login.redirect_uri,
            "code_verifier": login.verifier,
        }
        tokens = await self._ask_tokens(asked)
        if not tokens.id_token:
            raise ProviderAwayError(self._fault("gives no ID token; the scope openid must be asked for"))
        return tokens, await self._identity(tokens.id_token, login.nonce)

    async def renewed(self, tokens: GrantedTokens, identity: PersonOfToken) -> GrantedTokens:
        """New tokens of the same person."""
        found = await self._ask_tokens({"grant_type": "refresh_token", "refresh_token": tokens.refresh_token})
        if found.id_token:
            now = await self._identity(found.id_token, None)
            if (now.user, now.subject) != (identity.user, identity.subject):
                raise OpenIdRefusedError("the identity provider has renewed the log-in as somebody else")
        kept = found.refresh_token or tokens.refresh_token
        return GrantedTokens(found.access_token, kept, found.id_token, found.life_s)

    async def _identity(self, id_token: str, nonce: str | None) -> PersonOfToken:
        keys = await self._key_set(KEPT_MS)
        try:
            return check_id_token(id_token, keys, self.settings, nonce, self._wall_ms())
        except UnknownKeyError:
            keys = await self._key_set(KEYS_AGAIN_MS)
        try:
            return check_id_token(id_token, keys, self.settings, nonce, self._wall_ms())
        except UnknownKeyError as error:
            raise OpenIdRefusedError(f"the identity provider's ID token does not count: {error}") from None

    async def _describe(self) -> Description:
        """The description, of an hour ago at most."""
        if self._description is None or self._now_ms() - self._description[0] >= KEPT_MS:
            found = _read_object(await self._answer("GET", self.settings.issuer.rstrip("/") + DISCOVERY))
            self._description = self._now_ms(), self._checked(found)
        return self._description[1]

    def _checked(self, found: Mapping[str, Any] | None) -> Description:
        """The description; ProviderAwayError for one that is of another issuer, or leads where no secret should go."""
        if found is None or found.get("issuer") != self.settings.issuer:
            raise ProviderAwayError(self._fault("describes another issuer, or nothing"))
        urls = [found.get(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")]
        if not all(isinstance(url, str) and is_safe_url(url) for url in urls):
            raise ProviderAwayError(self._fault("describes an endpoint that is missing, or is not https://"))
        challenges = found.get("code_challenge_methods_supported", ["S256"])
        if not isinstance(challenges, list) or "S256" not in challenges:
            raise ProviderAwayError(self._fault("does not know PKCE (S256), which the console needs"))
        methods = found.get("token_endpoint_auth_methods_supported", [BASIC])
        known = tuple(one for one in methods if isinstance(one, str)) if isinstance(methods, list) else ()
        names_itself = found.get("authorization_response_iss_parameter_supported") is True
        return Description(str(urls[0]), str(urls[1]), str(urls[2]), known, names_itself)

    async def _key_set(self, kept_ms: int) -> KeySet:
        """The keys, as they were `kept_ms` ago at most."""
        if self._keys is None or self._now_ms() - self._keys[0] >= kept_ms:
            data = await self._answer("GET", (await self._describe()).jwks_uri, bytes_max=SET_BYTES_MAX)
            try:
                self._keys = self._now_ms(), read_key_set(data)
            except ConfigError as error:
                raise ProviderAwayError(self._fault(f"has no keys that can be used: {error}")) from None
        return self._keys[1]

    async def _ask_tokens(self, asked: Mapping[str, str]) -> GrantedTokens:
        described, settings = await self._describe(), self.settings
        form, headers = {**asked, "client_id": settings.client_id}, dict[str, str]()
        if settings.client_secret and BASIC not in described.auth_methods and POST in described.auth_methods:
            form["client_secret"] = settings.client_secret
        elif settings.client_secret:
            pair = f"{quote_plus(settings.client_id)}:{quote_plus(settings.client_secret)}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        found = _read_object(await self._answer("POST", described.token_endpoint, form, headers))
        if found is None:
            raise ProviderAwayError(self._fault("answers for tokens with something that is no JSON object"))
        kind, access, refresh, identity = (
            found.get(name, "") for name in ("token_type", "access_token", "refresh_token", "id_token")
        )
        texts = (kind, access, refresh, identity)
        if not all(isinstance(one, str) for one in texts) or kind.lower() != "bearer" or not is_token(access):
            raise ProviderAwayError(self._fault("gives no access token that brokers could take"))
        return GrantedTokens(access, refresh, identity, life_s_of(found.get("expires_in")))

    async def _answer(
        self,
        method: str,
        url: str,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        bytes_max: int = ANSWER_BYTES_MAX,
    ) -> bytes:
        """The body of an answer. OpenIdRefusedError where the provider refuses the person's code or token."""
        try:
            async with (
                asyncio.timeout(self._answer_seconds),
                httpx.AsyncClient(timeout=self._answer_seconds, verify=_trusted()) as client,
                client.stream(
                    method, url, data=form, headers={"accept": "application/json", **(headers or {})}
                ) as answer,
            ):
                body = bytearray()
                async for part in answer.aiter_bytes():
                    body += part
                    if len(body) > bytes_max:
                        raise ProviderAwayError(self._fault(f"answers with more than {bytes_max} bytes"))
        except (httpx.HTTPError, TimeoutError, OSError) as error:
            raise ProviderAwayError(self._fault(f"does not answer ({type(error).__name__})")) from None
        if answer.status_code == 200:
            return bytes(body)
        found = _read_object(bytes(body)) if form is not None and answer.status_code in (400, 401) else None
        code = found.get("error") if found is not None else None
        if isinstance(code, str):
            raise OpenIdRefusedError(f"the identity provider refuses the log-in: {provider_word(code)}")
        raise ProviderAwayError(self._fault(f"answers {answer.status_code}"))

    def _fault(self, what: str) -> str:
        return f"the identity provider {self.settings.issuer} {what}"

    def __repr__(self) -> str:
        return f"Provider({self.settings.issuer})"


def life_s_of(said: object) -> int:
    """The life of an access token in seconds, as the provider says it; some write the number as a text."""
    if isinstance(said, str):
        said = parse_number(said, LIFE_S_MAX)
    if not isinstance(said, int) or isinstance(said, bool) or said <= 0:
        return LIFE_S_USUAL
    return min(said, LIFE_S_MAX)


def _read_object(body: bytes) -> dict[str, Any] | None:
    """A JSON object; None for anything else."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
