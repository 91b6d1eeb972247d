"""Creates and deletes one ACL at a time, as `penstock acls create` and `delete` do.

Not here: roles, which stand for many ACLs (role_changes.py).
"""

from __future__ import annotations

from typing import Final

from penstock.console.change import ChangeField, ChangePlan, ConsoleChange, shell_command
from penstock.console.fields import FieldError, Fields
from penstock.console.page import PageAsked, address_of
from penstock.messages.security.acls import (
    CLUSTER_NAME,
    USER_TYPE,
    WILDCARD,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

OPERATIONS: Final = {
    one.value.lower(): one for one in Operation if one not in (Operation.UNKNOWN, Operation.ANY, Operation.ALL)
} | {Operation.ALL.value.lower(): Operation.ALL}
KINDS: Final = tuple(one.value for one in ResourceType if one not in (ResourceType.UNKNOWN, ResourceType.ANY))
PERMISSIONS: Final = (Permission.ALLOW.value, Permission.DENY.value)
PATTERNS: Final = (PatternType.LITERAL.value, PatternType.PREFIXED.value)
ACL_FIELDS: Final = (
    ChangeField("principal", "Principal", "User:anna, or User:* for everybody", is_needed=True),
    ChangeField("permission", "Permission", choices=PERMISSIONS),
    ChangeField("operation", "Operation", choices=tuple(OPERATIONS)),
    ChangeField("kind", "Resource", choices=KINDS),
    ChangeField("name", "Name", f"{WILDCARD}: every one of its kind; empty for the cluster"),
    ChangeField("pattern", "Pattern", "prefixed: every name that begins so", choices=PATTERNS),
    ChangeField("host", "Host", "an address; empty: from every one"),
)


def principal_of(fields: Fields) -> str:
    """The principal of a form."""
    principal = fields.text("principal")
    if not principal.startswith(f"{USER_TYPE}:") or principal == f"{USER_TYPE}:":
        raise FieldError("principal", f"must be {USER_TYPE}:NAME, or {USER_TYPE}:{WILDCARD} for everybody")
    return principal


def acl_of_form(fields: Fields) -> AclBinding:
    """The ACL that a form describes."""
    principal = principal_of(fields)
    kind = ResourceType(fields.choice("kind", KINDS, KINDS[0]))
    pattern = PatternType(fields.choice("pattern", PATTERNS, PATTERNS[0]))
    name = fields.text("name", CLUSTER_NAME if kind is ResourceType.CLUSTER else None)
    if kind is ResourceType.CLUSTER and (name != CLUSTER_NAME or pattern is not PatternType.LITERAL):
        raise FieldError("name", "must be empty for the cluster, and the pattern literal")
    return AclBinding(
        kind,
        name,
        principal,
        OPERATIONS[fields.choice("operation", OPERATIONS, "read")],
        Permission(fields.choice("permission", PERMISSIONS, PERMISSIONS[0])),
        fields.text("host", WILDCARD),
        pattern,
    )


def acl_filter(acl: AclBinding) -> AclFilter:
    """Finds that very ACL."""
    return AclFilter(
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )


def _words(acl: AclBinding) -> list[str]:
    """The options of `penstock acls create` and `delete` that name this ACL."""
    words = ["-o", acl.operation.value.lower()]
    if acl.resource_type is ResourceType.CLUSTER:
        words.append("--cluster")
    else:
        words += [f"--{acl.resource_type.value.replace(' ', '-')}", acl.resource_name]
    words += ["--prefixed"] if acl.pattern_type is PatternType.PREFIXED else []
    words += [] if acl.host == WILDCARD else ["--host", acl.host]
    return words + (["--deny"] if acl.permission is Permission.DENY else [])


def own_note(asked: PageAsked, principal: str) -> tuple[str, ...]:
    """A word of warning where it is about the user who changes it."""
    if asked.user and principal in (f"{USER_TYPE}:{asked.user}", f"{USER_TYPE}:{WILDCARD}"):
        return ("You are one of those whom it is about.",)
    return ()


async def _plan_create(asked: PageAsked) -> ChangePlan:
    acl = acl_of_form(asked.fields)
    is_there = bool(await asked.admin.describe_acls(acl_filter(acl)))
    what = f"There is this ACL already, and it stays: {acl}." if is_there else f"This ACL is added: {acl}."
    return ChangePlan(
        what, shell_command(asked, ["acls", "create", *_words(acl)], [acl.principal]), own_note(asked, acl.principal)
    )


async def _create(asked: PageAsked) -> str:
    acl = acl_of_form(asked.fields)
    for error in (await asked.admin.create_acls([acl])).values():
        if error is not None:
            raise error
    return address_of("/acls", principal=acl.principal)


async def _plan_delete(asked: PageAsked) -> ChangePlan:
    acl = acl_of_form(asked.fields)
    if not await asked.admin.describe_acls(acl_filter(acl)):
        raise FieldError("name", f"there is no such ACL: {acl}")
    command = shell_command(asked, ["acls", "delete", "--yes", *_words(acl)], [acl.principal])
    return ChangePlan(f"This ACL is removed: {acl}.", command, own_note(asked, acl.principal))


async def _delete(asked: PageAsked) -> str:
    acl = acl_of_form(asked.fields)
    await asked.admin.delete_acls([acl_filter(acl)])
    return address_of("/acls", principal=acl.principal)


ACL_CHANGES: Final = (
    ConsoleChange("/create-acl", "Add an ACL", ACL_FIELDS, _plan_create, _create),
    ConsoleChange("/delete-acl", "Remove an ACL", ACL_FIELDS, _plan_delete, _delete),
)
