"""Attacks below any RPC: old TLS, weak suites, plain text, half of a handshake; and servers that clients must not
trust."""

from __future__ import annotations

import socket
import ssl
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from penstock import Admin
from penstock.errors import PenstockError
from penstock.testing.ports import HOST
from tests.attack.stage import Stage
from tests.support.certificates import TestCa, general_name

LISTENERS: Final = ("BROKER", "KAFKA", "INTERNAL", "CONTROLLER")
OLD: Final = {"TLS 1.0": ssl.TLSVersion.TLSv1, "TLS 1.1": ssl.TLSVersion.TLSv1_1}
WEAK: Final = "AES128-SHA:AES256-SHA:AES128-SHA256:ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0"
HALF: Final = 60
"""Handshakes that are begun and never ended, at each listener."""
PATIENCE_S: Final = 12.0
"""A node gives a handshake 5 s."""
HELLO: Final = bytes.fromhex("160301020001")
PLAIN: Final = {
    "KAFKA": b"\0\0\0\x14\0\x12\0\0\0\0\0\x01\0\x08somebody",
}
HTTP2: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"


def attack(stage: Stage) -> tuple[list[str], list[str]]:
    """Lines of what was tried, and the holes."""
    lines, holes = [], list[str]()
    own = stage.stolen()
    with tempfile.TemporaryDirectory() as directory:
        pair = Path(directory) / "pair.pem"
        pair.write_bytes(own)
        for name in LISTENERS:
            address = (HOST, getattr(stage.ports, name.lower()))
            words = []
            for what, context in _contexts(stage, pair):
                is_good = what.startswith("good")
                took = _shakes(address, context)
                words.append(f"{what} {'taken' if took else 'refused'}")
                if took != is_good:
                    holes.append(f"{name}: {what} was {'taken' if took else 'refused'}")
            said = _plain(address, PLAIN.get(name, HTTP2))
            words.append("plain text refused")
            if any(ord(" ") <= byte < 127 for byte in said[:1]) or len(said) > 200:
                holes.append(f"{name}: plain text was answered: {said[:100]!r}")
            lines.append(f"{name}: {', '.join(words)}")
    return lines, holes


def _contexts(stage: Stage, pair: Path) -> Iterator[tuple[str, ssl.SSLContext]]:
    for what, version in OLD.items():
        yield what, _context(stage, pair, version, version)
    weak = _context(stage, pair, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)
    weak.set_ciphers(WEAK)
    yield "TLS 1.2 with weak suites", weak
    for what, version in (("good TLS 1.2", ssl.TLSVersion.TLSv1_2), ("good TLS 1.3", ssl.TLSVersion.TLSv1_3)):
        yield what, _context(stage, pair, version, version)


def _context(stage: Stage, pair: Path, low: ssl.TLSVersion, high: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=stage.ca.decode())
    if high < ssl.TLSVersion.TLSv1_2:
        context.set_ciphers("ALL:@SECLEVEL=0")
    _speak(context, low, high)
    context.load_cert_chain(pair)
    return context


def _speak(context: ssl.SSLContext, low: ssl.TLSVersion, high: ssl.TLSVersion) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the old ones
        context.minimum_version, context.maximum_version = low, high


def _shakes(address: tuple[str, int], context: ssl.SSLContext) -> bool:
    context.set_alpn_protocols(["h2"])
    try:
        with socket.create_connection(address, 10) as plain, context.wrap_socket(plain, server_hostname=HOST):
            return True
    except OSError:
        return False


def _plain(address: tuple[str, int], words: bytes) -> bytes:
    found = b""
    with socket.create_connection(address, PATIENCE_S) as plain:
        try:
            plain.sendall(words)
            while more := plain.recv(4_096):
                found += more
        except OSError:
            pass
    return found


