"""Gives a principal all rights that a kind of program needs, and takes them back: `penstock acls create --role`.

A role is a name for several ACLs (penstock/client/admin/security/roles.py). The cluster has only these, so what is
taken back goes although another role of the principal needs it, too; the plan shows each. Not here: one ACL at a time
(acl_changes.py).
"""

from __future__ import annotations

from typing import Final

from penstock.client.admin.security.roles import ROLES, Role, role_acls
from penstock.console.change import ChangeField, ChangePlan, ConsoleChange, shell_command, text_lines
from penstock.console.changes.acl_changes import PATTERNS, acl_filter, own_note, principal_of
from penstock.console.fields import FieldError, Fields
from penstock.console.page import PageAsked, address_of
from penstock.errors import ConfigError
from penstock.messages.security.acls import WILDCARD, AclBinding, AclFilter, PatternType, ResourceType

KINDS: Final = {
    "topics": ResourceType.TOPIC,
    "groups": ResourceType.GROUP,
    "ids": ResourceType.TRANSACTIONAL_ID,
}
"""The fields that name resources, and their kinds."""
NAMES_MAX: Final = 20
ROLE_FIELDS: Final = (
    ChangeField("principal", "Principal", "User:anna", is_needed=True),
    ChangeField("role", "Role", choices=tuple(ROLES), meanings={one.name: one.summary for one in ROLES.values()}),
    ChangeField("topics", "Topics", f"one a line; {WILDCARD}: every one", "lines"),
    ChangeField("groups", "Groups", "one a line", "lines"),
    ChangeField("ids", "Transactional ids", "one a line", "lines"),
    ChangeField("pattern", "Pattern", "prefixed: every name that begins so", choices=PATTERNS),
    ChangeField("host", "Host", "an address; empty: from every one"),
)


def _role(fields: Fields) -> Role:
    return ROLES[fields.choice("role", ROLES, next(iter(ROLES)))]


def acls_of_form(fields: Fields) -> list[AclBinding]:
    """The ACLs that the role of a form stands for; FieldError where it lacks a name, or has one that no right needs."""
    role = _role(fields)
    named = {kind: text_lines(fields, name, NAMES_MAX) for name, kind in KINDS.items()}
    kinds = {right.resource_type for right in role.rights}
    for name, kind in KINDS.items():
        if named[kind] and kind not in kinds:
            raise FieldError(name, f"must be empty: {role.name} needs nothing of that kind")
    pattern = PatternType(fields.choice("pattern", PATTERNS, PATTERNS[0]))
    try:
        return role_acls(role, principal_of(fields), named, pattern=pattern, host=fields.text("host", WILDCARD))
    except ConfigError as error:
        raise FieldError("topics", str(error)) from None


def _words(fields: Fields) -> list[str]:
    words = ["--role", _role(fields).name]
    for name, kind in KINDS.items():
        for one in text_lines(fields, name, NAMES_MAX):
            words += [f"--{kind.value.replace(' ', '-')}", one]
    words += ["--prefixed"] if fields.text("pattern", "") == PatternType.PREFIXED.value else []
    return words + (["--host", fields.text("host")] if fields.has("host") else [])


async def _present(asked: PageAsked, principal: str) -> frozenset[AclBinding]:
    return frozenset(await asked.admin.describe_acls(AclFilter(principal=principal)))


async def _plan_give(asked: PageAsked) -> ChangePlan:
    acls, principal, role = acls_of_form(asked.fields), principal_of(asked.fields), _role(asked.fields)
    present = await _present(asked, principal)
    lines = tuple(f"{acl}{', which is there already' if acl in present else ''}" for acl in acls)
    return ChangePlan(
        f"{len(set(acls) - present)} ACLs of {principal} are added. {role.name}: {role.summary}.",
        shell_command(asked, ["acls", "create", *_words(asked.fields)], [principal]),
        (*own_note(asked, principal), *lines),
        must_hold=lines,
    )


async def _give(asked: PageAsked) -> str:
    for error in (await asked.admin.create_acls(acls_of_form(asked.fields))).values():
        if error is not None:
            raise error
    return address_of("/acls", principal=principal_of(asked.fields))


async def _plan_take(asked: PageAsked) -> ChangePlan:
    principal = principal_of(asked.fields)
    present = await _present(asked, principal)
    gone = [acl for acl in acls_of_form(asked.fields) if acl in present]
    if not gone:
        raise FieldError("role", f"{principal} has none of its rights there")
    lines = tuple(map(str, gone))
    return ChangePlan(
        f"{len(gone)} ACLs of {principal} are removed, also where another role needs them.",
        shell_command(asked, ["acls", "delete", "--yes", *_words(asked.fields)], [principal]),
        (*own_note(asked, principal), *lines),
        must_hold=lines,
    )


async def _take(asked: PageAsked) -> str:
    await asked.admin.delete_acls([acl_filter(acl) for acl in acls_of_form(asked.fields)])
    return address_of("/acls", principal=principal_of(asked.fields))


ROLE_CHANGES: Final = (
    ConsoleChange("/give-role", "Give a role", ROLE_FIELDS, _plan_give, _give),
    ConsoleChange("/take-role", "Take a role back", ROLE_FIELDS, _plan_take, _take),
)
