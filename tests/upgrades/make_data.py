"""Makes the data directories of a release: python -m tests.upgrades.make_data 0.2.0 [--dynamic].

Its own nodes write them (contents.py says what), from its tree in the history. Once a release has its files they stay:
what it wrote cannot change any more.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from penstock.ids import system_ids
from tests.upgrades.contents import OPEN_MS, Contents, leave_open, make
from tests.upgrades.directories import DYNAMIC, KILLED, STOPPED, opened, pack
from tests.upgrades.releases import COMMITS, Release, release

SNAPSHOTS: dict[str, object] = {
    "metadata.log.max.snapshot.interval.ms": 300,
    "metadata.max.retention.bytes": 1,
    "log.segment.delete.delay.ms": 600_000,
}
"""So the metadata has snapshots which stand for the beginning of its log, and the deleted topic is still there."""


def make_one(of: Release, directory: Path, kind: str) -> tuple[str, Contents]:
    """Makes a directory of one kind; the cluster's id, and the contents."""
    cluster_id = system_ids().new_id()
    with of.code_of(), opened(directory, cluster_id, kind, SNAPSHOTS) as cluster:
        of.require_of(cluster.pid(0))
        made = make(cluster.bootstrap, cluster.kafka_bootstrap)
        began = time.monotonic()
        leave_open(cluster.kafka_bootstrap)
        (cluster.kill if kind == KILLED else cluster.stop)(0)
        if (seconds := time.monotonic() - began) > OPEN_MS / 1000:
            raise TimeoutError(f"the open transaction may be aborted: the node ended after {seconds:.1f} s; try again")
    return cluster_id, made


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", choices=COMMITS)
    parser.add_argument("--dynamic", action="store_true", help="of a quorum whose voters change, too (since 0.2.0)")
    given = parser.parse_args()
    kinds = [STOPPED, KILLED, *([DYNAMIC] if given.dynamic else [])]
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        of = release(given.version, directory)
        made = {kind: make_one(of, directory / kind, kind) for kind in kinds}
        path = pack(given.version, {kind: directory / kind / "node-0" for kind in kinds}, made)
    print(f"{path}: {path.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
