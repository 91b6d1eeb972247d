"""The quorum beside a real etcd: decisions a second, and how long one takes.

    python -m benchmarks.quorum [--pairs 3] [--quick] [--peers DIR]

Three nodes of each system in turn, in pairs, with 1, 16 and 256 clients in one process: for ours a change of a topic's
configuration (quorum_client.py), for etcd a put of 256 bytes by its own client in Go (`etcdput` of the folder that
--peers names). Both answer when a majority has the record on its disk. A Penstock node is broker and controller, and
this client is Python, so the two cores of a small machine are shared by more than what decides. `fdatasync`: a plain
loop of 256 bytes and a sync on the same disk, the floor of one client; `grpc`: empty calls to three bare servers of
the library that our nodes speak by (grpc_floor.py), the floor of all that is asked by it. Prints a JSON line a row,
then medians and ratios. Without etcd, Go or --peers the rows of ours stand alone, and what is missing is said.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks import broker_systems as systems

NODES: Final = 3
CLIENTS: Final = (1, 16, 256)
TOTALS: Final = {1: 2_000, 16: 10_000, 256: 20_000}
QUICK_SHARE: Final = 5
VALUE_BYTES: Final = 256
SYNCS: Final = 2_000
CLIENT_TIMEOUT_S: Final = 300
GOAL: Final = 0.5
GO_FOLDER: Final = "/usr/local/go/bin"
"""Where its installer puts it."""

Row = dict[str, Any]


def floor(directory: Path) -> Row:
    """Syncs a second of one writer, without a quorum."""
    waits: list[float] = []
    with open(directory / "floor", "wb", buffering=0) as file:
        for _ in range(SYNCS):
            began = time.perf_counter()
            file.write(b"v" * VALUE_BYTES)
            os.fdatasync(file.fileno())
            waits.append(time.perf_counter() - began)
    waits.sort()
    return {"per_s": round(SYNCS / sum(waits), 1), "p50_ms": round(1_000 * waits[SYNCS // 2], 3)}


def ours(share: int) -> Iterator[tuple[int, Row]]:
    """A row for each number of clients, of one cluster."""
    with systems.penstock(NODES) as system:
        for clients in CLIENTS:
            arguments = [system.bootstrap, str(TOTALS[clients] // share), str(clients)]
            yield clients, _measured([sys.executable, "-m", "benchmarks.quorum_client", *arguments], systems.ROOT)


def etcds(peers: Any, put: Path, share: int) -> Iterator[tuple[int, Row]]:
    """The same of etcd."""
    with peers.Etcd(NODES) as peer:
        for clients in CLIENTS:
            arguments = [peer.endpoints, str(TOTALS[clients] // share), str(clients), str(VALUE_BYTES)]
            measured = _measured([str(put), *arguments], put.parent)
            yield clients, measured | {"per_s": measured.pop("puts_per_s"), "decisions": measured.pop("puts")}


def _measured(command: Sequence[str], folder: Path) -> Row:
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, timeout=CLIENT_TIMEOUT_S, check=True)
    row: Row = json.loads(done.stdout)
    if row["failed"]:
        raise RuntimeError(f"{row['failed']} of {row} failed")
    return row


def missing_for_etcd(peers: Path | None) -> list[str]:
    """The tools and files that this machine lacks for etcd's rows."""
    if peers is None:
        return ["--peers DIR, the folder of peers.py"]
    wanted = [peers / "peers.py", peers / "etcdput" / "main.go"]
    missing = [str(path) for path in wanted if not path.is_file()]
    return missing + [tool for tool in ("etcd", "etcdctl") if not shutil.which(tool)] + ([] if _go() else ["go"])


def _go() -> str | None:
    return shutil.which("go", path=os.pathsep.join([os.environ.get("PATH", ""), GO_FOLDER]))


@contextmanager
def etcd_client(peers: Path) -> Iterator[tuple[Any, Path]]:
    """The module of peers, and the program that puts, built within."""
    with tempfile.TemporaryDirectory(prefix="etcdput-") as folder:
        put = Path(folder) / "etcdput"
        subprocess.run([_go() or "go", "build", "-o", str(put), "."], cwd=peers / "etcdput", check=True)
        yield systems.module_of(peers), put


def table(rows: Sequence[Row]) -> list[str]:
    """Medians of each system and number of clients, and each divided by etcd's."""
    lines = ["| clients | system | decisions/s | p50 ms | beside etcd |", "| --- | --- | --- | --- | --- |"]
    for clients in CLIENTS:
        medians = {
            name: [statistics.median(row[what] for row in found) for what in ("per_s", "p50_ms")]
            for name in ("grpc", "penstock", "etcd")
            if (found := [row for row in rows if (row["system"], row["clients"]) == (name, clients)])
        }
        for name, (per_s, p50_ms) in medians.items():
            is_beside = name != "etcd" and "etcd" in medians
            goal = f" (goal {GOAL})" if name == "penstock" else ""
            ratio = f"{per_s / medians['etcd'][0]:.2f}{goal}" if is_beside else ""
            lines.append(f"| {clients} | {name} | {per_s:,.0f} | {p50_ms:.2f} | {ratio} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, and prints."""
    parser = argparse.ArgumentParser(description="The quorum beside a real etcd.")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a fifth of the decisions")
    parser.add_argument("--peers", type=Path, help="the folder of peers.py")
    asked = parser.parse_args(arguments)
    share = QUICK_SHARE if asked.quick else 1
    rows: list[Row] = []

    def measured(name: str, found: Iterator[tuple[int, Row]]) -> None:
        for clients, row in found:
            rows.append({"system": name, "clients": clients, **row})
            print(json.dumps(rows[-1]), flush=True)

    for clients in CLIENTS:
        command = [sys.executable, "-m", "benchmarks.grpc_floor", str(TOTALS[clients] // share), str(clients)]
        measured("grpc", iter([(clients, _measured(command, systems.ROOT))]))
    missing = missing_for_etcd(asked.peers)
    with tempfile.TemporaryDirectory(prefix="floor-") as folder:
        print(json.dumps({"system": "fdatasync", "clients": 1, **floor(Path(folder))}), flush=True)
    if missing:
        print(f"no rows of etcd: missing {', '.join(missing)}", file=sys.stderr)
        for _ in range(asked.pairs):
            measured("penstock", ours(share))
    else:
        with etcd_client(asked.peers) as (peers, put):
            for _ in range(asked.pairs):
                measured("penstock", ours(share))
                measured("etcd", etcds(peers, put, share))
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
