"""The `penstock` command: puts the sub-commands together and turns errors into exit codes.

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration (each one line on stderr), 130 Ctrl-C; the codes of
`penstock log` are in the help of its sub-commands. With --json that line is {"error": {"name": …, "message": …,
"exit_code": …}}; the error of a broker has "code" and "retriable", too. When the reader of a pipe ends (`penstock
consume … | head`), the command ends without a message, like other tools. Every sub-command imports what it needs when
it runs, so that `penstock --help` does not load gRPC. No module here imports a server package.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import signal
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, NoReturn

import typer

from penstock.cli import (
    brokers,
    cluster,
    configs,
    consume,
    dev,
    elect_leaders,
    log_dirs,
    node,
    pipeline,
    produce,
    topics,
)
from penstock.cli.bench import command as bench
from penstock.cli.demo import command as demo
from penstock.cli.files import log, metadata
from penstock.cli.moves import balance, reassignments
from penstock.cli.usage import EXIT_USAGE, UsageError, fail_usage, usage_message
from penstock.errors import ApiError, ConfigError, MetaPropertiesError, PenstockError

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130

app = typer.Typer(
    help="Penstock: a replicated, durable log.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(topics.app, name="topics")
app.add_typer(reassignments.app, name="reassignments")
app.add_typer(log_dirs.app, name="log-dirs")
app.add_typer(configs.app, name="configs")
app.add_typer(cluster.cluster_app, name="cluster")
cluster.cluster_app.command("balance")(balance.balance)
app.add_typer(brokers.app, name="brokers")
app.add_typer(cluster.quorum_app, name="quorum")
app.add_typer(node.app, name="node")
app.add_typer(log.app, name="log")
app.add_typer(metadata.app, name="metadata")
app.add_typer(bench.app, name="bench")
app.add_typer(pipeline.app, name="pipeline")
app.command("dev")(dev.dev)
app.command("demo")(demo.demo)
app.command("produce")(produce.produce)
app.command("consume")(consume.consume)
app.command("elect-leaders")(elect_leaders.elect_leaders)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(importlib.metadata.version("penstock"))
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Penstock: a replicated, durable log."""


def main() -> None:
    """The entry point of the console script."""
    with contextlib.suppress(AttributeError, ValueError):  # not on every platform; not outside the main thread
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        code = app(standalone_mode=False)  # else typer prints usage errors itself, on several lines
    except UsageError as error:
        if not _wants_json():
            fail_usage("penstock", error)
        _fail_json("Usage", usage_message("penstock", error), EXIT_USAGE)
    except typer.Abort:  # a question was not answered with yes
        _fail(PenstockError("not confirmed; nothing was changed"), EXIT_FAILED)
    except (ConfigError, MetaPropertiesError) as error:
        _fail(error, EXIT_USAGE)
    except PenstockError as error:
        _fail(error, EXIT_FAILED)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    sys.exit(code)


def _wants_json() -> bool:
    """Whether `--json` is among the options; what follows `--` is none."""
    arguments = sys.argv[1:]
    return "--json" in arguments[: arguments.index("--") if "--" in arguments else None]


def _fail(error: PenstockError, exit_code: int) -> NoReturn:
    """One line: the error, then the notes that a command added with `add_note`."""
    text = "; ".join([str(error).rstrip(), *getattr(error, "__notes__", [])])
    name = error.kafka_name if isinstance(error, ApiError) else type(error).__name__
    if _wants_json():
        of_broker = {"code": error.code, "retriable": error.retriable} if isinstance(error, ApiError) else {}
        _fail_json(name, text, exit_code, of_broker)
    is_named = type(error) not in (PenstockError, ConfigError, MetaPropertiesError)
    sys.stderr.write(f"penstock: {f'{name}: ' if is_named else ''}{text}\n")
    sys.exit(exit_code)


def _fail_json(name: str, text: str, exit_code: int, more: Mapping[str, object] = MappingProxyType({})) -> NoReturn:
    error = {"name": name, "message": text, "exit_code": exit_code, **more}
    sys.stderr.write(json.dumps({"error": error}, ensure_ascii=False) + "\n")
    sys.exit(exit_code)
