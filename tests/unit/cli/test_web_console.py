"""The command `penstock console`: where it may listen, the names that it knows, and an extra that is missing."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import pytest

from penstock.cli import web_console
from penstock.cli.web_console import (
    OpenIdWishes,
    check_exposure,
    check_packages,
    checked_url,
    openid_settings,
    origins_of,
    settings_of,
    with_openid,
)
from penstock.console.serving import ServerFiles, listen, serve_console
from penstock.console.settings import ConsoleSettings
from penstock.errors import ConfigError, MissingDependencyError, PenstockError

CERT = Path("cert.pem")


@pytest.mark.parametrize(
    ("host", "cert", "urls", "plain"),
    [
        ("127.0.0.1", None, (), False),
        ("::1", None, (), False),
        ("localhost", None, (), False),
        ("0.0.0.0", CERT, (), False),
        ("0.0.0.0", None, ("https://c.example",), False),
        ("10.0.0.7", None, (), True),
    ],
)
def test_other_machines_are_served_with_tls_or_by_an_explicit_word(
    host: str, cert: Path | None, urls: tuple[str, ...], plain: bool
) -> None:
    check_exposure(host, cert, urls, plain_http=plain)


@pytest.mark.parametrize(("host", "urls"), [("0.0.0.0", ()), ("node.example", ()), ("::", ("http://c.example",))])
def test_other_machines_are_not_served_in_the_clear_by_accident(host: str, urls: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=r"--https-cert FILE.*--public-url.*--plain-http"):
        check_exposure(host, None, urls, plain_http=False)


def test_a_loopback_console_has_every_name_of_this_machine() -> None:
    names = {"http://127.0.0.1:9180", "http://localhost:9180", "http://[::1]:9180"}
    assert set(origins_of("127.0.0.1", 9180, is_tls=False)) == names
    assert set(origins_of("0.0.0.0", 9180, is_tls=False)) == names
    assert origins_of("localhost", 9180, is_tls=False)[0] == "http://localhost:9180"
    assert origins_of("10.0.0.7", 443, is_tls=True) == ("https://10.0.0.7",)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Console.Example/", "https://console.example"),
        ("https://console.example:443", "https://console.example"),
        ("http://[::1]:9180", "http://[::1]:9180"),
    ],
)
def test_a_public_url_is_written_as_browsers_write_an_origin(url: str, origin: str) -> None:
    assert checked_url(url) == origin


@pytest.mark.parametrize(
    "url", ["console.example", "ftp://c", "https://", "https://c/path", "https://u@c", "https://c:x"]
)
def test_another_public_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="--public-url"):
        checked_url(url)


def test_a_missing_extra_is_one_sentence_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_console, "find_spec", lambda name: None if name == "starlette" else name)
    with pytest.raises(MissingDependencyError, match=r"needs starlette; install .*: pip install 'penstock\[console\]'"):
        check_packages()


def test_the_consoles_own_user_is_on_no_other_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {
        "PENSTOCK_TLS_CA": "ca.pem",
        "PENSTOCK_TLS_CERT": "own.pem",
        "PENSTOCK_USERNAME": "console",
        "PENSTOCK_PASSWORD": "secret",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings = settings_of("b:1", ("http://127.0.0.1:1",), os.environ, True, "audit")
    assert settings.connection == {"tls_ca": "ca.pem"}
    assert settings.own_login == {"tls_cert": "own.pem", "username": "console", "password": "secret"}
    assert [name for name in variables if name in os.environ] == []


def test_a_port_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PenstockError, match=rf"127.0.0.1:{port}: Address already in use.*--port"):
            listen("127.0.0.1", port)


def test_a_certificate_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    from starlette.applications import Starlette

    wrong = tmp_path / "cert.pem"
    wrong.write_text("no certificate")
    with listen("127.0.0.1", 0) as listening, pytest.raises(PenstockError, match=r"^--https-cert: "):
        serve_console(Starlette(), listening, ServerFiles(wrong), lambda: None)


def test_an_identity_provider_is_that_of_the_options(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    found = openid_settings("https://id.example/realm", "console", secret, OpenIdWishes("openid x", "name", "kafka"))
    assert found is not None and (found.issuer, found.client_secret) == ("https://id.example/realm", "s3cret")
    assert (found.scopes, found.user_claim, found.audience) == ("openid x", "name", "kafka")
    assert "s3cret" not in repr(found) and openid_settings("", "", None) is None
    plain = ConsoleSettings(bootstrap="b:1", origins=("http://127.0.0.1:1",))
    with pytest.raises(ConfigError, match="over TLS alone"):
        with_openid(plain, found)
    assert with_openid(plain, None) == plain


@pytest.mark.parametrize(
    ("issuer", "client_id", "wishes", "message"),
    [
        ("", "console", OpenIdWishes(), "--openid-issuer is missing"),
        ("", "", OpenIdWishes(audience="a"), "--openid-issuer is missing"),
        ("http://id.example", "console", OpenIdWishes(), "--openid-issuer http://id.example"),
        ("https://id.example?a=b", "console", OpenIdWishes(), "--openid-issuer"),
        ("https://id.example", "", OpenIdWishes(), "--openid-client-id"),
        ("https://id.example", "console", OpenIdWishes("profile"), "--openid-scopes"),
    ],
)
def test_options_of_a_provider_that_do_not_go_together_are_refused(
    issuer: str, client_id: str, wishes: OpenIdWishes, message: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        openid_settings(issuer, client_id, None, wishes)
