"""Data directories that the nodes of every release wrote are opened by this tree: verified, read back, written on.

The files are in tests/upgrades/data/, made by `python -m tests.upgrades.make_data`. Each has one of everything that has
a form of its own on a disk; a release's files are never changed again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.tools.overlay import OverlayFileSystem
from storage.tools.target import find_target
from storage.tools.verify.findings import Finding
from storage.tools.verify.verify_log import VerifyOptions
from storage.tools.verify.verify_log_dir import verify
from tests.support.amount import usually
from tests.upgrades.contents import COMPACTED, GONE, read, write_on
from tests.upgrades.directories import KILLED, LOG_DIRS, known, opened, report_of, unpack
from tests.upgrades.releases import COMMITS

NODE = "node-0"


def _complaints(directory: Path) -> list[Finding]:
    """The findings of `penstock log verify` in the log dirs of a node that does not run, but for notes, and
    for the deleted topic, whose files are still there."""
    targets = [find_target(OverlayFileSystem(), str(directory / NODE / name)) for name in LOG_DIRS]
    found = [one for target in targets for one in verify(target, VerifyOptions(deep=True))]
    return [one for one in found if isinstance(one, Finding) and one.severity != "note" and one.kind != "leftover"]


@pytest.mark.parametrize(("version", "kind"), usually([*{one[0]: one for one in known()}.values()], long=known()))
def test_a_directory_of_a_release_is_verified_read_back_and_written_on(version: str, kind: str, tmp_path: Path) -> None:
    cluster_id, contents = report_of(version, kind)
    unpack(version, kind, tmp_path)
    if kind != KILLED:  # what a kill leaves is mended by a start
        assert _complaints(tmp_path) == []
    with opened(tmp_path, cluster_id, kind) as cluster:
        assert read(cluster.bootstrap) == contents
        write_on(cluster.bootstrap, cluster.kafka_bootstrap)
        assert cluster.stop(0) == 0
    assert _complaints(tmp_path) == []


def test_every_release_has_its_directories() -> None:
    assert {version for version, _ in known()} == set(COMMITS)
    assert ("0.2.0", "dynamic") in known()


@pytest.mark.parametrize("version", COMMITS)
def test_a_directory_has_what_it_is_for(version: str, tmp_path: Path) -> None:
    """Snapshots of the metadata and of producers, a deleted topic that is still there, a log that was compacted."""
    unpack(version, "stopped", tmp_path)
    names = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")]
    for part in (
        "__cluster_metadata-0/0",
        ".checkpoint",
        ".snapshot",
        f"/{GONE}-0",
        "-delete",
        f"/{COMPACTED}-0",
        "cleaner-",
    ):
        assert any(part in name for name in names), part
