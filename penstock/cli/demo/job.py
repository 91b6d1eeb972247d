"""The demo's steps in their order: nodes, topic, stream with two crashes, read back, Spark, report.

    text ─► stream ─► topic (3 replicas, acks=all) ─► read back ─┐
              ▲ kill -9: a leader, then the controller           ├─► report, exit code
                                 └─► Spark ─► Parquet ─► pyarrow ┘

The nodes die with this process; the data and the table are in temporary directories. Each step has its own module.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from penstock import Admin
from penstock.cli.demo.faults import FaultRun, Faults
from penstock.cli.demo.ledger import Ledger
from penstock.cli.demo.report import RunReport, TableRun, print_report
from penstock.cli.demo.source import SourceFile, plan_source
from penstock.cli.demo.spark import require_spark, run_pipeline
from penstock.cli.demo.stream import Streamed, plan_lanes, stream
from penstock.cli.demo.verify import ReadBack, read_back, read_parquet
from penstock.cli.output import note, progress
from penstock.errors import PenstockError
from penstock.testing import Cluster

TOPIC = "demo"
PARTITIONS = 6
LOOK_EVERY_S = 0.5
"""How often the nodes are checked for one that ended by itself, while the cluster is left running."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of `penstock demo`."""

    path: Path | None
    nodes: int
    max_bytes: int
    spark: bool
    as_json: bool


def run_demo(options: DemoOptions) -> int:
    """Returns the exit code: 0 only when every check holds."""
    if options.spark:
        require_spark()
    plan = plan_source(options.path, options.max_bytes)
    left_out = f"; {plan.left_out_bytes:,} bytes left out, see --max-mb" if plan.left_out_bytes else ""
    note(f"{len(plan.files):,} files with {plan.size_bytes:,} bytes from {plan.root}{left_out}")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as work, Cluster(options.nodes) as cluster:
        start_seconds = time.monotonic() - began
        note(f"{options.nodes} nodes ready after {start_seconds:.1f} s: {cluster.bootstrap}")
        _create_topic(cluster, options.nodes)
        lanes = plan_lanes(plan.files, PARTITIONS)
        streamed, faults = _stream_with_faults(cluster, lanes, options.as_json)
        with progress("read back", streamed.size_bytes, quiet=options.as_json) as bar:
            read = read_back(cluster.bootstrap, TOPIC, bar)
        note(f"read back {read.records:,} records in {read.seconds:.1f} s")
        table = _to_parquet(cluster, Path(work), read) if options.spark else None
        report = RunReport(plan, options.nodes, start_seconds, streamed, faults, read, table)
        print_report(report, options.as_json)
        if sys.stdout.isatty() and not options.as_json:
            _leave_running(cluster, Path(work), options)
    return 0 if report.ok else 1


def _create_topic(cluster: Cluster, nodes: int) -> None:
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(TOPIC, PARTITIONS, replication_factor=3, config={"min.insync.replicas": 2})
    note(f"topic {TOPIC}: {PARTITIONS} partitions, 3 replicas on {nodes} nodes, min.insync.replicas=2")


def _stream_with_faults(cluster: Cluster, lanes: dict[int, list[SourceFile]], quiet: bool) -> tuple[Streamed, Faults]:
    ledger = Ledger({p: sum(file.size_bytes for file in files) for p, files in lanes.items()})
    faults = FaultRun(cluster, TOPIC, ledger, note)
    with ThreadPoolExecutor(1, "penstock-demo-faults") as executor:
        running = executor.submit(faults.run)
        try:
            with progress("stream", ledger.total_bytes, quiet=quiet) as bar:
                streamed = stream(cluster.bootstrap, TOPIC, lanes, ledger, bar)
            outcome = running.result()
        except BaseException as error:
            faults.stop()
            ledger.fail(error)
            raise
    note(f"{streamed.acked:,} records acked in {streamed.seconds:.1f} s, both crashes included")
    return streamed, outcome


def _to_parquet(cluster: Cluster, work: Path, read: ReadBack) -> TableRun:
    note("Spark: topic to Parquet")
    run = run_pipeline(cluster.bootstrap, TOPIC, work, read.size_bytes)
    parquet = read_parquet(run.table, read.duplicates)
    note(
        f"{parquet.rows:,} rows in {parquet.files} Parquet files after {run.seconds:.1f} s, "
        f"of which {run.start_seconds:.1f} s to start Spark"
    )
    return TableRun(parquet, run.seconds, run.start_seconds)


def _leave_running(cluster: Cluster, work: Path, options: DemoOptions) -> None:
    """Runs until Ctrl-C, after printing commands to try."""
    with contextlib.suppress(KeyboardInterrupt):  # before the commands are printed: the user may be quick
        _invite(cluster, work, options)
        pause = threading.Event()
        while any(cluster.is_running(index) for index in range(options.nodes)):
            pause.wait(LOOK_EVERY_S)
        raise PenstockError("every node has ended; run the demo again")
    note("stopping")


def _invite(cluster: Cluster, work: Path, options: DemoOptions) -> None:
    """Prints commands to try."""
    note(f"""
the cluster keeps running until Ctrl-C; in another terminal:
  export PENSTOCK_BOOTSTRAP={cluster.bootstrap}
  penstock topics describe {TOPIC}
  penstock consume {TOPIC} --from-beginning -n 5 --print-key
  penstock quorum describe
  kill -9 {cluster.pid(0)}     # node 0; produce and consume go on: penstock bench produce {TOPIC} -n 100000
  curl {cluster.metrics_url(1)}""")
    if options.spark:
        note(f"  the Parquet table: {work}")
