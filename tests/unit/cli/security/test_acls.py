"""`penstock acls`: an ACL for each pair of an operation and a resource, and the answer that a broker would give."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from penstock.cli.security import acls as command
from penstock.client.admin.admin_types import AclBinding, AclFilter, Operation, PatternType, Permission, ResourceType
from penstock.client.admin.security.acls import judge_right
from penstock.client.admin.security.roles import ROLES
from penstock.errors import ApiError, ConfigError, InvalidRequestError

ANNA = "User:anna"


class FakeAdmin:
    """Has ACLs, and the settings of one broker."""

    def __init__(self) -> None:
        self.acls: dict[AclBinding, None] = {}
        self.settings = {"super.users": "User:admin; User:ops", "allow.everyone.if.no.acl.found": "false"}

    def create_acls(self, acls: Sequence[AclBinding]) -> dict[AclBinding, ApiError | None]:
        bad = InvalidRequestError("no")
        results = {acl: bad if acl.resource_name == "refused" else None for acl in acls}
        self.acls |= dict.fromkeys(acl for acl, error in results.items() if error is None)
        return results

    def describe_acls(self, filter: AclFilter | None = None) -> tuple[AclBinding, ...]:
        return tuple(acl for acl in self.acls if (filter or AclFilter()).finds(acl))

    def delete_acls(self, filters: Sequence[AclFilter]) -> tuple[AclBinding, ...]:
        gone = tuple(acl for acl in self.acls if any(one.finds(acl) for one in filters))
        for acl in gone:
            del self.acls[acl]
        return gone

    def describe_cluster(self) -> Any:
        return SimpleNamespace(brokers=[SimpleNamespace(node_id=1)])

    def describe_broker_config(self, node_id: int) -> dict[str, Any]:
        return {name: SimpleNamespace(name=name, value=value) for name, value in self.settings.items()}


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    made = FakeAdmin()

    @contextlib.contextmanager
    def given(bootstrap: str) -> Iterator[FakeAdmin]:
        yield made

    monkeypatch.setattr(command, "patient_admin", given)
    return made


def acl(
    kind: ResourceType,
    name: str,
    operation: Operation,
    pattern: PatternType = PatternType.LITERAL,
    permission: Permission = Permission.ALLOW,
    host: str = "*",
    principal: str = ANNA,
) -> AclBinding:
    return AclBinding(kind, name, principal, operation, permission, host, pattern)


def test_every_pair_of_an_operation_and_a_resource_is_an_acl(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    command.add(ANNA, ["read", "describe-configs"], topics=["a", "b"], host="10.0.0.1")
    assert set(admin.acls) == {
        acl(ResourceType.TOPIC, name, operation, host="10.0.0.1")
        for name in "ab"
        for operation in (Operation.READ, Operation.DESCRIBE_CONFIGS)
    }
    assert "added: allow User:anna from 10.0.0.1: Read on topic 'a'" in capsys.readouterr().out


def test_prefixes_denials_and_the_cluster(admin: FakeAdmin) -> None:
    command.add(ANNA, ["all"], topics=["team-"], cluster=True, prefixed=True, deny=True)
    assert set(admin.acls) == {
        acl(ResourceType.TOPIC, "team-", Operation.ALL, PatternType.PREFIXED, Permission.DENY),
        acl(ResourceType.CLUSTER, "kafka-cluster", Operation.ALL, permission=Permission.DENY),
    }


def test_the_roles_have_what_their_clients_need(admin: FakeAdmin) -> None:
    command.add(ANNA, topics=["t"], transactional_ids=["x"], producer=True)
    topic = {acl(ResourceType.TOPIC, "t", one) for one in (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)}
    ids = {acl(ResourceType.TRANSACTIONAL_ID, "x", one) for one in (Operation.WRITE, Operation.DESCRIBE)}
    assert set(admin.acls) == topic | ids
    admin.acls.clear()
    command.add(ANNA, topics=["t"], groups=["g"], consumer=True)
    topic = {acl(ResourceType.TOPIC, "t", one) for one in (Operation.READ, Operation.DESCRIBE)}
    assert set(admin.acls) == topic | {acl(ResourceType.GROUP, "g", Operation.READ)}


def test_a_role_has_the_resources_that_are_named_and_its_own_where_none_are(admin: FakeAdmin) -> None:
    command.add(ANNA, topics=["out"], roles=["spark-sink"])
    written = acl(ResourceType.TOPIC, "out", Operation.WRITE)
    every = acl(ResourceType.TRANSACTIONAL_ID, "penstock.batch:", Operation.WRITE, PatternType.PREFIXED)
    assert set(admin.acls) == {written, every}
    admin.acls.clear()
    command.add(ANNA, topics=["out"], transactional_ids=["penstock.batch:nightly"], roles=["spark-sink"])
    assert set(admin.acls) == {written, acl(ResourceType.TRANSACTIONAL_ID, "penstock.batch:nightly", Operation.WRITE)}
    admin.acls.clear()
    command.add(ANNA, topics=["lake-"], prefixed=True, roles=["monitor", "spark-source"], deny=True, host="10.0.0.1")
    denied = {(one.resource_type, one.resource_name, one.pattern_type, one.operation) for one in admin.acls}
    assert {(one.permission, one.host) for one in admin.acls} == {(Permission.DENY, "10.0.0.1")}
    assert denied == {
        (ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, Operation.DESCRIBE),
        (ResourceType.TOPIC, "lake-", PatternType.PREFIXED, Operation.DESCRIBE),
        (ResourceType.GROUP, "*", PatternType.LITERAL, Operation.DESCRIBE),
        (ResourceType.TRANSACTIONAL_ID, "*", PatternType.LITERAL, Operation.DESCRIBE),
        (ResourceType.TOPIC, "lake-", PatternType.PREFIXED, Operation.READ),
    }


def test_a_role_is_taken_away_by_the_words_that_gave_it(admin: FakeAdmin) -> None:
    for name, role in ROLES.items():
        topics = ["t"] if any(right.resource_type is ResourceType.TOPIC for right in role.rights) else None
        command.add(ANNA, topics=topics, roles=[name])
        assert admin.acls
        command.remove(ANNA, topics=topics, roles=[name])
        assert not admin.acls, name
    command.add(ANNA, ["read"], topics=["t"], roles=["topic-admin"])
    assert len(admin.acls) == 1 + len(ROLES["topic-admin"].rights)


def test_the_roles_are_shown_with_what_each_right_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    command.list_roles(as_json=True)
    printed = json.loads(capsys.readouterr().out)
    assert list(dict.fromkeys(one["role"] for one in printed)) == list(ROLES)
    (ids,) = [one for one in printed if one["role"] == "spark-sink" and one["resource"] == "transactional id"]
    assert (ids["operation"], ids["name"]) == ("Write", "penstock.batch:") and ids["for"]
    assert command.complete_role("spark-si") == ["spark-sink", "spark-sink-at-least-once"]
    command.list_roles()
    assert "as named" in capsys.readouterr().out


def test_what_is_listed_concerns_the_resources(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    command.add(ANNA, ["read"], topics=["orders", "*"])
    command.add(ANNA, ["read"], topics=["ord"], prefixed=True)
    command.add("User:bob", ["read"], topics=["other"])
    capsys.readouterr()
    command.list_acls(topics=["orders"], as_json=True)
    printed = json.loads(capsys.readouterr().out)
    assert {(one["pattern"], one["name"]) for one in printed} == {
        ("literal", "orders"),
        ("literal", "*"),
        ("prefixed", "ord"),
    }
    command.list_acls(principal="User:bob", as_json=True)
    assert json.loads(capsys.readouterr().out) == [
        {
            "principal": "User:bob",
            "permission": "allow",
            "operation": "Read",
            "resource": "topic",
            "pattern": "literal",
            "name": "other",
            "host": "*",
        }
    ]


def test_what_was_added_is_removed_by_the_same_words(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    command.add(ANNA, ["read", "write"], topics=["t"])
    command.add(ANNA, ["read"], topics=["t"], deny=True)
    command.add("User:bob", ["read"], topics=["t"])
    capsys.readouterr()
    command.remove(ANNA, ["read"], topics=["t"])
    assert capsys.readouterr().out == "removed: allow User:anna from every host: Read on topic 't'\n"
    command.remove(ANNA, ["read"], topics=["t"])
    assert capsys.readouterr().out == "removed: none\n"
    command.remove(ANNA, everything=True)
    assert set(admin.acls) == {acl(ResourceType.TOPIC, "t", Operation.READ, principal="User:bob")}


def tried(*args: Any, **more: Any) -> int:
    try:
        command.test(*args, **more)
    except typer.Exit as end:
        return end.exit_code
    return 0


def test_a_right_is_tried_and_what_decides_is_shown(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    command.add(ANNA, ["read"], topics=["ord"], prefixed=True)
    command.add(ANNA, ["describe"], topics=["orders"], deny=True)
    capsys.readouterr()
    assert tried(ANNA, "read", topics=["orders"], as_json=True) == 0
    (printed,) = json.loads(capsys.readouterr().out)
    assert printed["answer"] == "allowed" and "topic prefix 'ord'" in printed["because of"]
    assert tried(ANNA, "describe", topics=["orders", "ordinary"], as_json=True) == 1
    assert [one["answer"] for one in json.loads(capsys.readouterr().out)] == ["refused", "allowed"]
    assert tried("User:bob", "read", topics=["orders"]) == 1
    assert "no ACL allows it" in capsys.readouterr().out
    assert tried("User:ops", "alter", cluster=True) == 0
    assert "super.users" in capsys.readouterr().out
    admin.settings["allow.everyone.if.no.acl.found"] = "true"
    assert tried("User:bob", "read", topics=["free"]) == 0 and tried("User:bob", "read", topics=["orders"]) == 1
    assert "allow.everyone.if.no.acl.found" in capsys.readouterr().out


def test_an_acl_that_the_cluster_refuses_is_the_error(admin: FakeAdmin) -> None:
    with pytest.raises(InvalidRequestError):
        command.add(ANNA, ["read"], topics=["refused"])


BAD = [
    (lambda: command.add(ANNA, ["read"]), "name a resource"),
    (lambda: command.add(ANNA, topics=["t"]), "name an operation"),
    (lambda: command.add(ANNA, ["reed"], topics=["t"]), "did you mean"),
    (lambda: command.add(ANNA, ["any"], topics=["t"]), "must be one of"),
    (lambda: command.remove(ANNA, topics=["t"], everything=True), "--all"),
    (lambda: command.remove(ANNA, roles=["monitor"], everything=True), "--all"),
    (lambda: command.add(ANNA, topics=["t"], roles=["spark-sing"]), "--role spark-sing: .*did you mean 'spark-sink'"),
    (lambda: command.add(ANNA, topics=["t"], roles=["process"]), "two commands: --role consumer .*--role producer"),
    (lambda: command.add(ANNA, topics=["t"], roles=["spark"]), "reads, spark-source, .* writes, spark-sink"),
    (lambda: command.add(ANNA, roles=["spark-sink"]), "the role spark-sink is about topics: name one"),
    (lambda: command.add(ANNA, groups=["g"], producer=True), "--group: producer needs nothing of that kind"),
    (lambda: command.add(ANNA, cluster=True, roles=["consumer"], topics=["t"]), "--cluster: consumer needs nothing"),
    (lambda: command.test(ANNA, "read"), "name a resource"),
]


@pytest.mark.parametrize(("call", "words"), BAD)
def test_a_mistake_is_told_before_anybody_is_asked(admin: FakeAdmin, call: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        call()
    assert not admin.acls


def test_a_denial_is_the_reason_even_behind_a_permission() -> None:
    allowed = acl(ResourceType.TOPIC, "t", Operation.READ)
    denied = acl(ResourceType.TOPIC, "*", Operation.ALL, permission=Permission.DENY, principal="User:*")
    found = judge_right([allowed, denied], ANNA, Operation.READ, ResourceType.TOPIC, "t", "10.0.0.1")
    assert not found.is_allowed and found.because_of == denied


def test_a_dry_run_shows_the_acls_and_changes_none(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    command.add("User:anna", ["read"], ["orders"], dry_run=True)
    assert capsys.readouterr().out == "would be added: allow User:anna from every host: Read on topic 'orders'\n"
    assert not admin.acls
    command.add("User:anna", ["read"], ["orders"])
    command.remove("User:anna", everything=True, dry_run=True)
    assert "would be removed: allow User:anna" in capsys.readouterr().out and len(admin.acls) == 1
