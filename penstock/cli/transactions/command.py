"""`penstock transactions list|describe|abort|find-hanging`: transactions as an administrator sees them (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.edge.asking import DryRun
from penstock.cli.edge.places import parse_partition, parse_places, partitions_of
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from penstock.cli.output import count, note, print_fields, print_json, print_rows, print_table, say, when
from penstock.cli.patience.watch import patient_admin
from penstock.errors import ConfigError
from penstock.messages.transactions.atomic_batches import application_of_writer
from penstock.messages.transactions.listing import TransactionState
from penstock.written.numbers import INT64_MAX

if TYPE_CHECKING:
    from penstock.client.admin.transactions.transaction_types import HangingTransaction, TransactionDetails
    from penstock.types import TopicPartition

app = typer.Typer(
    help="List and describe transactions, abort one, find those that hold up readers.", no_args_is_help=True
)
NOTHING = "-"
MINUTE_MS = 60_000

Ids = Annotated[list[str], typer.Argument(metavar="TRANSACTIONAL_ID...", help="The transactional ids.")]
Places = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="TOPIC[:P,…]",
        help="A topic, or only these partitions of it: orders:0,2. May be repeated. Every topic, if none is given.",
    ),
]


@app.command("list")
def list_transactions(
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            metavar="STATE",
            help="Only ids in this state: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit or CompleteAbort."
            " May be repeated.",
        ),
    ] = None,
    open_for: Annotated[
        int | None,
        typer.Option(
            "--open-for", metavar="MINUTES", min=0, max=INT64_MAX // MINUTE_MS, help="Only what is open longer."
        ),
    ] = None,
    pattern: Annotated[
        str, typer.Option("--pattern", metavar="RE2", help="Only ids that this regular expression matches whole.")
    ] = "",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """List the transactional ids of all coordinators."""
    from penstock.client.cluster.arguments import checked_words

    states = checked_words("--state", state or (), [state.value for state in TransactionState])
    with patient_admin(bootstrap) as admin:
        open_for_ms = None if open_for is None else open_for * MINUTE_MS
        found = admin.list_transactions(states=states, open_for_ms=open_for_ms, pattern=pattern)
    if as_json:
        print_json(
            [
                {
                    "transactional_id": one.transactional_id,
                    "state": one.state,
                    "producer_id": one.producer_id,
                    "coordinator_id": one.coordinator_id,
                }
                for one in found
            ]
        )
    else:
        rows = [(one.transactional_id, one.state, one.producer_id, one.coordinator_id) for one in found]
        print_table(["transactional_id", "state", "producer_id", "coordinator"], rows)


@app.command()
def describe(ids: Ids, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Show the state of transactional ids, and the partitions that their open transactions have written to."""
    with patient_admin(bootstrap) as admin:
        found = admin.describe_transactions(ids)
    failed = {name: one.error for name, one in found.items() if one.error is not None}
    if len(found) == 1 and failed:
        raise failed.popitem()[1]
    if as_json:
        print_json([_details_json(one) for one in found.values()])
    else:
        for number, one in enumerate(one for one in found.values() if one.error is None):
            if number:
                say()
            _show(one)
        for name, error in failed.items():
            note(f"{name}: {error}")
    if failed:
        raise typer.Exit(1)


