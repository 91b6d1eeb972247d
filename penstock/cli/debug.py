"""`penstock debug bundle` makes one file for a maintainer; `penstock debug show` says what is in it.

Exit codes of `bundle`, besides those of every command: 0 also where parts are missing; it says which and why. The file
has no secrets and no records; it has the names of topics, groups, users and hosts.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from penstock.cli.output import note, print_json, say
from penstock.clock import SystemClock
from penstock.config_keys import did_you_mean
from penstock.errors import ConfigError
from penstock.plain_text import plain_lines

if TYPE_CHECKING:
    from penstock.debug.collecting import Collector
    from penstock.debug.local_node import LocalNode

app = typer.Typer(help="A file for a maintainer who helps you.", no_args_is_help=True)

Configs = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Also of the node on this machine with this configuration: its file, process, threads' stacks, files,"
        " journal and metrics. As its user, or root. May be repeated.",
    ),
]
Logs = Annotated[
    list[Path] | None,
    typer.Option("--log", metavar="FILE", help="Also the end of this log file. May be repeated."),
]
LOG_BYTES_MAX = 32 << 20
COMMAND_S_MAX = 3_600


@app.callback()
def _debug() -> None:
    """A file for a maintainer who helps you."""


@app.command()
def bundle(
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The file to make.", show_default="penstock-bundle-TIME.tar.gz in this directory"
        ),
    ] = None,
    config: Configs = None,
    log: Logs = None,
    cluster: Annotated[
        bool, typer.Option("--cluster/--no-cluster", help="Ask the cluster, too; without it only what is local.")
    ] = True,
    timeout: Annotated[
        int, typer.Option(metavar="SECONDS", min=1, max=COMMAND_S_MAX, help="The longest that one part may take.")
    ] = 30,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Put what a maintainer needs into one file: versions, health, configurations, metadata, files, logs, stacks.

    It has no secrets and no records, but the names of topics, groups, users and hosts. `penstock debug show` says what
    is in it.
    """
    from penstock.debug.archive import BundleWriter
    from penstock.debug.collecting import Collector
    from penstock.debug.local_node import local_node
    from penstock.debug.parts import CLUSTER_PARTS, DESCRIBED, broker_part

    clock = SystemClock()
    made_at_ms = clock.wall_ms()
    nodes = [local_node(one) for one in config or ()]
    if len({node.folder for node in nodes}) < len(nodes):
        raise ConfigError("--config: two files of the same node.id; give each node once")
    if not cluster and not nodes and not log:
        raise ConfigError("--no-cluster: nothing is left to collect; give --config or --log")
    made = datetime.fromtimestamp(made_at_ms / 1000, UTC)
    folder = f"penstock-bundle-{made:%Y%m%dT%H%M%SZ}"
    path = output if output is not None else Path(f"{folder}.tar.gz")
    with BundleWriter(path, folder, made_at_ms // 1000) as writer:
        collector = Collector(writer, timeout, clock.now_ms)
        for node in nodes:
            _collect_node(collector, node)
        for place, one in enumerate(log or ()):
            collector.take(f"logs/{place}-{one.name}", lambda one=one: _end_of(one))  # type: ignore[misc]
        if cluster:
            found = collector.run(CLUSTER_PARTS)
            collector.run([broker_part(broker_id) for broker_id in _brokers(found[DESCRIBED])])
        collector.finish(bootstrap if cluster else "", made_at_ms)
    _tell(path, collector.missing, as_json)


def _collect_node(collector: Collector, node: LocalNode) -> None:
    """The node's own parts. Its stacks come before its journal, where they are written."""
    from penstock.debug import local_node as at
    from penstock.debug.parts import node_parts

    collector.take(f"{node.folder}/node.toml", lambda: node.config.read_text(encoding="utf-8", errors="replace"))
    collector.take(f"{node.folder}/files.txt", lambda: at.files_text(node))
    try:
        pid = collector.within(lambda: at.process_of(node))
    except OSError:
        pid = None
    if pid is None:
        collector.lack(f"{node.folder}/process.txt", "no process was seen that holds its log dirs")
    else:
        collector.take(f"{node.folder}/process.txt", lambda: at.process_text(pid))
        if not at.ask_for_stacks(pid, time.sleep):
            collector.lack(f"{node.folder}: stacks", f"process {pid} may not be asked, or is of an older release")
    collector.take(f"{node.folder}/journal.txt", lambda: at.journal_text(node))
    if node.metrics:
        collector.take(f"{node.folder}/metrics.txt", lambda: at.metrics_page(node.metrics))
    collector.run(node_parts(node.folder, str(node.config), tuple(map(str, node.log_dirs))))


def _end_of(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - LOG_BYTES_MAX, 0))
        return file.read(LOG_BYTES_MAX).decode("utf-8", "replace")


def _brokers(described: str) -> list[int]:
    """The ids of the brokers that `cluster describe --json` named; none where it failed."""
    try:
        return [int(broker["node_id"]) for broker in json.loads(described)["brokers"]]
    except (ValueError, KeyError, TypeError):
        return []


def _tell(path: Path, missing: Sequence[str], as_json: bool) -> None:
    size = path.stat().st_size
    if as_json:
        print_json({"file": str(path), "bytes": size, "missing": list(missing)})
        return
    for line in missing:
        note(f"missing: {line}")
    say(path, f"{size:,} bytes")
    if sys.stdout.isatty():
        note(f"look at it before you send it: penstock debug show {path}")


@app.command()
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `penstock debug bundle` made.")],
    part: Annotated[
        str | None, typer.Argument(metavar="[PART]", help="Print this file of it, as it is.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say where a bundle is from, what was wrong there and what it has; or print one of its files."""
    from penstock.debug.archive import read_bundle
    from penstock.debug.summary import summary

    read = read_bundle(file)
    if part is not None:
        if part not in read.files:
            raise ConfigError(f"{part}: no file of this bundle{did_you_mean(part, read.files)}")
        for line in plain_lines(read.files[part].decode("utf-8", "replace")).splitlines():
            say(line)
    elif as_json:
        print_json({**read.index, "files": {path: len(data) for path, data in sorted(read.files.items())}})
    else:
        for line in summary(read):
            say(line)
