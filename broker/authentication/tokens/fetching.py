"""Gets what is at a URL of public keys: a file (`file:///…`) or a page of the issuer (`https://…`). An edge.

A page is asked for in a thread, by Python's own HTTP: its certificate is checked by the system's CAs, or those that
SSL_CERT_FILE names. An answer that goes elsewhere (a redirect) is refused: the operator has named the place. Bounded in
bytes and time. Not here: when it is asked for (key_source.py).
"""

from __future__ import annotations

import asyncio
import http.client
import socket
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from penstock.errors import ConfigError
from penstock.tokens.key_set import SET_BYTES_MAX
from storage.disk.async_files import AsyncFiles

FETCH_SECONDS: Final = 10.0
"""The time-out of the connection, of the head of the answer, and of the rest, each. One thread asks all issuers of a
node."""
_PORTION_BYTES: Final = 64 << 10
_LATE: Final = f"not whole within {FETCH_SECONDS:.0f} s"


class KeyFetcher:
    """Fetches public keys. There is one per node."""

    def __init__(self, files: AsyncFiles, executor: Executor) -> None:
        """`files` and `executor` belong to the caller."""
        self._files, self._executor = files, executor

    async def fetch(self, url: str) -> bytes:
        """OSError, with the URL in its text, for what cannot be had; one byte too many of what is too large."""
        if url.startswith("file:"):
            try:
                return await self._files.read_start(path_of(url), SET_BYTES_MAX + 1)
            except OSError as error:
                raise OSError(f"{url}: cannot be read ({error.strerror}); check owner and mode") from None
        return await asyncio.get_running_loop().run_in_executor(self._executor, _page, url)

    def __repr__(self) -> str:
        return "KeyFetcher()"


def path_of(url: str) -> str:
    """The path that a file's URL names."""
    return urllib.request.url2pathname(urllib.parse.urlsplit(url).path)


def read_file(url: str) -> bytes:
    """The start of a file of keys, on the spot: before a node's loop runs. ConfigError if it cannot be read."""
    try:
        with Path(path_of(url)).open("rb") as file:
            return file.read(SET_BYTES_MAX + 1)
    except FileNotFoundError:
        raise ConfigError(f"{url}: there is no such file") from None
    except OSError as error:
        raise ConfigError(f"{url}: cannot be read ({error.strerror}); check owner and mode") from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


class _Connection(http.client.HTTPSConnection):
    """A socket's own time-out begins anew with every byte; the head of an answer must be there in one."""

    def getresponse(self) -> http.client.HTTPResponse:
        connected, is_late = self.sock, threading.Event()

        def cut() -> None:
            is_late.set()
            with suppress(OSError):
                socket.socket.shutdown(connected, socket.SHUT_RDWR)  # TLS stays as it is: the other thread is in it

        timer = threading.Timer(FETCH_SECONDS, cut)
        timer.daemon = True
        timer.start()
        try:
            return super().getresponse()
        finally:
            timer.cancel()
            if is_late.is_set():
                raise TimeoutError(_LATE)


class _Https(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Connection, req, context=ssl.create_default_context())


def _page(url: str) -> bytes:
    deadline = time.monotonic() + FETCH_SECONDS
    opener = urllib.request.build_opener(_NoRedirect(), _Https())
    request = urllib.request.Request(url, headers={"Accept": "application/json", "User-Agent": "penstock"})
    try:
        with opener.open(request, timeout=FETCH_SECONDS) as page:
            parts, size = [], 0
            while size <= SET_BYTES_MAX and (part := page.read1(_PORTION_BYTES)):
                parts.append(part)
                size += len(part)
                if time.monotonic() > deadline:
                    raise TimeoutError(_LATE)
    except urllib.error.HTTPError as error:
        error.close()
        raise OSError(f"{url}: answers {error.code}; it must answer 200, itself") from None
    except urllib.error.URLError as error:
        raise OSError(f"{url}: {' '.join(str(error.reason).split())[:200]}") from None
    except (OSError, http.client.HTTPException) as error:
        raise OSError(f"{url}: {' '.join(str(error).split())[:200] or type(error).__name__}") from None
    return b"".join(parts)
