"""People log in to `penstock console` at an identity provider, and are to the brokers whom their tokens name."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from penstock import Admin
from penstock.certs.authority import CA_FILE, Authority
from penstock.testing import Cluster
from tests.support.console_process import ConsoleBrowser, running_console
from tests.support.identity_provider import CLIENT_ID, IdentityProvider, running_provider
from tests.support.issuer import AUDIENCE
from tests.support.waiting import wait_until

SECRET = "the client's s3cret"
LIFE_S = 3_600


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with running_provider(SECRET) as running:
        yield running


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("openid")


@pytest.fixture(scope="module")
def cluster(provider: IdentityProvider, directory: Path) -> Iterator[Cluster]:
    """One node that takes the provider's tokens at the listener for clients."""
    authority = Authority.create(directory)
    config = {
        "listener.security.protocol.map": [
            "BROKER:SASL_SSL",
            "KAFKA:SASL_SSL",
            "INTERNAL:PLAINTEXT",
            "CONTROLLER:PLAINTEXT",
        ],
        "ssl.keystore.location": str(authority.node(0, ["localhost", "127.0.0.1"])),
        "sasl.enabled.mechanisms": ["SCRAM-SHA-256", "OAUTHBEARER"],
        "sasl.oauthbearer.jwks.endpoint.url": provider.issuer.publish(directory / "keys.json"),
        "sasl.oauthbearer.expected.audience": [AUDIENCE],
        "sasl.oauthbearer.expected.issuer": provider.url,
        "authorizer.class.name": "StandardAuthorizer",
        "super.users": "User:anna",
    }
    ca, own = str(authority.directory / CA_FILE), directory / "token"
    now_s = int(time.time())
    own.write_text(provider.issuer.token(iss=provider.url, sub="anna", iat=now_s, exp=now_s + LIFE_S))
    with pytest.MonkeyPatch.context() as variables:
        variables.setenv("PENSTOCK_TLS_CA", ca)
        variables.setenv("PENSTOCK_TOKEN_FILE", str(own))
        with Cluster(config=config, directory=directory / "cluster") as made, Admin(made.bootstrap) as admin:
            admin.create_topic("orders")
            yield made


@pytest.fixture(scope="module")
def url(provider: IdentityProvider, cluster: Cluster, directory: Path) -> Iterator[str]:
    secret = directory / "secret"
    secret.write_text(SECRET)
    openid = ("--openid-issuer", provider.url, "--openid-client-id", CLIENT_ID)
    options = ("--allow-changes", *openid, "--openid-client-secret-file", str(secret))
    with running_console(cluster.bootstrap, *options, tls_ca=next(directory.rglob(CA_FILE))) as address:
        yield address


def log_in(browser: ConsoleBrowser, to: str = "/topics") -> httpx.Response:
    """The person's way to the provider and back; the console's last answer."""
    leads = browser.client.get(f"/login/openid?to={to}")
    assert leads.status_code == 303, leads.text
    with httpx.Client(trust_env=False) as client:
        back = client.get(leads.headers["location"]).headers["location"]
    return browser.client.get(back)


def test_a_person_sees_and_changes_what_the_acls_of_the_tokens_user_allow(
    url: str, provider: IdentityProvider, cluster: Cluster
) -> None:
    provider.user = "anna"
    with ConsoleBrowser(url) as browser:
        assert "Log in at 127.0.0.1" in browser.page("/login")
        done = log_in(browser)
        assert (done.status_code, done.headers["refresh"]) == (200, "0;url=/topics")
        assert [one["topic"] for one in browser.view("/topics.json")["topics"]] == ["orders"]
        plan = browser.send("/create-topic", {"name": "annas"})
        assert "--token-file token" in plan.text
        assert browser.send("/create-topic", {"name": "annas", "sure": "yes"}).status_code == 303
    log = cluster.log_path(0).read_text(encoding="utf-8")
    assert re.search(r'"outcome":"done","principal":"User:anna",.*"api":"CreateTopics",.*"annas"', log)


def test_another_user_of_the_provider_has_no_rights_of_the_first_one(url: str, provider: IdentityProvider) -> None:
    provider.user = "bill"
    with ConsoleBrowser(url) as browser:
        log_in(browser)
        assert browser.view("/topics.json")["topics"] == []
        refused = browser.send("/create-topic", {"name": "bills"})
        assert refused.status_code == 403 and "User:bill" in html.unescape(refused.text)


def test_a_token_that_the_brokers_do_not_take_logs_nobody_in(url: str, provider: IdentityProvider) -> None:
    provider.user, provider.lies = "anna", {"access": {"aud": "another"}}
    try:
        with ConsoleBrowser(url) as browser:
            refused = log_in(browser)
            assert refused.status_code == 401 and "expected.audience" in refused.text
            assert browser.client.get("/topics.json").status_code == 401
    finally:
        provider.lies = {}


def test_a_token_that_ends_soon_is_renewed_at_the_brokers_too(url: str, provider: IdentityProvider) -> None:
    provider.user, provider.life_s = "anna", 4
    try:
        with ConsoleBrowser(url) as browser:
            log_in(browser)
            asked = provider.asked.count("/token")

            def was_renewed_twice() -> bool:
                answer = browser.client.get("/topics.json")
                assert answer.status_code == 200, answer.text
                return provider.asked.count("/token") >= asked + 2

            wait_until(was_renewed_twice, 60)
    finally:
        provider.life_s = LIFE_S
