"""`penstock acls create|list|delete|roles|test`: access control lists (KIP-11, KIP-290). `add` and `remove` are hidden
words of earlier releases.

Each ACL names a principal, an operation, a resource and a host; a command makes or removes one for every pair of an
operation and a resource that it names. A role stands for the operations that a kind of program needs. Not here: what
the words of a command mean (acl_words.py), the roles (penstock/client/admin/security/roles.py), and the judgement of
`test` (penstock/client/admin/security/acls.py).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.edge.asking import DryRun, Yes, agree
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from penstock.cli.output import print_json, print_table, say
from penstock.cli.patience.watch import patient_admin
from penstock.cli.security.acl_words import NamedResources, operations_of, roles_of
from penstock.errors import ConfigError
from penstock.messages.security.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    AclFilter,
    PatternType,
    ResourceType,
)

if TYPE_CHECKING:
    from penstock import Admin
    from penstock.client.admin.security.roles import RoleRight

app = typer.Typer(help="Who may do what: create, show, delete and try ACLs.", no_args_is_help=True)

COLUMNS: Final = ("principal", "permission", "operation", "resource", "pattern", "name", "host")
Principal = Annotated[str, typer.Argument(metavar="PRINCIPAL", help="User:NAME, or User:* for everybody.")]
Operations = Annotated[
    list[str] | None,
    typer.Option(
        "--operation", "-o", metavar="NAME", help="read, write, create, describe, …, or all; may be repeated."
    ),
]
Topics = Annotated[list[str] | None, typer.Option("--topic", metavar="NAME", help="A topic; may be repeated.")]
Groups = Annotated[list[str] | None, typer.Option("--group", metavar="ID", help="A consumer group; may be repeated.")]
TransactionalIds = Annotated[
    list[str] | None, typer.Option("--transactional-id", metavar="ID", help="A transactional id; may be repeated.")
]
OfCluster = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
Prefixed = Annotated[bool, typer.Option("--prefixed", help="The names are prefixes: of every resource that begins so.")]
Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Only from this address.")]
Deny = Annotated[bool, typer.Option("--deny", help="Deny it; that outweighs every ACL that allows it.")]
OnlyPrincipal = Annotated[
    str | None, typer.Option("--principal", metavar="PRINCIPAL", help="Only the ACLs that name this principal.")
]
Everything = Annotated[bool, typer.Option("--all", help="Every ACL of the principal.")]


def complete_role(incomplete: str) -> list[str]:
    """The roles whose names begin so, for the shell."""
    from penstock.client.admin.security.roles import ROLES

    return [name for name in ROLES if name.startswith(incomplete)]


Roles = Annotated[
    list[str] | None,
    typer.Option(
        "--role",
        metavar="ROLE",
        help="What a kind of program needs: one of `acls roles`; may be repeated.",
        autocompletion=complete_role,
    ),
]
AsProducer = Annotated[
    bool, typer.Option("--producer", help="What a producer needs, as --role producer: write, describe and create.")
]
AsConsumer = Annotated[
    bool, typer.Option("--consumer", help="As --role consumer: read and describe topics, read its group.")
]


@app.command("create")
def add(
    principal: Principal,
    operations: Operations = None,
    topics: Topics = None,
    groups: Groups = None,
    transactional_ids: TransactionalIds = None,
    cluster: OfCluster = False,
    prefixed: Prefixed = False,
    roles: Roles = None,
    producer: AsProducer = False,
    consumer: AsConsumer = False,
    host: Host = WILDCARD,
    deny: Deny = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Allow a principal to do something, or deny it: penstock acls create User:anna -o read --topic orders.

    A name of * is every resource of its kind. An ACL that there is already stays. A --role has all that its programs
    need: penstock acls create User:lake --role spark-sink --topic orders.
    """
    named = NamedResources(topics, groups, transactional_ids, cluster, prefixed)
    acls = named.acls(principal, host, deny, operations_of(operations), roles_of(roles, producer, consumer))
    if dry_run:
        _show("would be added", acls, as_json)
        return
    with patient_admin(bootstrap) as admin:
        results = admin.create_acls(acls)
    for error in results.values():
        if error is not None:
            raise error
    _show("added", acls, as_json)


