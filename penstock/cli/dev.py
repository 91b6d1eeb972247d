"""`penstock dev`: a cluster of one to nine nodes on this machine, until Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.options import AsJson
from penstock.cli.output import note, print_json

DEFAULT_PORT = 9192
DEFAULT_DATA = Path("penstock-data")
NODES_MAX = 9
"""More nodes on one machine show nothing that these do not."""
LOOK_EVERY_S = 0.5
"""How often a node that ended by itself is looked for."""


def dev(
    nodes: Annotated[
        int, typer.Option(min=1, max=NODES_MAX, help=f"1 to {NODES_MAX}; 3 show replication and failover.")
    ] = 1,
    data: Annotated[Path, typer.Option(metavar="DIR", help="Formatted on first start, and kept.")] = DEFAULT_DATA,
    port: Annotated[int, typer.Option(help="Brokers from here on; the others 100 to 300 above.")] = DEFAULT_PORT,
    as_json: AsJson = False,
) -> None:
    """Run a cluster on this machine; prints the bootstrap address when it is ready. Ctrl-C stops it cleanly."""
    from penstock.errors import PenstockError
    from penstock.testing import Cluster, NodeFailedError

    cluster = Cluster(nodes, directory=data, port=port, defaults={})
    try:
        cluster.open()
    except NodeFailedError as error:  # a node's last words are one line that says why; its log has the rest
        raise PenstockError(str(error).splitlines()[-1].strip().removeprefix("penstock: ")) from None
    with closing(cluster):
        if as_json:
            metrics = [cluster.metrics_url(index) for index in range(nodes)]
            print_json({"bootstrap": cluster.bootstrap, "data": str(data), "metrics": metrics})
        else:
            note(f"{nodes} node{'s' if nodes > 1 else ''} ready, data in {data}; Ctrl-C stops")
            print(cluster.bootstrap, flush=True)
        wanted = {signal.SIGINT, signal.SIGTERM}
        signal.pthread_sigmask(signal.SIG_BLOCK, wanted)  # after the nodes were made, which would inherit it
        while signal.sigtimedwait(wanted, LOOK_EVERY_S) is None:
            for index in range(nodes):
                if not cluster.is_running(index):
                    raise PenstockError(f"node {index} ended by itself; see {cluster.log_path(index)}")
        note("stopping")
        require_stopped(cluster.stop_all(), cluster.log_path)


def require_stopped(codes: Sequence[int | None], log_path: Callable[[int], Path]) -> None:
    """PenstockError for the first node that failed while it was stopped; `codes` are the exit codes by node."""
    from penstock.errors import PenstockError

    for index, code in enumerate(codes):
        if code != 0:
            raise PenstockError(
                f"node {index} ended with exit code {code} while it was stopped; see {log_path(index)}. "
                "The next start recovers its logs"
            )
