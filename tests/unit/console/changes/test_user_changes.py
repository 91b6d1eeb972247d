"""Users are made, changed and deleted, and their passwords are nowhere but in what the cluster gets."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.client.admin.admin_types import UserScramCredentialDeletion
from penstock.client.admin.security.users import UserDescription, UserScramCredentialAlteration
from penstock.console.change_table import CHANGES
from penstock.console.fields import FieldError
from penstock.errors import ApiError, ClusterAuthorizationFailedError
from tests.support.console_changes import BY_PATH, ChangeDesk, words_of

BOTH = {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}
TYPED = {"password": "s3cret é", "again": "s3cret é"}


class FakeUsers:
    def __init__(self, **users: dict[str, int]) -> None:
        self.users = users
        self.asked: list[UserScramCredentialAlteration] = []
        self.error: ApiError | None = None

    async def describe_user_scram_credentials(self, names: Sequence[str]) -> dict[str, UserDescription]:
        return {name: UserDescription(name, self.users[name]) for name in names if name in self.users}

    async def alter_user_scram_credentials(
        self, alterations: Sequence[UserScramCredentialAlteration]
    ) -> dict[str, ApiError | None]:
        self.asked += alterations
        return {one.user: self.error for one in alterations}


def test_a_user_is_made_with_the_password_that_is_typed_below_the_plan() -> None:
    users = FakeUsers()
    desk = ChangeDesk(users)
    plan = desk.plan("/create-user", user="anna")
    assert words_of(plan) == ["users", "create", "anna"]
    one = desk.plan("/create-user", user="anna", mechanism="SCRAM-SHA-512")
    assert words_of(one) == ["users", "create", "--mechanism", "SCRAM-SHA-512", "anna"]
    assert desk.perform("/create-user", user="anna", **TYPED) == "/users?filter=anna"
    assert [(one.user, one.mechanism, one.password) for one in users.asked] == [  # type: ignore[union-attr]
        ("anna", mechanism, TYPED["password"]) for mechanism in BOTH
    ]
    assert TYPED["password"] not in repr(users.asked)


def test_a_password_is_changed_for_the_mechanisms_that_a_user_has() -> None:
    users = FakeUsers(anna={"SCRAM-SHA-512": 4096})
    desk = ChangeDesk(users)
    plan = desk.plan("/alter-user", user="anna")
    assert words_of(plan) == ["users", "alter", "anna"] and "SCRAM-SHA-256" not in plan.what
    desk.perform("/alter-user", user="anna", **TYPED)
    assert [one.mechanism for one in users.asked] == ["SCRAM-SHA-512"]


def test_a_user_is_deleted_once_its_name_was_typed() -> None:
    users = FakeUsers(anna=BOTH)
    desk = ChangeDesk(users)
    plan = desk.plan("/delete-user", user="anna")
    assert (plan.confirm, words_of(plan)) == ("anna", ["users", "delete", "--yes", "anna"])
    assert desk.perform("/delete-user", user="anna") == "/users"
    assert users.asked == [UserScramCredentialDeletion("anna", one) for one in BOTH]


@pytest.mark.parametrize(
    ("path", "form", "field"),
    [
        ("/create-user", {"user": "bert"}, "user"),
        ("/create-user", {"user": "anna", "mechanism": "PLAIN"}, "mechanism"),
        ("/alter-user", {"user": "anna"}, "user"),
        ("/delete-user", {"user": "anna"}, "user"),
        ("/delete-user", {}, "user"),
    ],
)
def test_a_plan_for_the_wrong_user_names_its_field(path: str, form: dict[str, str], field: str) -> None:
    with pytest.raises(FieldError) as failure:
        ChangeDesk(FakeUsers(bert=BOTH)).plan(path, **form)
    assert failure.value.field == field


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({}, "password"),
        ({"password": "a"}, "again"),
        ({"password": "a", "again": "b"}, "again"),
        ({"password": "a" * 1025, "again": "a" * 1025}, "password"),
    ],
)
def test_a_password_that_is_missing_or_differs_changes_nothing(typed: dict[str, str], field: str) -> None:
    users = FakeUsers(bert=BOTH)
    for path, user in (("/create-user", "anna"), ("/alter-user", "bert")):
        with pytest.raises(FieldError) as failure:
            ChangeDesk(users).perform(path, user=user, **typed)
        assert failure.value.field == field
    assert users.asked == []


def test_what_the_cluster_refuses_is_raised() -> None:
    users = FakeUsers(anna=BOTH)
    users.error = ClusterAuthorizationFailedError("no")
    with pytest.raises(ClusterAuthorizationFailedError):
        ChangeDesk(users).perform("/delete-user", user="anna")


def test_passwords_are_secrets_of_their_forms() -> None:
    assert [one.name for one in BY_PATH["/create-user"].secrets] == ["password", "again"]
    assert all("password" not in change.names for change in CHANGES)
