"""`penstock quotas alter|list|delete`: how much of each broker users, clients and addresses may have (KIP-546)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.edge.asking import DryRun
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from penstock.cli.output import print_json, print_table, say
from penstock.cli.patience.watch import patient_admin
from penstock.errors import ConfigError, ResourceNotFoundError
from penstock.messages.security.quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    DEFAULT_NAME,
    ENTITY_TYPES,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaEntity,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock import Admin

app = typer.Typer(
    help="Quotas: how much of each broker a user, a client or an address may have. Who takes more waits.",
    no_args_is_help=True,
)

RATE_MAX = 2**53
"""The largest rate: above it a number of the metadata is not exact."""
EVERY = "*"
User = Annotated[
    str | None,
    typer.Option("--user", metavar="NAME", help="Of this user; '*': of each user without a quota of its own."),
]
Client = Annotated[
    str | None,
    typer.Option(
        "--client-id", metavar="NAME", help="Of this client.id; '*': of each client.id without a quota of its own."
    ),
]
Produce = Annotated[
    int | None,
    typer.Option("--producer-byte-rate", min=1, max=RATE_MAX, help="Bytes a second of produce requests."),
]
Consume = Annotated[
    int | None,
    typer.Option("--consumer-byte-rate", min=1, max=RATE_MAX, help="Bytes a second of answers to fetches."),
]
Address = Annotated[
    str | None,
    typer.Option("--ip", metavar="ADDRESS", help="Of this IP address; '*': of each without a quota of its own."),
]
Connections = Annotated[
    int | None,
    typer.Option(
        "--connection-creation-rate", min=1, max=RATE_MAX, help="New connections a second of an address (--ip)."
    ),
]
Percent = Annotated[
    float | None,
    typer.Option("--request-percentage", min=0.01, max=10_000, help="Percent of a broker's time, which is 100."),
]
Changes = Annotated[
    float | None,
    typer.Option(
        "--controller-mutation-rate", min=0.001, max=1_000_000, help="Partitions a second that it makes and deletes."
    ),
]


@app.command("alter")
def set_quotas(
    user: User = None,
    client_id: Client = None,
    ip: Address = None,
    producer_byte_rate: Produce = None,
    consumer_byte_rate: Consume = None,
    request_percentage: Percent = None,
    controller_mutation_rate: Changes = None,
    connection_creation_rate: Connections = None,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Set quotas of a user, a client, a user's client, or an address. Quotas that are not named stay as they are.

    A quota is that of each broker. The nearest one counts: that of a user and a client before that of a user, and that
    before the client's.
    """
    entity = _entity(user, client_id, ip)
    named = {
        PRODUCER_BYTE_RATE: producer_byte_rate,
        CONSUMER_BYTE_RATE: consumer_byte_rate,
        REQUEST_PERCENTAGE: request_percentage,
        CONTROLLER_MUTATION_RATE: controller_mutation_rate,
        CONNECTION_CREATION_RATE: connection_creation_rate,
    }
    values = {key: value for key, value in named.items() if value is not None}
    if not values:
        raise ConfigError("give one of " + ", ".join(f"--{key.replace('_', '-')}" for key in named))
    if not dry_run:
        with patient_admin(bootstrap) as admin:
            _alter(admin, entity, values)
    _tell(entity, "set", as_json, dry_run)


@app.command("list")
def list_quotas(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Show all quotas. '*' stands for each user, client or address without a quota of its own."""
    with patient_admin(bootstrap) as admin:
        found = admin.describe_client_quotas()
    if as_json:
        print_json([{**_named(entity), "quotas": values} for entity, values in found.items()])
        return
    rows = [
        (*(named.get(kind, "") for kind in ENTITY_TYPES), key, f"{value:g}" if value % 1 else f"{value:.0f}")
        for entity, values in found.items()
        for named in (_named(entity),)
        for key, value in values.items()
    ]
    print_table([*ENTITY_TYPES, "quota", "value"], rows)


@app.command("delete")
def remove(
    user: User = None,
    client_id: Client = None,
    ip: Address = None,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Delete all quotas of a user, a client, a user's client, or an address.

    The next nearest ones count for it from then on.
    """
    entity = _entity(user, client_id, ip)
    with patient_admin(bootstrap) as admin:
        found = admin.describe_client_quotas()
        if entity not in found:
            raise ResourceNotFoundError(f"there are no quotas of {entity}; `penstock quotas list` shows all")
        if not dry_run:
            _alter(admin, entity, dict.fromkeys(found[entity]))
    _tell(entity, "removed", as_json, dry_run)


def _entity(user: str | None, client_id: str | None, ip: str | None) -> QuotaEntity:
    if user is None and client_id is None and ip is None:
        raise ConfigError("give --user, --client-id, or both, or --ip")
    if ip is not None and (user is not None or client_id is not None):
        raise ConfigError("a quota of an address is of nobody else: give --ip alone")
    for option, name in (("--user", user), ("--client-id", client_id), ("--ip", ip)):
        if name == "":
            raise ConfigError(f"{option} is empty; '{EVERY}' is each without a quota of its own")
    return QuotaEntity(_name(user), _name(client_id), _name(ip))


def _name(given: str | None) -> str | None:
    return DEFAULT_NAME if given == EVERY else given


def _named(entity: QuotaEntity) -> dict[str, str]:
    return {kind: name or EVERY for kind, name in entity.parts}


def _alter(admin: Admin, entity: QuotaEntity, values: Mapping[str, float | None]) -> None:
    for error in admin.alter_client_quotas({entity: values}).values():
        if error is not None:
            raise error


def _tell(entity: QuotaEntity, done: str, as_json: bool, dry_run: bool) -> None:
    if as_json:
        dry = {"dry_run": True} if dry_run else {}
        print_json({**_named(entity), done: not dry_run, **dry})
    else:
        say(f"would have {done} the quotas of {entity}" if dry_run else f"{done} the quotas of {entity}")


app.command("set", hidden=True)(set_quotas)
app.command("remove", hidden=True)(remove)
