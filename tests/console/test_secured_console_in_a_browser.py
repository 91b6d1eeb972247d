"""The console in a real browser on a cluster with users: log-in by password and at an identity provider, missing
rights, and the forms of users, ACLs and quotas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock import Admin
from penstock.console.settings import OpenIdSettings
from penstock.security import (
    AclBinding,
    AclFilter,
    Operation,
    QuotaEntity,
    ResourceType,
    UserScramCredentialUpsertion,
)
from penstock.testing import Cluster
from tests.support.console_server import serving_console
from tests.support.console_visitor import CHROMIUM, Visitor, running_chromium
from tests.support.identity_provider import CLIENT_ID, IdentityProvider, running_provider
from tests.support.issuer import AUDIENCE
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed (apt-get install chromium)")
PASSWORD = "a long password"


@dataclass(frozen=True)
class Castle:
    """A secured node that takes an identity provider's tokens, too, and a console on it where changes are allowed."""

    cluster: Cluster
    provider: IdentityProvider
    url: str

    def admin(self) -> Admin:
        """A client with every right."""
        options: dict[str, Any] = dict(self.cluster.client_options)
        return Admin(self.cluster.bootstrap, **options)

    @property
    def admin_password(self) -> str:
        return Path(self.cluster.client_options["password_file"]).read_text(encoding="utf-8").strip()


class Guest(Visitor):
    """A tab of somebody who logs in."""

    def log_in(self, user: str, password: str) -> None:
        """By the form that the page shows."""
        self.page.fill("#user", user)
        self.page.fill("#password", password)
        self.page.click("form.fields button")

    def leave(self) -> None:
        """Closes the tab. Refused requests are no fault of the page."""
        self.context.close()
        assert [one for one in self.complaints if "status of 40" not in one] == []


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with running_chromium() as made:
        yield made


@pytest.fixture(scope="module")
def castle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Castle]:
    directory = tmp_path_factory.mktemp("castle")
    with running_provider() as provider:
        config = {
            "sasl.enabled.mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"],
            "sasl.oauthbearer.jwks.endpoint.url": provider.issuer.publish(directory / "keys.json"),
            "sasl.oauthbearer.expected.audience": [AUDIENCE],
            "sasl.oauthbearer.expected.issuer": provider.url,
        }
        with Cluster(nodes=1, secure=True, config=config) as cluster:
            who: dict[str, Any] = dict(cluster.client_options)
            with Admin(cluster.bootstrap, **who) as admin:
                admin.create_topic("seen")
                admin.create_topic("secret")
                admin.alter_user_scram_credentials([UserScramCredentialUpsertion("anna", PASSWORD)])
                admin.create_acls([may_describe("anna", "seen"), may_describe("carol", "seen")])
            settings: dict[str, Any] = {
                "connection": {name: value for name, value in who.items() if name.startswith("tls")},
                "own_login": {name: value for name, value in who.items() if not name.startswith("tls")},
                "openid": OpenIdSettings(issuer=provider.url, client_id=CLIENT_ID),
                "allow_changes": True,
            }
            with serving_console(cluster.bootstrap, **settings) as url:
                yield Castle(cluster, provider, url)


def may_describe(user: str, topic: str) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, topic, f"User:{user}", Operation.DESCRIBE)


def test_a_cluster_with_users_has_a_log_in_that_works_in_a_browser(castle: Castle, browser: Any) -> None:
    url, guest = castle.url, Guest(browser, castle.url)
    page = guest.page
    page.goto(f"{url}/topics")
    assert page.url == f"{url}/login?to=%2Ftopics"
    guest.log_in("anna", "wrong")
    assert page.inner_text("[role=alert]")
    guest.log_in("anna", PASSWORD)
    assert page.url == f"{url}/topics"
    assert [row["topic"] for row in guest.rows()] == ["seen"]
    answer = page.goto(f"{url}/topic?name=secret")
    assert answer.status in (403, 404)
    text = guest.open("/topic", name="seen")
    assert "DescribeConfigs" in text or "DESCRIBE_CONFIGS" in text.upper().replace(" ", "_"), text
    lines = f"{url}/series.json?subject=topic-under-replicated"
    wait_until(lambda: page.request.get(lines).json()["lines"] != [])
    assert [line["name"] for line in page.request.get(lines).json()["lines"]] == ["seen"]
    page.click("form.who button")
    assert page.goto(f"{url}/topics").url.startswith(f"{url}/login")
    guest.leave()


def test_a_person_logs_in_at_the_identity_provider_and_out_again(castle: Castle, browser: Any) -> None:
    castle.provider.user = "carol"
    guest = Guest(browser, castle.url)
    page = guest.page
    page.goto(f"{castle.url}/topics?filter=e")
    page.click("text=Log in at 127.0.0.1")
    page.wait_for_url(f"{castle.url}/topics?filter=e")
    assert page.inner_text("form.who span") == "carol"
    assert [row["topic"] for row in guest.rows()] == ["seen"]
    page.click("form.who button")
    assert page.url == f"{castle.url}/login"
    castle.provider.lies = {"back": {"code": "", "error": "access_denied"}}
    try:
        page.click("text=Log in at 127.0.0.1")
        assert "access_denied" in page.inner_text("[role=alert]")
    finally:
        castle.provider.lies = {}
    guest.leave()


