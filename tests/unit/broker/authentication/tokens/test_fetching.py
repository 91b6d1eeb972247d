"""Keys are had from a file, or from a page by HTTPS: of a real server, whose certificate is checked."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from broker.authentication.tokens import fetching
from broker.authentication.tokens.fetching import KeyFetcher, path_of
from penstock.certs.authority import CA_FILE, Authority
from penstock.tokens.key_set import SET_BYTES_MAX
from storage.disk.async_files import AioFiles
from tests.support.issuer import Issuer

KEYS = Issuer().key_set


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        code, body = {
            "/keys": (200, KEYS),
            "/big": (200, b"x" * (SET_BYTES_MAX * 2)),
            "/moved": (302, b""),
            "/slow": (200, b""),
            "/slow-head": (200, b""),
        }.get(self.path, (404, b""))
        self.send_response(code)
        while self.path == "/slow-head":
            self.send_header("X", "x")
            self.flush_headers()
            time.sleep(0.01)
        if code == 302:
            self.send_header("Location", "/keys")
        if self.path != "/slow":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        while self.path == "/slow":  # until it is left
            self.wfile.write(b"x")
            time.sleep(0.01)

    def log_message(self, *_: object) -> None:
        """To nobody."""


class Quiet(HTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that does not trust it, or that has read enough, leaves."""


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Its address, and the file of the CA that vouches for it."""
    authority = Authority.create(tmp_path_factory.mktemp("issuer"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.node(1, ["localhost", "127.0.0.1"]))
    with Quiet(("127.0.0.1", 0), Page) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        yield f"https://127.0.0.1:{server.server_port}", authority.directory / CA_FILE
        server.shutdown()
        serving.join()


def fetched(url: str) -> bytes:
    with ThreadPoolExecutor(1) as executor:
        return asyncio.run(KeyFetcher(AioFiles(executor), executor).fetch(url))


def refusal(url: str) -> str:
    with pytest.raises(OSError) as caught:
        fetched(url)
    assert url in str(caught.value)
    return str(caught.value)


def test_a_page_of_an_issuer_that_the_system_trusts(issuer: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    address, ca = issuer
    monkeypatch.setenv("SSL_CERT_FILE", str(ca))
    assert fetched(f"{address}/keys") == KEYS
    assert SET_BYTES_MAX < len(fetched(f"{address}/big")) < 2 * SET_BYTES_MAX, "no more than is needed to refuse it"
    assert "answers 302; it must answer 200, itself" in refusal(f"{address}/moved")
    assert "answers 404" in refusal(f"{address}/nothing")
    monkeypatch.setattr(fetching, "FETCH_SECONDS", 0.2)
    assert "not whole within" in refusal(f"{address}/slow")
    assert "not whole within" in refusal(f"{address}/slow-head")


def test_an_issuer_that_nobody_vouches_for_is_not_asked(issuer: tuple[str, Path]) -> None:
    assert "certificate verify failed" in refusal(f"{issuer[0]}/keys")


def test_an_issuer_that_is_not_there() -> None:
    assert "refused" in refusal("https://127.0.0.1:1/keys").lower()


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys of us.json"
    path.write_bytes(KEYS)
    assert path_of(path.as_uri()) == str(path) and fetched(path.as_uri()) == KEYS
    assert "cannot be read (No such file or directory)" in refusal((tmp_path / "none").as_uri())
