"""`penstock log dump|verify|recover PATH`: into the files of a stopped node, or of a copy.

Storage's own code does the work, in a process of its own (`log_process.py`), as the server packages are not on this
one's path; it answers with lines of JSON, which are passed on or made readable (`log_text.py`). Not here: any look at a
file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.log_process import ToolProcess
from penstock.cli.log_text import DumpText, RecoveryText, VerifyText
from penstock.cli.options import AsJson
from penstock.errors import ConfigError

app = typer.Typer(help="Look into the log files of a stopped node, check and recover them.", no_args_is_help=True)

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
    index: Annotated[bool, typer.Option("--index", help="Print the entries of both indexes.")] = False,
    epochs: Annotated[bool, typer.Option("--epochs", help="Print the leader epochs and where they begin.")] = False,
    checkpoints: Annotated[bool, typer.Option("--checkpoints", help="Print the log dir's checkpoints.")] = False,
    from_offset: Annotated[int, typer.Option(metavar="OFFSET", min=0, help="Leave out what is before.")] = 0,
    count: Annotated[int, typer.Option("-n", "--count", min=0, help="Stop after so many rows; 0: never.")] = 0,
    max_bytes: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Cut keys, values and headers to N bytes.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print what the files hold: record batches, unless something else is asked for. Reads only.

    Exit code 1 when something could not be read.
    """
    wanted = {"records": records, "index": index, "epochs": epochs, "checkpoints": checkpoints}
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
    """Check everything: checksums, offsets, epochs, indexes, checkpoints, leftovers. Reads only.

    Exit codes: 0 sound, 1 damage, 2 no such directory, 3 no damage, but a start has something to tidy, cut or rebuild.
    """
    _run("log-verify", path, {"deep": deep}, None if as_json else VerifyText(path))


@app.command()
def recover(
    path: Target,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done; touch nothing.")] = False,
    rebuild_indexes: Annotated[bool, typer.Option("--rebuild-indexes", help="Build every index anew.")] = False,
    truncate: Annotated[
        bool,
        typer.Option(
            "--truncate-at-damage",
            help="LOSES RECORDS: end a damaged log before its first bad byte. Where all damage is below the log start,"
            " the log is begun behind it, and nothing is lost.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before records are lost.")] = False,
    as_json: AsJson = False,
) -> None:
    """Do what a start would do: tidy leftovers, cut torn tails, rebuild indexes. The node must be stopped.

    As at a start, what lies below a log's recovery point is not looked at; `penstock log verify` looks at everything.

    Exit codes: 0 done, 1 a log is damaged and was left alone, 2 no such directory, or a running node has it.
    """
    request: dict[str, Any] = {"dry_run": dry_run, "rebuild_indexes": rebuild_indexes}
    if truncate:
        request |= _agreed_repairs(path, ask=not (yes or dry_run), as_json=as_json)
    _run("log-recover", path, request, None if as_json else RecoveryText(path, dry_run=dry_run))


def _agreed_repairs(path: Path, *, ask: bool, as_json: bool) -> dict[str, dict[str, int]]:
    """Directory and offset of every log that is to end, or begin, there; the person has seen what that costs."""
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
            raise ConfigError("--truncate-at-damage loses records; say --yes where nobody can be asked")
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
