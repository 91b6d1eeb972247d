"""A role is given and taken back as the command of its plan would."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.cli.security.acl_words import NamedResources, roles_of
from penstock.client.admin.security.roles import ROLES
from penstock.console.fields import FieldError
from penstock.errors import ClusterAuthorizationFailedError
from penstock.messages.security.acls import AclBinding, Operation, ResourceType
from tests.support.console_changes import ChangeDesk, words_of
from tests.unit.console.changes.test_acl_changes import FakeAcls


def acls_of_command(words: list[str]) -> list[AclBinding]:
    """The ACLs that the command line makes of these words."""
    named: dict[str, list[str]] = {"topic": [], "group": [], "transactional-id": [], "role": [], "host": []}
    flags, principal = set(), ""
    left = iter(words)
    for word in left:
        if word.removeprefix("--") in named:
            named[word.removeprefix("--")].append(next(left))
        elif word.startswith("--"):
            flags.add(word)
        else:
            principal = word
    resources = NamedResources(
        named["topic"], named["group"], named["transactional-id"], cluster=False, prefixed="--prefixed" in flags
    )
    host = (named["host"] or ["*"])[0]
    return resources.acls(principal, host, False, (), roles_of(named["role"], False, False))


FORMS: list[dict[str, str]] = [
    {"role": "producer", "topics": "orders\r\nbills\r\n", "ids": "shop-1"},
    {"role": "consumer", "topics": "orders.", "groups": "shop", "pattern": "prefixed", "host": "10.0.0.1"},
    {"role": "spark-sink", "topics": "gold"},
    {"role": "monitor"},
    {"role": "user-admin"},
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form["role"])
def test_a_role_is_given_and_taken_back_as_the_command_would(form: dict[str, str]) -> None:
    acls, given = FakeAcls(), {"principal": "User:bob", **form}
    desk = ChangeDesk(acls)
    plan = desk.plan("/give-role", **given)
    assert acls.acls == [] and plan.what.startswith(f"{len(plan.lines)} ACLs of User:bob are added. ")
    assert words_of(plan)[:2] == ["acls", "create"]
    assert desk.perform("/give-role", **given) == "/acls?principal=User%3Abob"
    assert acls.acls == acls_of_command(words_of(plan)[2:])
    again = desk.plan("/give-role", **given)
    assert again.what.startswith("0 ACLs") and all("which is there already" in line for line in again.lines)
    other = AclBinding(ResourceType.TOPIC, "orders", "User:carol", Operation.READ)
    acls.acls.append(other)
    gone = desk.plan("/take-role", **given)
    assert words_of(gone)[:3] == ["acls", "delete", "--yes"]
    assert acls_of_command(words_of(gone)[3:]) == acls.acls[:-1]
    desk.perform("/take-role", **given)
    assert acls.acls == [other]
    with pytest.raises(FieldError, match="has none of its rights"):
        desk.plan("/take-role", **given)


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"principal": "bob"}, "principal"),
        ({"role": "king"}, "role"),
        ({"topics": ""}, "topics"),
        ({"role": "spark-sink", "groups": "shop"}, "groups"),
        ({"role": "user-admin", "topics": "", "ids": "shop"}, "ids"),
        ({"topics": "\n".join(map(str, range(21)))}, "topics"),
        ({"pattern": "match"}, "pattern"),
    ],
)
def test_a_form_that_is_no_role_names_its_field(form: dict[str, Any], field: str) -> None:
    given = {"principal": "User:bob", "role": "producer", "topics": "orders", **form}
    with pytest.raises(FieldError) as failure:
        ChangeDesk(FakeAcls()).plan("/give-role", **given)
    assert failure.value.field == field


def test_what_the_cluster_refuses_is_raised_and_who_is_meant_is_told() -> None:
    acls = FakeAcls()
    desk = ChangeDesk(acls, "bob")
    given = {"principal": "User:bob", "role": "consumer", "topics": "orders"}
    assert desk.plan("/give-role", **given).lines[0] == "You are one of those whom it is about."
    acls.error = ClusterAuthorizationFailedError("no")
    with pytest.raises(ClusterAuthorizationFailedError):
        desk.perform("/give-role", **given)


def test_every_role_of_the_command_line_can_be_chosen() -> None:
    for role in ROLES:
        form = {"principal": "User:bob", "role": role, "topics": "t"}
        needs_topics = any(one.resource_type is ResourceType.TOPIC for one in ROLES[role].rights)
        assert ChangeDesk(FakeAcls()).plan("/give-role", **{**form, **({} if needs_topics else {"topics": ""})}).lines