@app.command()
def abort(
    transactional_id: Annotated[str, typer.Argument(metavar="[TRANSACTIONAL_ID]", help="The transactional id.")] = "",
    partition: Annotated[
        str, typer.Option("--partition", metavar="TOPIC:P", help="The partition of a transaction that hangs.")
    ] = "",
    start_offset: Annotated[
        int | None,
        typer.Option(
            "--start-offset", metavar="N", min=0, max=INT64_MAX, help="Its first offset, as find-hanging shows it."
        ),
    ] = None,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Abort the open transaction of a transactional id, and fence its producer; or one that hangs in a partition.

    A transaction that was decided is never undone. For a writer of an atomic batch (penstock.batch:APPLICATION#ID) the
    whole open version is aborted. With --partition the transaction must have no coordinator any more: it is aborted in
    this partition alone.
    """
    place = parse_partition(partition) if partition else None
    if partition and place is None:
        raise ConfigError(f"--partition {partition}: must be one partition, like orders:0")
    if bool(transactional_id) == bool(place) or (start_offset is None) == bool(place):
        raise ConfigError("give a transactional id, or --partition TOPIC:P and --start-offset N")
    if dry_run:
        _show_what_is_open(bootstrap, transactional_id, place, as_json)
        return
    with patient_admin(bootstrap) as admin:
        if place is None:
            admin.fence_producer(transactional_id)
            shown: dict[str, Any] = {"transactional_id": transactional_id, "fenced": True}
            text = f"{transactional_id} has no open transaction any more, and its producer is fenced"
            if (application := application_of_writer(transactional_id)) is not None:
                text = f"no writer of application {application} has an open transaction any more"
        else:
            one = admin.abort_hanging_transaction(place, start_offset or 0)
            shown = _hanging_json(one)
            text = f"aborted the transaction of producer id {one.producer_id} in {place} from offset {one.start_offset}"
    if as_json:
        print_json(shown)
    else:
        say(text)


def _show_what_is_open(bootstrap: str, transactional_id: str, place: TopicPartition | None, as_json: bool) -> None:
    """The transaction that an abort would end; of a partition its producers with open transactions."""
    if place is None:
        describe([transactional_id], bootstrap, as_json)
        return
    with patient_admin(bootstrap) as admin:
        known = admin.describe_producers([place])[place]
    rows = [(*place, one.transaction_start_offset, one.producer_id, one.producer_epoch) for one in known]
    print_rows(
        ("topic", "partition", "start_offset", "producer_id", "epoch"),
        [row for row in rows if row[2] is not None],
        as_json,
    )


@app.command("find-hanging")
def find_hanging(
    topic: Places = None,
    older_than: Annotated[
        int,
        typer.Option(
            "--older-than",
            metavar="MINUTES",
            min=0,
            max=INT64_MAX // MINUTE_MS,
            help="Only those with nothing new for so long; more than transaction.max.timeout.ms.",
        ),
    ] = 15,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Find transactions that no coordinator will end: readers of committed records wait at their first offset.

    Exit code 1 if there are any. `penstock transactions abort --partition TOPIC:P --start-offset N` ends one.
    """
    with patient_admin(bootstrap) as admin:
        partitions = partitions_of(admin, parse_places(topic or admin.list_topics(), "--topic"))
        found = admin.find_hanging_transactions(partitions, older_than_ms=older_than * MINUTE_MS)
    if as_json:
        print_json([_hanging_json(one) for one in found])
    else:
        rows = [
            (
                one.partition.topic,
                one.partition.partition,
                count(one.start_offset),
                one.producer_id,
                one.producer_epoch,
                when(one.last_append_ms).text,
                one.transactional_id or NOTHING,
            )
            for one in found
        ]
        print_table(
            ["topic", "partition", "start_offset", "producer_id", "epoch", "last_append", "transactional_id"], rows
        )
    if found:
        raise typer.Exit(1)


def _show(one: TransactionDetails) -> None:
    print_fields(
        {
            "transactional_id": one.transactional_id,
            "state": one.state,
            "producer_id": one.producer_id,
            "producer_epoch": one.producer_epoch,
            "timeout_ms": count(one.timeout_ms),
            "open_since": NOTHING if one.start_ms < 0 else when(one.start_ms).text,
            "partitions": ",".join(map(str, one.partitions)) or NOTHING,
            "coordinator": one.coordinator_id,
        }
    )


def _details_json(one: TransactionDetails) -> dict[str, Any]:
    if one.error is not None:
        error = {"name": one.error.kafka_name, "message": str(one.error)}
        return {"transactional_id": one.transactional_id, "error": error}
    return {
        "transactional_id": one.transactional_id,
        "error": None,
        "state": one.state,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "timeout_ms": one.timeout_ms,
        "start_ms": None if one.start_ms < 0 else one.start_ms,
        "partitions": [{"topic": tp.topic, "partition": tp.partition} for tp in one.partitions],
        "coordinator_id": one.coordinator_id,
    }


def _hanging_json(one: HangingTransaction) -> dict[str, Any]:
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "start_offset": one.start_offset,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "coordinator_epoch": one.coordinator_epoch,
        "last_append_ms": one.last_append_ms,
        "transactional_id": one.transactional_id,
    }
