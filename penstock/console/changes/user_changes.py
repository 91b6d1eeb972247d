"""Creates users that log in with a password, changes their passwords, and deletes them, as `penstock users` does.

The new password is typed below the plan. No page, address or log has it, and of it only keys go to the cluster
(penstock/sasl/credentials.py). Not here: what a user may do (acl_changes.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from penstock.client.admin.admin_types import UserScramCredentialDeletion, UserScramCredentialUpsertion
from penstock.client.admin.security.users import MECHANISMS, UserScramCredentialAlteration
from penstock.console.change import SECRET, ChangeField, ChangePlan, ConsoleChange, shell_command
from penstock.console.fields import FieldError, Fields
from penstock.console.page import PageAsked, address_of
from penstock.sasl.credentials import PASSWORD_BYTES_MAX

EVERY: Final = "all"
CHOICES: Final = (EVERY, *MECHANISMS)
USER: Final = ChangeField("user", "User", is_needed=True)
NEW_PASSWORD: Final = (
    ChangeField("password", "New password", kind=SECRET),
    ChangeField("again", "The same again", kind=SECRET),
)


def _password(fields: Fields) -> str:
    """The new password, typed twice."""
    password = fields.text("password")
    if fields.text("again") != password:
        raise FieldError("again", "the two passwords differ; nothing was changed")
    if len(password.encode()) > PASSWORD_BYTES_MAX:
        raise FieldError("password", f"must have at most {PASSWORD_BYTES_MAX} bytes")
    return password


async def _mechanisms_of(asked: PageAsked, user: str) -> tuple[str, ...]:
    """The mechanisms by which a user may log in; FieldError where there is no such user."""
    found = await asked.admin.describe_user_scram_credentials([user])
    if user not in found:
        raise FieldError("user", f"there is no user {user!r}; the page of users has all")
    return tuple(found[user].mechanisms)


async def _alter(asked: PageAsked, alterations: Iterable[UserScramCredentialAlteration]) -> str:
    for error in (await asked.admin.alter_user_scram_credentials([*alterations])).values():
        if error is not None:
            raise error
    return address_of("/users", filter=asked.fields.text("user"))


async def _plan_create(asked: PageAsked) -> ChangePlan:
    user, chosen = asked.fields.text("user"), asked.fields.choice("mechanism", CHOICES, EVERY)
    if await asked.admin.describe_user_scram_credentials([user]):
        raise FieldError("user", f"{user!r} exists; its password is changed on the page of users")
    words = ["users", "create", *([] if chosen == EVERY else ["--mechanism", chosen])]
    ways = " and ".join(MECHANISMS) if chosen == EVERY else chosen
    return ChangePlan(
        f"User {user} is made, and logs in by {ways}. The command asks for the password.",
        shell_command(asked, words, [user]),
        ("It may do nothing before there is an ACL for it.",),
    )


async def _create(asked: PageAsked) -> str:
    user, chosen = asked.fields.text("user"), asked.fields.choice("mechanism", CHOICES, EVERY)
    password, ways = _password(asked.fields), MECHANISMS if chosen == EVERY else (chosen,)
    return await _alter(asked, [UserScramCredentialUpsertion(user, password, one) for one in ways])


async def _plan_alter(asked: PageAsked) -> ChangePlan:
    user = asked.fields.text("user")
    ways = await _mechanisms_of(asked, user)
    return ChangePlan(
        f"User {user} gets another password for {' and '.join(ways)}. The command asks for it.",
        shell_command(asked, ["users", "alter"], [user]),
        ("Connections that are logged in stay so until connections.max.reauth.ms is over.",),
        must_hold=ways,
    )


async def _change_password(asked: PageAsked) -> str:
    user, password = asked.fields.text("user"), _password(asked.fields)
    ways = await _mechanisms_of(asked, user)
    return await _alter(asked, [UserScramCredentialUpsertion(user, password, one) for one in ways])


async def _plan_delete(asked: PageAsked) -> ChangePlan:
    user = asked.fields.text("user")
    ways = await _mechanisms_of(asked, user)
    return ChangePlan(
        f"User {user} logs in no more by {' and '.join(ways)}. Its ACLs and certificates stay.",
        shell_command(asked, ["users", "delete", "--yes"], [user]),
        ("Connections that are logged in stay so until connections.max.reauth.ms is over.",),
        confirm=user,
        must_hold=ways,
    )


async def _delete(asked: PageAsked) -> str:
    user = asked.fields.text("user")
    ways = await _mechanisms_of(asked, user)
    await _alter(asked, [UserScramCredentialDeletion(user, one) for one in ways])
    return "/users"


USER_CHANGES: Final = (
    ConsoleChange(
        "/create-user",
        "Create a user",
        (USER, ChangeField("mechanism", "Mechanism", choices=CHOICES), *NEW_PASSWORD),
        _plan_create,
        _create,
    ),
    ConsoleChange("/alter-user", "Change a user's password", (USER, *NEW_PASSWORD), _plan_alter, _change_password),
    ConsoleChange("/delete-user", "Delete a user", (USER,), _plan_delete, _delete),
)