@app.command("list")
def list_acls(
    principal: Annotated[
        str | None, typer.Option("--principal", metavar="NAME", help="Only of this principal.")
    ] = None,
    topics: Topics = None,
    groups: Groups = None,
    transactional_ids: TransactionalIds = None,
    cluster: OfCluster = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Show the ACLs: all, or those that concern these resources, by name, prefix or *."""
    named = NamedResources(topics, groups, transactional_ids, cluster, False).resources()
    filters = [AclFilter(kind, name, PatternType.MATCH, principal) for kind, name in named]
    with patient_admin(bootstrap) as admin:
        found: dict[AclBinding, None] = {}
        for one in filters or [AclFilter(principal=principal)]:
            found |= dict.fromkeys(admin.describe_acls(one))
    if as_json:
        print_json([dict(zip(COLUMNS, _row(acl), strict=True)) for acl in found])
    else:
        print_table(COLUMNS, [_row(acl) for acl in found])


@app.command("delete")
def remove(
    principal: Principal,
    operations: Operations = None,
    topics: Topics = None,
    groups: Groups = None,
    transactional_ids: TransactionalIds = None,
    cluster: OfCluster = False,
    prefixed: Prefixed = False,
    roles: Roles = None,
    producer: AsProducer = False,
    consumer: AsConsumer = False,
    host: Host = WILDCARD,
    deny: Deny = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Every ACL of the principal, and nothing else named.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Delete ACLs, named as for `create`; one that there is not is passed over. Or --all of a principal.

    At a terminal it shows what goes, and asks.
    """
    filters = [AclFilter(principal=principal)]
    named = NamedResources(topics, groups, transactional_ids, cluster, prefixed)
    wanted = roles_of(roles, producer, consumer)
    if everything and (operations or wanted or named.resources()):
        raise ConfigError("--all removes every ACL of the principal; name no operation and no resource beside it")
    if not everything:
        acls = named.acls(principal, host, deny, operations_of(operations), wanted)
        filters = [
            AclFilter(a.resource_type, a.resource_name, a.pattern_type, a.principal, a.host, a.operation, a.permission)
            for a in acls
        ]
    if dry_run or (sys.stdin.isatty() and not yes):
        with patient_admin(bootstrap) as admin:
            found = list(dict.fromkeys(acl for one in filters for acl in admin.describe_acls(one)))
        if dry_run:
            _show("would be removed", found, as_json)
            return
        if found:
            agree(list(map(str, found)), f"Remove these {len(found)} ACLs of {principal}?", yes=yes)
    with patient_admin(bootstrap) as admin:
        gone = admin.delete_acls(filters)
    _show("removed", gone, as_json)


@app.command("roles")
def list_roles(as_json: AsJson = False) -> None:
    """Show the roles, and the rights of each: what a kind of program needs, and nothing more."""
    from penstock.client.admin.security.roles import ROLES

    rows = [
        (role.name, right.operation.value, right.resource_type.value, right.every or _named(right), right.use)
        for role in ROLES.values()
        for right in role.rights
    ]
    columns = ("role", "operation", "resource", "name", "for")
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(columns, rows)


@app.command()
def test(
    principal: Principal,
    operation: Annotated[str, typer.Argument(metavar="OPERATION", help="read, write, describe, …")],
    topics: Topics = None,
    groups: Groups = None,
    transactional_ids: TransactionalIds = None,
    cluster: OfCluster = False,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="From this address; without it one that no ACL names.")
    ] = WILDCARD,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Try what a principal may do, and show the ACL that decides it. Exit code 1 if something is refused.

    Judged by the ACLs, super.users and allow.everyone.if.no.acl.found of one broker.
    """
    from penstock.client.admin.security.acls import judge_right

    (wanted,) = operations_of([operation])
    resources = NamedResources(topics, groups, transactional_ids, cluster, False).resources()
    if not resources:
        raise ConfigError("name a resource: --topic, --group, --transactional-id or --cluster")
    rows, refused = [], False
    with patient_admin(bootstrap) as admin:
        acls = admin.describe_acls()
        settings = _settings(admin)
    super_users = {one.strip() for one in settings.get("super.users", "").split(";")}
    everyone = settings.get("allow.everyone.if.no.acl.found") == "true"
    for kind, name in resources:
        found = judge_right(acls, principal, wanted, kind, name, host, allows_without_acls=everyone)
        is_allowed, why = found.is_allowed, str(found.because_of or "no ACL allows it")
        if principal in super_users:
            is_allowed, why = True, "super.users"
        elif is_allowed and found.because_of is None:
            why = "allow.everyone.if.no.acl.found"
        refused = refused or not is_allowed
        rows.append(("allowed" if is_allowed else "refused", kind.value, name, why))
    columns = ("answer", "resource", "name", "because of")
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(columns, rows)
    if refused:
        raise typer.Exit(1)


def _named(right: RoleRight) -> str:
    return CLUSTER_NAME if right.resource_type is ResourceType.CLUSTER else "as named"


def _settings(admin: Admin) -> dict[str, str]:
    """The keys of the authorizer, of one broker."""
    broker = next(iter(admin.describe_cluster().brokers))
    return {name: entry.value for name, entry in admin.describe_broker_config(broker.node_id).items()}


def _row(acl: AclBinding) -> tuple[object, ...]:
    return (
        acl.principal,
        acl.permission.value,
        acl.operation.value,
        acl.resource_type.value,
        acl.pattern_type.value,
        acl.resource_name,
        acl.host,
    )


def _show(done: str, acls: Sequence[AclBinding], as_json: bool) -> None:
    if as_json:
        print_json([dict(zip(COLUMNS, _row(acl), strict=True)) for acl in acls])
        return
    for acl in acls:
        say(f"{done}: {acl}")
    if not acls:
        say(f"{done}: none")


app.command("add", hidden=True)(add)
app.command("remove", hidden=True)(remove)
