"""`penstock demo`: records go from text files through three nodes, of which two crash and come back, to Parquet."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.options import AsJson

MAX_MB_DEFAULT = 64
"""Enough for a whole Python installation; the run then takes less than three minutes on two cores."""
MB = 1_000_000
MB_MAX = 1_000_000
"""A terabyte is beyond any demonstration."""
NODES_MIN = 3
"""A smaller cluster cannot lose a node and go on."""


def demo(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PATH]",
            help="A text file or a directory of text files; default: the source files of the Python installation.",
            show_default=False,
        ),
    ] = None,
    nodes: Annotated[int, typer.Option(min=NODES_MIN, max=9, help="Nodes of the demo's own cluster.")] = 3,
    max_mb: Annotated[
        int, typer.Option(min=0, max=MB_MAX, metavar="MB", help="Stream at most this much of the text; 0: all of it.")
    ] = MAX_MB_DEFAULT,
    spark: Annotated[bool, typer.Option("--spark/--no-spark", help="Run the Spark pipeline over the topic.")] = True,
    as_json: AsJson = False,
) -> None:
    """Show that no record is lost: stream text, kill a leader and the controller meanwhile, read everything back."""
    from penstock.cli.demo.story import run_demo

    for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT too: a shell makes its background jobs ignore it
        signal.signal(number, _end)
    raise typer.Exit(run_demo(path, nodes, max_mb * MB, spark=spark, as_json=as_json))


def _end(*_: Any) -> None:
    """Ends the demo as Ctrl-C does: the nodes are stopped and the temporary directories removed."""
    raise KeyboardInterrupt
