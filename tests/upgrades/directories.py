"""Data directories of releases, as small files of these tests: packed, unpacked, and opened by a node.

    data/0.1.0.tar.xz      KIND/data and KIND/more, the two log dirs of the only node of a cluster, for each KIND
    data/0.1.0.json        the contents that must be read back from each, and the id of the cluster of each

KIND says how the node ended, `stopped` or `killed` (-9), or is `dynamic`: the voters of its quorum are in the metadata
log (and it was stopped). Users and passwords in them are of these tests alone; there is no key of TLS. make_data.py
makes them, by the code of the release.
"""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from penstock.node import node_command
from penstock.testing import Cluster
from penstock.testing.layout import Layout
from penstock.testing.ports import HOST, free_ports
from tests.upgrades.contents import CONFIG, Contents

DATA: Final = Path(__file__).with_name("data")
LOG_DIRS = ("data", "more")
STOPPED, KILLED, DYNAMIC = "stopped", "killed", "dynamic"


def known() -> list[tuple[str, str]]:
    """Release and kind of each directory that is kept."""
    return [(path.stem, kind) for path in sorted(DATA.glob("*.json")) for kind in _read_report(path.stem)["clusters"]]


def report_of(version: str, kind: str) -> tuple[str, Contents]:
    """The cluster's id and its contents."""
    report = _read_report(version)
    return report["clusters"][kind], report["contents"]


def _read_report(version: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / f"{version}.json").read_text(encoding="utf-8"))
    return found


def pack(version: str, homes: Mapping[str, Path], made: Mapping[str, tuple[str, Contents]]) -> Path:
    """Writes the files of a release; `homes` has the node's directory of each kind. ValueError where the kinds hold
    different things."""
    first, *others = [contents for _, contents in made.values()]
    if any(other != first for other in others):
        raise ValueError(f"the directories of {version} should hold the same")
    DATA.mkdir(exist_ok=True)
    path = DATA / f"{version}.tar.xz"
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for kind, home in homes.items():
            for name in LOG_DIRS:
                archive.add(home / name, f"{kind}/{name}")
    report = {"clusters": {kind: cluster_id for kind, (cluster_id, _) in made.items()}, "contents": first}
    (DATA / f"{version}.json").write_text(json.dumps(report) + "\n", encoding="utf-8")
    return path


def unpack(version: str, kind: str, directory: Path) -> None:
    """Makes a cluster's directory, with the log dirs of a release in it."""
    home = directory / "node-0"
    home.mkdir(parents=True)
    with tarfile.open(DATA / f"{version}.tar.xz") as archive:
        inside = [one for one in archive.getmembers() if one.name.startswith(f"{kind}/")]
        for one in inside:
            one.name = one.name.removeprefix(f"{kind}/")
        archive.extractall(home, inside, filter="data")


@contextmanager
def opened(
    directory: Path, cluster_id: str, kind: str, config: Mapping[str, object] | None = None
) -> Iterator[Cluster]:
    """A cluster of one node, on free ports and with what is in the directory; one that is empty is formatted."""
    layout = Layout(directory, cluster_id, free_ports(1))
    home = layout.node_directory(0)
    log_dirs: dict[str, object] = {"log.dirs": [str(home / name) for name in LOG_DIRS]}
    keys = {**CONFIG, **log_dirs, **(_dynamic_keys(layout) if kind == DYNAMIC else {}), **(config or {})}
    layout.write([keys])
    if kind == DYNAMIC and not (home / LOG_DIRS[0]).exists():
        format_options = ("--standalone", "--cluster-id", cluster_id)
        subprocess.run(
            node_command("format", "--config", str(layout.config_path(0)), *format_options),
            check=True,
            capture_output=True,
        )
    with Cluster(1, keys, directory) as cluster:
        yield cluster


def _dynamic_keys(layout: Layout) -> dict[str, object]:
    return {
        "controller.quorum.voters": [],
        "controller.quorum.bootstrap.servers": [f"{HOST}:{layout.ports[0].controller}"],
    }
