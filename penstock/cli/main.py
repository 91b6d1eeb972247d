"""The `penstock` command: puts the sub-commands together and turns errors into exit codes.

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration (each one line on stderr), 130 Ctrl-C; the codes of
`penstock log` are in the help of its sub-commands. When the reader of a pipe ends (`penstock consume … | head`), the
command ends without a message, like other tools. Every sub-command imports what it needs when it runs, so that
`penstock --help` does not load gRPC. No module here imports a server package.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import signal
import sys
from typing import Annotated

import typer

from penstock.cli import bench, cluster, configs, consume, dev, log, node, produce, topics
from penstock.cli.demo import command as demo
from penstock.cli.usage import EXIT_USAGE, UsageError, fail_usage
from penstock.errors import ApiError, ConfigError, MetaPropertiesError, PenstockError

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130

app = typer.Typer(
    help="Penstock: a replicated, durable log.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(topics.app, name="topics")
app.add_typer(configs.app, name="configs")
app.add_typer(cluster.cluster_app, name="cluster")
app.add_typer(cluster.quorum_app, name="quorum")
app.add_typer(node.app, name="node")
app.add_typer(log.app, name="log")
app.add_typer(bench.app, name="bench")
app.command("dev")(dev.dev)
app.command("demo")(demo.demo)
app.command("produce")(produce.produce)
app.command("consume")(consume.consume)


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
        fail_usage("penstock", error)
    except typer.Abort:  # a question was not answered with yes
        sys.stderr.write("penstock: not confirmed; nothing was changed\n")
        sys.exit(EXIT_FAILED)
    except (ConfigError, MetaPropertiesError) as error:
        _fail("", error, EXIT_USAGE)
    except ApiError as error:
        _fail(f"{error.kafka_name}: ", error, EXIT_FAILED)
    except PenstockError as error:
        _fail("" if type(error) is PenstockError else f"{type(error).__name__}: ", error, EXIT_FAILED)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    sys.exit(code)


def _fail(name: str, error: PenstockError, code: int) -> None:
    """One line: the error, then the notes that a command added with `add_note`."""
    text = "; ".join([str(error).rstrip(), *getattr(error, "__notes__", [])])
    sys.stderr.write(f"penstock: {name}{text}\n")
    sys.exit(code)
