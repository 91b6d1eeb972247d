"""`penstock demo`: the whole way of a record, from a text through three nodes that crash and come back, to Parquet."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.options import AsJson

MAX_MB_DEFAULT = 64
"""Holds a whole Python installation, and keeps the run below three minutes on two cores."""
MB = 1_000_000


def demo(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PATH]",
            help="A text file, or a directory of them; without it every source file of the Python installation.",
            show_default=False,
        ),
    ] = None,
    nodes: Annotated[int, typer.Option(min=3, max=9, help="Nodes of the demo's own cluster.")] = 3,
    max_mb: Annotated[
        int, typer.Option(min=0, metavar="MB", help="Stream so much of the text at most; 0: all of it.")
    ] = MAX_MB_DEFAULT,
    spark: Annotated[bool, typer.Option("--spark/--no-spark", help="Run the Spark pipeline over the topic.")] = True,
    as_json: AsJson = False,
) -> None:
    """Show that nothing is lost: stream a text, kill a leader and the controller meanwhile, read all of it back."""
    from penstock.cli.demo.job import DemoOptions, run_demo

    for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT, too: a shell's background job has it ignored
        signal.signal(number, _end)
    raise typer.Exit(run_demo(DemoOptions(path, nodes, max_mb * MB, spark, as_json)))


def _end(*_: Any) -> None:
    """Like Ctrl-C: nodes and temporary directories go with us."""
    raise KeyboardInterrupt
