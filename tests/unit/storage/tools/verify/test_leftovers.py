"""Every name that a start may meet: it does what `penstock log verify` has said that it will do."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import CorruptFileError
from storage.disk.file_system import OsFileSystem
from storage.segment.leftovers import misplaced
from storage.segment.segment_files import tidy
from storage.tools.overlay import OverlayFileSystem
from storage.tools.target import find_target
from storage.tools.verify.findings import TIDY, Finding
from storage.tools.verify.verify_log import VerifyOptions
from storage.tools.verify.verify_log_dir import verify
from tests.support.log_dirs import FIRST, make_log_dir

STEM = FIRST.removesuffix(".log")
ABSENT = "00000000000000000003"
"""No segment begins there."""
SUFFIXES = (".tmp", ".deleted", ".cleaned", ".swap", ".part", "")
STEMS = (
    *(stem + kind for stem in (STEM, ABSENT) for kind in (".log", ".index", ".timeindex", ".snapshot")),
    f"{STEM}-0000000003.checkpoint",
    "leader-epoch-checkpoint",
    "partition.metadata",
    "quorum-state",
    "notes",
)
NAMES = [
    stem + suffix
    for stem in STEMS
    for suffix in SUFFIXES
    if stem + suffix not in (f"{ABSENT}.log", f"{STEM}.log.swap", f"{ABSENT}.log.swap")  # segments: see test_verify.py
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_log_dir(tmp_path / "data")


def findings(data: Path) -> dict[str, Finding]:
    """By name."""
    found = verify(find_target(OverlayFileSystem(), str(data)), VerifyOptions())
    return {Path(one.file).name: one for one in found if isinstance(one, Finding)}


@pytest.mark.parametrize("is_directory", [False, True])
def test_what_a_start_does_with_a_name_is_what_a_verification_says(data: Path, is_directory: bool) -> None:
    orders = data / "orders-0"
    made = [name for name in NAMES if not (orders / name).exists()]
    for name in made:
        path = orders / name
        if not is_directory:
            path.touch()
        elif name.endswith(SUFFIXES[:-1]) and not misplaced({name: True}):
            path.mkdir()
    before = {path.name for path in orders.iterdir()}
    said = findings(data)
    tidy(OsFileSystem(), str(orders))
    removed = before.difference(path.name for path in orders.iterdir())

    assert removed == {name for name in before if name in said and said[name].remedy == TIDY}
    assert is_directory or {f"{STEM}.index.swap", f"{ABSENT}.index", "notes.tmp"} < removed
    assert not (is_directory and removed)
    kept = before - removed
    strangers = {name for name in kept if name in said and said[name].kind == "foreign"}
    parts = {f"{STEM}-0000000003.checkpoint.part"}
    ours = {name for name in made if not any(name.endswith(suffix) for suffix in SUFFIXES if suffix)}
    assert kept.intersection(made) <= strangers | parts | ours


@pytest.mark.parametrize(
    "name",
    [
        *(f"{STEM}.log{suffix}" for suffix in (".deleted", ".cleaned", ".swap")),
        f"{ABSENT}.log",
        f"{ABSENT}.log.swap",
        f"{STEM}.index.tmp",
        f"{STEM}.timeindex.deleted",
        f"{ABSENT}.snapshot",
        "leader-epoch-checkpoint.tmp",
        "partition.metadata.tmp",
    ],
)
def test_a_directory_in_the_place_of_a_file_is_damage_and_a_start_touches_nothing(data: Path, name: str) -> None:
    orders = data / "orders-0"
    (orders / name).mkdir()
    (orders / f"{STEM}.timeindex.tmp").touch()
    before = {path.name for path in orders.iterdir()}
    with pytest.raises(CorruptFileError, match=f"{name}: .*a directory where a file of the log should be"):
        tidy(OsFileSystem(), str(orders))

    assert {path.name for path in orders.iterdir()} == before
    assert findings(data)[name].severity == "damage"


def test_a_lone_index_of_a_finished_compaction_goes_and_the_index_stays(data: Path) -> None:
    orders = data / "orders-0"
    for kind in (".index", ".timeindex"):
        (orders / f"{STEM}{kind}.swap").write_bytes(b"old")
    tidy(OsFileSystem(), str(orders))

    assert not list(orders.glob("*.swap")) and (orders / f"{STEM}.index").exists()
    assert findings(data) == {}


def test_a_finished_compaction_takes_its_place_and_its_indexes_go(data: Path) -> None:
    orders = data / "orders-0"
    content = (orders / FIRST).read_bytes()
    (orders / f"{FIRST}.swap").write_bytes(content)
    (orders / f"{STEM}.index.swap").write_bytes(b"old")
    said = findings(data)
    assert {said[f"{FIRST}.swap"].remedy, said[f"{STEM}.index.swap"].remedy} == {TIDY}
    tidy(OsFileSystem(), str(orders))

    assert not list(orders.glob("*.swap")) and (orders / FIRST).read_bytes() == content
    assert not (orders / f"{STEM}.index").exists()


def test_names_in_a_log_dir_are_told_apart(data: Path) -> None:
    unique = "A" * 22
    directories = {
        f"gone-0.{unique}-delete": "leftover",
        f"lost-0.{unique}-stray": "set-aside",
        f"rot-0.{unique}-rotten": "set-aside",
        f"orders-0.{unique}-future": "move",
        f"orders-0.{unique}-moved": "move",
        "notes.tmp": "foreign",
        "backup": "foreign",
    }
    files = {
        "recovery-point-offset-checkpoint.tmp": "leftover",
        "meta.properties.tmp": "leftover",
        "my.tmp": "foreign",
        f"file-0.{unique}-delete": "foreign",
        f"file-0.{unique}-future": "foreign",
    }
    for name in directories:
        (data / name).mkdir()
    for name in files:
        (data / name).touch()
    said = findings(data)

    assert {name: said[name].kind for name in (*directories, *files)} == directories | files
