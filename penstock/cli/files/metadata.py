"""`penstock metadata dump|digest`: shows the cluster's metadata as the files of its nodes have it.

With PATH the server's own code reads the files, in another process (`tool_process.py`); they may be those of a running
node. Without it, the brokers of a running cluster are asked for what their own files have.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.files.tool_process import ToolProcess
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from penstock.cli.output import note, print_json, print_table
from penstock.cli.patience.watch import patient_admin
from penstock.errors import ConfigError
from penstock.written.numbers import INT32_MAX, INT64_MAX

EXIT_DIFFERENT = 1

app = typer.Typer(help="Show the cluster's metadata as the nodes' files have it.", no_args_is_help=True)

At = Annotated[
    int | None,
    typer.Option(
        "--at",
        metavar="OFFSET",
        min=0,
        max=INT64_MAX,
        help="As it stood at this offset of the metadata log. Without it: of a directory, at the end of the log, where"
        " records may not be committed; of a cluster, at the newest offset that the brokers asked have applied.",
    ),
]


@app.command()
def dump(
    context: typer.Context,
    path: Annotated[
        Path | None, typer.Argument(metavar="PATH", help="A node's metadata log dir, like data; else --bootstrap.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    node: Annotated[
        int | None,
        typer.Option("--node", metavar="ID", min=0, max=INT32_MAX, help="Of a cluster: this broker's; else any one's."),
    ] = None,
    at: At = None,
    as_json: AsJson = False,
) -> None:
    """Print the records that make the metadata, one JSON object a line; then its offset and digest. Changes nothing.

    With PATH by the files there; otherwise by those of a broker of the running cluster.
    """
    if path is None:
        _dump_of_broker(bootstrap, at, node, as_json)
        return
    _check_one_source(context)
    if node is not None:
        raise ConfigError("--node is of a running cluster; leave out PATH or --node")
    with ToolProcess("metadata-dump", {"path": str(path), "at": at}) as process:
        if as_json:
            process.pass_on()
        else:
            for row in process.rows():
                if row["type"] == "record":
                    print_json(row["record"], flush=False)
                else:
                    _note_digest(row)
    if process.exit_code:
        raise typer.Exit(process.exit_code)


def _dump_of_broker(bootstrap: str, at: int | None, node: int | None, as_json: bool) -> None:
    with patient_admin(bootstrap) as admin:
        content = admin.describe_metadata(at, node)
    found = {key: value for key, value in dataclasses.asdict(content.digest).items() if key != "error"}
    for text in content.records:
        record = json.loads(text)
        print_json({"type": "record", "record": record} if as_json else record, flush=False)
    if as_json:
        print_json({"type": "digest", **found})
    else:
        _note_digest(found)


def _note_digest(row: dict[str, Any]) -> None:
    note(f"{row['records']} records at offset {row['offset']}, epoch {row['epoch']}: {row['sha256']}")


@app.command()
def digest(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH", help="Metadata log dirs of one or more nodes; else --bootstrap."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    at: At = None,
    as_json: AsJson = False,
) -> None:
    """Print a digest of the metadata; equal at equal offsets on all nodes. Changes nothing.

    With PATHs by the files there; of several, without --at, where the shortest of their logs ends. Otherwise every
    registered broker of the running cluster is asked; without --at, for the newest offset that all who answer have
    applied.

    Exit codes: 0 all are equal, 1 they differ, or a broker did not tell its digest.
    """
    if not paths:
        _digests_of_brokers(bootstrap, at, as_json)
        return
    _check_one_source(context)
    if at is None and len(paths) > 1:
        at = min(row["offset"] for row in _digests(paths, None))
    rows = _digests(paths, at)
    if as_json:
        print_json(rows)
    else:
        print_table(
            ["directory", "offset", "epoch", "records", "sha256"],
            [(row["directory"], row["offset"], row["epoch"], row["records"], row["sha256"]) for row in rows],
        )
    if len({row["sha256"] for row in rows}) > 1:
        note("they differ: one of these nodes has other metadata, or records at the end of its log are not committed")
        raise typer.Exit(EXIT_DIFFERENT)


def _digests_of_brokers(bootstrap: str, at: int | None, as_json: bool) -> None:
    with patient_admin(bootstrap) as admin:
        rows = admin.metadata_digests(at)
    if as_json:
        print_json([dataclasses.asdict(row) for row in rows])
    else:
        cells = [
            (row.node_id, row.offset, "-", "-", f"error: {row.error}")
            if row.error
            else (row.node_id, row.offset, row.epoch, row.records, row.sha256)
            for row in rows
        ]
        print_table(["node", "offset", "epoch", "records", "sha256"], cells)
    digests = {row.sha256 for row in rows if not row.error}
    if len(digests) > 1:
        note("they differ: the files of one of these brokers hold other metadata; keep them, and stop that node")
    if len(digests) > 1 or any(row.error for row in rows):
        raise typer.Exit(EXIT_DIFFERENT)


def _check_one_source(context: typer.Context) -> None:
    """A bootstrap address of the environment means nothing where a PATH is given."""
    source = context.get_parameter_source("bootstrap")
    if source is not None and source.name == "COMMANDLINE":
        raise ConfigError("PATH and --bootstrap are two places to look; give one of them")


def _digests(paths: Sequence[Path], at: int | None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for path in paths:
        with ToolProcess("metadata-digest", {"path": str(path), "at": at}) as process:
            rows += process.rows()
        if process.exit_code:
            raise typer.Exit(process.exit_code)
    return rows