def old_tls_can_be_spoken_here() -> bool:
    """The attacker's own library can: its refusal is the node's."""
    ca = TestCa("downgrade")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    with tempfile.NamedTemporaryFile() as file:
        file.write(ca.leaf("server", [general_name(HOST)]))
        file.flush()
        server.load_cert_chain(file.name)
    for context in (server, client):
        context.set_ciphers("ALL:@SECLEVEL=0")
        _speak(context, ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_1)
    near, far = ssl.MemoryBIO(), ssl.MemoryBIO()
    here, there = client.wrap_bio(near, far), server.wrap_bio(far, near, server_side=True)
    for _ in range(10):
        done = 0
        for one in (here, there):
            try:
                one.do_handshake()
                done += 1
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return False
        if done == 2:
            return True
    return False


def half_handshakes(stage: Stage, count: int = HALF) -> tuple[str, list[str]]:
    """Begun at every listener, and held: the node must end them."""
    held: list[tuple[str, socket.socket]] = []
    try:
        for name in LISTENERS:
            for number in range(count):
                one = socket.create_connection((HOST, getattr(stage.ports, name.lower())), 10)
                one.sendall(HELLO[: number % (len(HELLO) + 1)])
                held.append((name, one))
        began, deadline = time.monotonic(), time.monotonic() + PATIENCE_S
        left = 0
        for _, one in held:
            one.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                while one.recv(4_096):
                    continue
            except TimeoutError:
                left += 1
            except OSError:
                continue
        took = time.monotonic() - began
    finally:
        for _, one in held:
            one.close()
    line = f"half handshakes: {len(held)} begun, {len(held) - left} ended by the node within {took:.1f} s"
    return line, [f"{left} half handshakes were not ended within {PATIENCE_S:g} s"] if left else []


# -- servers that clients must not trust -------------------------------------------------------------------------------


def false_servers(stage: Stage) -> tuple[list[str], list[str]]:
    """A client with a password meets servers that are not the cluster's: it fails, and none learns anything of it."""
    own, other = stage.signing(), TestCa("another CA")
    here = [general_name(HOST)]
    cases: dict[str, bytes | None] = {
        "plain text": None,
        "a certificate of another CA": other.leaf("broker", here),
        "an expired certificate": own.leaf("broker", here, days=-2),
        "a certificate for another host": own.leaf("broker", [general_name("elsewhere.example")]),
    }
    lines, holes = [], list[str]()
    words = [b"admin", Path(stage.who["password_file"]).read_bytes().strip()]
    for what, keystore in cases.items():
        with _server(keystore) as (port, heard):
            try:
                with Admin(f"{HOST}:{port}", bootstrap_timeout_ms=1_500, **stage.who) as admin:
                    admin.list_topics()
                holes.append(f"a client took a server with {what}")
            except PenstockError as error:
                lines.append(f"client, {what}: {str(error)[-120:]}")
        told = b"".join(heard)
        holes += [f"a server with {what} was told {word!r}" for word in words if word in told]
    return lines, holes


@contextmanager
def _server(keystore: bytes | None) -> Iterator[tuple[int, list[bytes]]]:
    heard: list[bytes] = []
    context: ssl.SSLContext | None = None
    if keystore is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["h2"])
        with tempfile.NamedTemporaryFile() as file:
            file.write(keystore)
            file.flush()
            context.load_cert_chain(file.name)
    with socket.create_server((HOST, 0)) as server:
        server.settimeout(0.1)
        ended = threading.Event()

        def serve() -> None:
            while not ended.is_set():
                try:
                    connection, _ = server.accept()
                    connection.settimeout(0.5)
                    with connection:
                        heard.append(_received(connection, context))
                except OSError:
                    continue

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1], heard
        finally:
            ended.set()
            thread.join()


def _received(connection: socket.socket, context: ssl.SSLContext | None) -> bytes:
    if context is None:
        return connection.recv(65_536)
    with context.wrap_socket(connection, server_side=True) as shaken:
        return shaken.recv(65_536)
