"""One ACL is added and removed, and the command of the plan names the same one."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.cli.security.acl_words import NamedResources, operations_of
from penstock.console.changes.acl_changes import KINDS, OPERATIONS
from penstock.console.fields import FieldError
from penstock.errors import ApiError, ClusterAuthorizationFailedError
from penstock.messages.security.acls import AclBinding, AclFilter
from tests.support.console_changes import ChangeDesk, words_of


class FakeAcls:
    def __init__(self) -> None:
        self.acls: list[AclBinding] = []
        self.error: ApiError | None = None

    async def describe_acls(self, filter: AclFilter) -> tuple[AclBinding, ...]:
        return tuple(acl for acl in self.acls if filter.finds(acl))

    async def create_acls(self, acls: list[AclBinding]) -> dict[AclBinding, ApiError | None]:
        if self.error is None:
            self.acls += acls
        return dict.fromkeys(acls, self.error)

    async def delete_acls(self, filters: list[AclFilter]) -> tuple[AclBinding, ...]:
        gone = tuple(acl for acl in self.acls for one in filters if one.finds(acl))
        self.acls = [acl for acl in self.acls if acl not in gone]
        return gone


def acl_of_command(words: list[str]) -> AclBinding:
    """The ACL that the command line makes of these words."""
    named: dict[str, Any] = {"topic": None, "group": None, "transactional-id": None}
    principal, operation, host, flags = "", "", "*", set()
    left = iter(words)
    for word in left:
        if word == "-o":
            operation = next(left)
        elif word == "--host":
            host = next(left)
        elif word.removeprefix("--") in named:
            named[word.removeprefix("--")] = [next(left)]
        elif word.startswith("--"):
            flags.add(word)
        else:
            principal = word
    resources = NamedResources(
        named["topic"], named["group"], named["transactional-id"], "--cluster" in flags, "--prefixed" in flags
    )
    (acl,) = resources.acls(principal, host, "--deny" in flags, operations_of([operation]), ())
    return acl


FORMS = [
    {"principal": "User:anna", "operation": "read", "kind": "topic", "name": "orders"},
    {"principal": "User:*", "operation": "all", "kind": "group", "name": "shop-", "pattern": "prefixed"},
    {"principal": "User:-x", "operation": "write", "kind": "transactional id", "name": "b 1", "permission": "deny"},
    {"principal": "User:anna", "operation": "clusteraction", "kind": "cluster", "host": "10.0.0.1"},
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form["kind"])
def test_an_acl_is_added_and_removed_as_the_command_would(form: dict[str, str]) -> None:
    acls = FakeAcls()
    desk = ChangeDesk(acls)
    plan = desk.plan("/create-acl", **form)
    assert acls.acls == [] and plan.what.startswith("This ACL is added: ")
    assert words_of(plan)[:2] == ["acls", "create"]
    assert desk.perform("/create-acl", **form).startswith("/acls?principal=User")
    assert acls.acls == [acl_of_command(words_of(plan)[2:])]
    assert desk.plan("/create-acl", **form).what.startswith("There is this ACL already")
    gone = desk.plan("/delete-acl", **form)
    assert words_of(gone)[:3] == ["acls", "delete", "--yes"] and len(acls.acls) == 1
    assert acl_of_command(words_of(gone)[3:]) == acls.acls[0]
    desk.perform("/delete-acl", **form)
    assert acls.acls == []
    with pytest.raises(FieldError, match="there is no such ACL"):
        desk.plan("/delete-acl", **form)


def test_every_operation_and_kind_is_one_of_the_command_line() -> None:
    assert operations_of(list(OPERATIONS)) == tuple(OPERATIONS.values())
    assert KINDS == ("topic", "group", "cluster", "transactional id")


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"principal": "anna"}, "principal"),
        ({"principal": "User:"}, "principal"),
        ({"operation": "any"}, "operation"),
        ({"kind": "broker"}, "kind"),
        ({"name": ""}, "name"),
        ({"kind": "cluster", "name": "orders"}, "name"),
        ({"kind": "cluster", "name": "", "pattern": "prefixed"}, "name"),
        ({"pattern": "match"}, "pattern"),
        ({"permission": "any"}, "permission"),
    ],
)
def test_a_form_that_is_no_acl_names_its_field(form: dict[str, str], field: str) -> None:
    with pytest.raises(FieldError) as failure:
        ChangeDesk(FakeAcls()).plan("/create-acl", **{**FORMS[0], **form})
    assert failure.value.field == field


def test_what_the_cluster_refuses_is_raised_and_who_is_meant_is_told() -> None:
    acls = FakeAcls()
    acls.error = ClusterAuthorizationFailedError("no")
    desk = ChangeDesk(acls, "anna")
    assert desk.plan("/create-acl", **FORMS[0]).lines == ("You are one of those whom it is about.",)
    with pytest.raises(ClusterAuthorizationFailedError):
        desk.perform("/create-acl", **FORMS[0])
