"""A client's token (OAUTHBEARER), as it is at each log-in: given, of a file, or what a function returns.

A file is read again each time, so that another program can renew it, and a function is called in a thread of its own:
neither holds the client's loop up, nor the end of the program. Log-ins at the same time share one call. What fails is
tried again as long as a request may take. No error has a token. An edge. Not here: the calls (sasl_session.py).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future

from penstock.client.wire.tls_files import FilePath, file_bytes
from penstock.errors import ConfigError, NetworkError
from penstock.sasl.mechanisms import MECHANISMS, SaslClient
from penstock.sasl.oauthbearer import FORM, NAME, is_token

TokenProvider = Callable[[], str]
"""Returns a token that counts now."""


class TokenLogin:
    """The identity of a client to a broker: the user of a token."""

    mechanism: str = NAME

    def __init__(self, get: TokenProvider, origin: str) -> None:
        """`get` may wait; `origin` is the option that it comes from."""
        self._get, self._origin = get, origin
        self._under_way: Future[str] | None = None

    async def begin(self) -> SaslClient:
        """The client's half of a new dialogue. NetworkError where there is no token now."""
        if self._under_way is None or self._under_way.done():
            self._under_way = _apart(self._get)
        try:
            token = await asyncio.shield(asyncio.wrap_future(self._under_way))
        except Exception as error:  # of a function of the user's
            raise NetworkError(f"{self._origin} has failed: {type(error).__name__}") from error
        if not isinstance(token, str) or not is_token(token):
            raise NetworkError(f"{self._origin} has given no token; it must be {FORM}")
        return MECHANISMS[NAME].client("", token, "")

    def __str__(self) -> str:
        return f"the user of {self._origin}"

    def __repr__(self) -> str:
        return f"TokenLogin({self._origin})"


def _apart(get: TokenProvider) -> Future[str]:
    """Calls it in a thread that does not keep the program from ending."""
    called: Future[str] = Future()

    def run() -> None:
        try:
            called.set_result(get())
        except BaseException as error:  # a function that ends its program ends this thread, and has failed
            called.set_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))

    threading.Thread(target=run, name="penstock-token", daemon=True).start()
    return called


def token_login(token: str | None, token_file: FilePath | None, provider: TokenProvider | None) -> TokenLogin | None:
    """The login by a token; None if no token is given in any way. ConfigError for a file that has no token now."""
    if token is not None:
        return TokenLogin(lambda: token, "token")
    if token_file is not None:
        token_in(token_file)
        return TokenLogin(lambda: token_in(token_file), f"token_file={str(token_file)!r}")
    return TokenLogin(provider, "token_provider") if provider is not None else None


def token_in(path: FilePath) -> str:
    """The token in a file; ConfigError if it has none."""
    text = file_bytes("token_file", path).decode("ascii", "replace").strip()
    if not is_token(text):
        raise ConfigError(f"token_file={str(path)!r} must have a token: {FORM}")
    return text
