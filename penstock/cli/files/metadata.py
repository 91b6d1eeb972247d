"""`penstock metadata dump|digest PATH`: shows the cluster's metadata as the files of a node have it.

The server's own code reads the files, in another process (`tool_process.py`); they may be those of a running node.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.files.tool_process import ToolProcess
from penstock.cli.options import AsJson
from penstock.cli.output import note, print_json, print_table

EXIT_DIFFERENT = 1

app = typer.Typer(help="Show the cluster's metadata as a node's files have it.", no_args_is_help=True)

At = Annotated[
    int | None,
    typer.Option(
        "--at",
        metavar="OFFSET",
        min=0,
        help="As it stood at this offset of the metadata log. Without it, at the end of the log, where records may not"
        " be committed.",
    ),
]


@app.command()
def dump(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A node's metadata log dir, like data.")],
    at: At = None,
    as_json: AsJson = False,
) -> None:
    """Print the records that make the metadata, one JSON object a line; then its offset and digest. Changes nothing."""
    with ToolProcess("metadata-dump", {"path": str(path), "at": at}) as process:
        if as_json:
            process.pass_on()
        else:
            for row in process.rows():
                if row["type"] == "record":
                    print(json.dumps(row["record"], ensure_ascii=False))
                else:
                    note(f"{row['records']} records at offset {row['offset']}, epoch {row['epoch']}: {row['sha256']}")
    if process.exit_code:
        raise typer.Exit(process.exit_code)


@app.command()
def digest(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Metadata log dirs of one or more nodes.")],
    at: At = None,
    as_json: AsJson = False,
) -> None:
    """Print a digest of the metadata; equal at equal offsets on all nodes. Changes nothing.

    Of several nodes, without --at: where the shortest of their logs ends. Exit codes: 0 all are equal, 1 they differ.
    """
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


def _digests(paths: Sequence[Path], at: int | None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for path in paths:
        with ToolProcess("metadata-digest", {"path": str(path), "at": at}) as process:
            rows += process.rows()
        if process.exit_code:
            raise typer.Exit(process.exit_code)
    return rows
