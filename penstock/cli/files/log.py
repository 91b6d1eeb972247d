"""`penstock log dump|verify|recover PATH`: reads, checks and recovers the files of a stopped node, or a copy of them.

Storage's own code does the work, in another process (`tool_process.py`), because the server packages are not on this
process's path. That process writes lines of JSON, which are passed on or made readable (`log_text.py`). This module
reads no log file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.files.log_text import DumpText, RecoveryText, VerifyText
from penstock.cli.files.tool_process import ToolProcess
from penstock.cli.options import AsJson
from penstock.errors import ConfigError
from penstock.written.numbers import INT64_MAX

app = typer.Typer(help="Show, check and recover the log files of a stopped node.", no_args_is_help=True)

Target = Annotated[
    Path, typer.Argument(metavar="PATH", help="A partition's directory, like data/orders-0, or a log dir, like data.")
]
TargetOrFile = Annotated[
    Path, typer.Argument(metavar="PATH", help="A partition's directory, a log dir, or one file in them.")
]


@app.command()
def dump(
    path: TargetOrFile,
    records: Annotated[bool, typer.Option("--records", help="Print records instead of batches.")] = False,
    index: Annotated[bool, typer.Option("--index", help="Print the entries of the indexes.")] = False,
    epochs: Annotated[bool, typer.Option("--epochs", help="Print the leader epochs and where they begin.")] = False,
    producers: Annotated[
        bool,
        typer.Option("--producers", help="Print the snapshots of producers: open transactions, last batches."),
    ] = False,
    checkpoints: Annotated[bool, typer.Option("--checkpoints", help="Print the log dir's checkpoints.")] = False,
    from_offset: Annotated[int, typer.Option(metavar="OFFSET", min=0, max=INT64_MAX, help="Begin at this offset.")] = 0,
    count: Annotated[
        int, typer.Option("-n", "--count", min=0, max=INT64_MAX, help="Stop after this many rows; 0: never.")
    ] = 0,
    max_bytes: Annotated[
        int | None, typer.Option(metavar="N", min=0, max=INT64_MAX, help="Cut keys, values and headers to N bytes.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print what the files hold: record batches, unless an option chooses something else. Changes nothing.

    Exit codes: 0 done, 1 a part of the files could not be read.
    """
    wanted = {"records": records, "index": index, "epochs": epochs, "producers": producers}
    wanted |= {"checkpoints": checkpoints}
    chosen = [name for name, is_chosen in wanted.items() if is_chosen]
    if len(chosen) > 1:
        raise ConfigError(f"--{' and --'.join(chosen)} exclude each other; give one")
    what = chosen[0] if chosen else "batches"
    request = {"what": what, "from_offset": from_offset, "count": count, "max_bytes": max_bytes}
    _run("log-dump", path, request, None if as_json else DumpText(path))


@app.command()
def verify(
    path: Target,
    deep: Annotated[bool, typer.Option("--deep", help="Decompress and decode every record as well.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check everything: checksums, offsets, epochs, indexes, checkpoints, leftovers. Changes nothing.

    Exit codes: 0 sound; 1 damage; 2 no such directory; 3 no damage, but the next start will tidy, cut or rebuild
    something.
    """
    _run("log-verify", path, {"deep": deep}, None if as_json else VerifyText(path))


@app.command()
def recover(
    path: Target,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done; change nothing.")] = False,
    rebuild_indexes: Annotated[bool, typer.Option("--rebuild-indexes", help="Build every index anew.")] = False,
    truncate: Annotated[
        bool,
        typer.Option(
            "--truncate-at-damage",
            help="LOSES RECORDS: cut a damaged log before its first bad byte. If all damage is below the log start,"
            " the log begins behind the damage instead, and nothing is lost.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before records are lost.")] = False,
    as_json: AsJson = False,
) -> None:
    """Do what a start would do: tidy leftovers, cut torn tails, rebuild indexes. The node must be stopped.

    Like a start, this does not read below a log's recovery point; `penstock log verify` reads everything.

    Exit codes: 0 done; 1 a log is damaged and was not changed; 2 no such directory, or a running node uses it.
    """
    request: dict[str, Any] = {"dry_run": dry_run, "rebuild_indexes": rebuild_indexes}
    if truncate:
        request |= _agreed_repairs(path, ask=not (yes or dry_run), as_json=as_json)
    _run("log-recover", path, request, None if as_json else RecoveryText(path, dry_run=dry_run))


def _agreed_repairs(path: Path, *, ask: bool, as_json: bool) -> dict[str, dict[str, int]]:
    """The repairs by directory: the offset where each damaged log is to end or begin. The user has agreed to the
    loss."""
    text = RecoveryText(path, dry_run=True)
    found: dict[str, dict[str, int]] = {"truncate_at": {}, "start_at": {}}
    with ToolProcess("log-recover", {"path": str(path), "plan_truncation": True}) as process:
        for row in process.rows():
            found["start_at" if row["type"] == "restart" else "truncate_at"][row["directory"]] = row["offset"]
            if as_json:
                sys.stdout.buffer.write(process.last_line)
            else:
                text.row(row)
    if process.exit_code:
        raise typer.Exit(process.exit_code)
    if found["truncate_at"] and ask:
        if not sys.stdin.isatty():
            raise ConfigError("--truncate-at-damage loses records; stdin is no terminal to ask on: add --yes to agree")
        typer.confirm("Lose these records?", abort=True, err=True)
    return found


def _run(action: str, path: Path, request: dict[str, Any], text: DumpText | VerifyText | RecoveryText | None) -> None:
    with ToolProcess(action, {"path": str(path), **request}) as process:
        if text is None:
            process.pass_on()
        else:
            for row in process.rows():
                with process.bar_hidden():
                    text.row(row)
    if process.exit_code:
        raise typer.Exit(process.exit_code)