def test_an_admin_gives_a_program_the_rights_of_a_role_and_takes_them_back(castle: Castle, browser: Any) -> None:
    guest = Guest(browser, castle.url)
    page = guest.page
    page.goto(f"{castle.url}/acls")
    guest.log_in("admin", castle.admin_password)
    page.click("text=Give a role")
    assert "reads topics" in page.inner_text("#role option[value=consumer]")
    page.fill("#principal", "User:shop")
    page.select_option("#role", "consumer")
    page.fill("#topics", "seen\nsecret")
    page.fill("#ids", "billing")
    page.click("text=Show the plan")
    assert "must be empty: consumer needs nothing of that kind" in page.inner_text("[role=alert]")
    assert (page.input_value("#principal"), page.input_value("#topics")) == ("User:shop", "seen\nsecret")
    page.fill("#ids", "")
    page.fill("#groups", "shop")
    page.click("text=Show the plan")
    command = page.inner_text("pre")
    assert "acls create --role consumer --topic seen --topic secret --group shop" in command
    planned = page.locator("main li code").count()
    page.click("form.fields button")
    rows = guest.rows()
    assert len(rows) == planned and {row["principal"] for row in rows} == {"User:shop"}
    with castle.admin() as admin:
        acls = admin.describe_acls(AclFilter(principal="User:shop"))
    assert {(one.operation, one.resource_name) for one in acls} >= {
        (Operation.READ, "seen"),
        (Operation.READ, "secret"),
        (Operation.READ, "shop"),
    }
    page.click("text=Take a role back")
    assert page.input_value("#principal") == "User:shop"
    page.select_option("#role", "consumer")
    page.fill("#topics", "seen\nsecret")
    page.fill("#groups", "shop")
    page.click("text=Show the plan")
    page.click("form.fields button")
    assert guest.rows() == []
    guest.leave()


def test_an_admin_gives_a_user_rights_and_a_quota_by_forms_and_takes_them_back(castle: Castle, browser: Any) -> None:
    guest = Guest(browser, castle.url)
    page = guest.page
    page.goto(f"{castle.url}/users")
    guest.log_in("admin", castle.admin_password)
    page.click("text=Create a user")
    page.fill("#user", "bob")
    page.click("text=Show the plan")
    assert "penstock users create" in page.inner_text("pre")
    page.fill("#password", PASSWORD)
    page.fill("#again", "another")
    page.click("form.fields button")
    assert "differ" in page.inner_text("[role=alert]")
    page.fill("#password", PASSWORD)
    page.fill("#again", PASSWORD)
    page.click("form.fields button")
    assert [row["user"] for row in guest.rows()] == ["bob"]

    guest.open("/acls")
    page.click("text=Add an ACL")
    page.fill("#principal", "User:bob")
    page.select_option("#operation", "describe")
    page.select_option("#kind", "topic")
    page.fill("#name", "seen")
    page.click("text=Show the plan")
    page.click("form.fields button")
    assert [(row["principal"], row["operation"].lower(), row["name"]) for row in guest.rows()] == [
        ("User:bob", "describe", "seen")
    ]

    guest.open("/quotas")
    page.click("text=Set quotas")
    page.fill("#user", "bob")
    page.fill("#producer_byte_rate", "1000000")
    page.click("text=Show the plan")
    page.click("form.fields button")
    assert [(row["user"], row["limits, of each broker"]) for row in guest.rows()] == [
        ("bob", "producer_byte_rate 1000000.0")
    ]
    with castle.admin() as admin:
        assert admin.describe_acls(AclFilter(principal="User:bob")) == (may_describe("bob", "seen"),)
        assert admin.describe_client_quotas()[QuotaEntity(user="bob")] == {"producer_byte_rate": 1_000_000}

    bob = Guest(browser, castle.url)
    bob.page.goto(f"{castle.url}/topics")
    bob.log_in("bob", PASSWORD)
    assert [row["topic"] for row in bob.rows()] == ["seen"]
    bob.leave()

    page.click("text=Delete")
    page.click("text=Show the plan")
    page.click("form.fields button")
    assert guest.rows() == []
    guest.open("/acls", principal="User:bob")
    page.click("text=Remove")
    page.click("text=Show the plan")
    page.click("form.fields button")
    assert guest.rows() == []
    guest.open("/users", filter="bob")
    page.click("text=Delete")
    page.click("text=Show the plan")
    page.fill("#typed", "bob")
    page.click("form.fields button")
    assert "bob" not in [row["user"] for row in guest.rows()]
    guest.leave()
