"""Promises about how files of a micro-batch come into a table: exactly once, whatever call the driver dies in."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError, PenstockError
from penstock.pipelines.parquet_table.commit import CommitBatch
from penstock.pipelines.parquet_table.place import check_place, delete_leftovers, locked
from penstock.pipelines.parquet_table.table_spec import PENDING
from penstock.pipelines.table_files import table_files

DATE = "date=2026-01-01"
EFFECTS = ("rename", "replace", "link", "fsync", "mkdir", "unlink")


class Row:
    def __init__(self, name: str, size_bytes: int, directory: str = DATE) -> None:
        self._found = {"name": name, "directory": directory, "size_bytes": size_bytes, "rows": 1}

    def asDict(self) -> dict[str, Any]:
        return self._found


class Files:
    """The files of a micro-batch, written when Spark runs its tasks; a losing attempt writes one more."""

    def __init__(self, table: Path, attempt: str, count: int = 2) -> None:
        self.table, self.attempt, self.count = table, attempt, count
        self.runs = 0

    def collect(self) -> list[Row]:
        self.runs += 1
        pending = self.table / PENDING
        pending.mkdir(parents=True, exist_ok=True)
        (pending / f"part-{self.attempt}-loser.parquet").write_text("half")
        rows = []
        for number in range(self.count):
            name = f"part-{self.attempt}-{number}.parquet"
            (pending / name).write_text("row")
            rows.append(Row(name, 3))
        return rows


class Crash(BaseException):
    """The driver dies."""


@pytest.fixture
def dies_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Sets the number of the call with an effect on the disk in which the driver dies."""
    state = {"left": -1}

    def wrap(name: str) -> None:
        real = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if state["left"] == 0:
                raise Crash
            state["left"] -= 1
            return real(*args, **kwargs)

        monkeypatch.setattr(os, name, call)

    for name in EFFECTS:
        wrap(name)

    def set_to(number: int) -> None:
        state["left"] = number

    yield set_to
    state["left"] = -1


def in_directories(table: Path) -> list[Path]:
    """The table as a tool sees it that lists directories."""
    return sorted(path for path in table.rglob("*.parquet") if not any(part.startswith("_") for part in path.parts))


def plan(checkpoint: Path, planned: int, finished: int) -> None:
    for name, last in (("offsets", planned), ("commits", finished)):
        (checkpoint / name).mkdir(parents=True, exist_ok=True)
        for number in range(last + 1):
            (checkpoint / name / str(number)).touch()


@pytest.mark.parametrize("first", [0, 8, 9])
def test_a_batch_is_in_the_table_once_whatever_call_the_driver_dies_in(
    tmp_path: Path, dies_at: Any, first: int
) -> None:
    """The batch 9 is compacted: its entry names files of the batches before it, too."""
    number = 0
    while True:
        table = tmp_path / str(number)
        commit = CommitBatch(table, tmp_path / "checkpoint")
        for batch in range(first):
            commit(Files(table, f"{batch}"), batch)
        before = set(table_files(table))
        dies_at(number)
        try:
            commit(Files(table, "first"), first)
            died = False
        except Crash:
            died = True
        dies_at(-1)
        listed = before | set(table_files(table))
        delete_leftovers(table)
        assert in_directories(table) == sorted(table_files(table)) == sorted(listed), number
        commit(Files(table, "again"), first)
        attempts = {path.name.split("-")[1] for path in set(table_files(table)) - before}
        assert attempts in ({"first"}, {"again"}) and len(table_files(table)) == 2 * (first + 1), number
        assert in_directories(table) == sorted(table_files(table)), number
        assert list((table / PENDING).iterdir()) == []
        if not died:
            break
        number += 1
    assert number > 12


def test_everything_is_durable_before_the_log_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    real_fsync, real_link, real_rename = os.fsync, os.link, os.rename

    def fsync(descriptor: int) -> None:
        events.append(f"sync {os.readlink(f'/proc/self/fd/{descriptor}')}")
        real_fsync(descriptor)

    def rename(source: Path, target: Path) -> None:
        events.append(f"rename {target}")
        real_rename(source, target)

    def link(source: Path, target: Path) -> None:
        events.append(f"link {target}")
        real_link(source, target)

    for name, call in (("fsync", fsync), ("rename", rename), ("link", link)):
        monkeypatch.setattr(os, name, call)
    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    plan(checkpoint, 0, -1)
    CommitBatch(table, checkpoint)(Files(table, "a", 1), 0)
    linked = events.index(f"link {table}/_spark_metadata/0")
    moved = events.index(f"rename {table}/{DATE}/part-a-0.parquet")
    assert events.index(f"sync {table}/{PENDING}/0.entry.tmp") < events.index(f"sync {table}/{PENDING}") < moved
    assert moved < events.index(f"sync {table}/{DATE}") < linked
    assert moved < events.index(f"sync {table}") < linked
    assert max(events.index(f"sync {checkpoint}/offsets/0"), events.index(f"sync {checkpoint}/offsets")) < linked
    assert events.index(f"sync {table}/_spark_metadata") > linked


def test_a_batch_that_is_in_the_log_is_not_read_again(tmp_path: Path) -> None:
    commit = CommitBatch(tmp_path, tmp_path / "checkpoint")
    commit(Files(tmp_path, "a"), 0)
    again = Files(tmp_path, "b")
    commit(again, 0)
    assert again.runs == 0 and len(table_files(tmp_path)) == 2


def test_a_batch_without_rows_is_in_the_log(tmp_path: Path) -> None:
    commit = CommitBatch(tmp_path, tmp_path / "checkpoint")
    commit(Files(tmp_path, "a", 0), 0)
    assert (tmp_path / "_spark_metadata" / "0").read_text() == "v1" and table_files(tmp_path) == []


def test_a_file_that_this_machine_does_not_see_is_an_error_and_no_hole(tmp_path: Path) -> None:
    class Elsewhere(Files):
        def collect(self) -> list[Row]:
            return [*super().collect(), Row("part-on-another-machine.parquet", 3)]

    with pytest.raises(PenstockError, match=r"_pending/part-on-another-machine.parquet, .* is not here; all machines"):
        CommitBatch(tmp_path, tmp_path / "checkpoint")(Elsewhere(tmp_path, "a"), 0)
    assert table_files(tmp_path) == []


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PenstockError, match=r"^the table .* cannot be written \(No space left on device\); when that"):
        CommitBatch(tmp_path, tmp_path / "checkpoint")(Files(tmp_path, "a"), 0)


def test_two_runs_do_not_write_one_table(tmp_path: Path) -> None:
    with locked(tmp_path / "t"), pytest.raises(ConfigError, match=r"another run writes the table .*/t; wait"):
        locked(tmp_path / "t").__enter__()
    with locked(tmp_path / "t"):
        pass


@pytest.mark.parametrize(
    ("written", "planned", "finished", "sentence"),
    [
        (-1, -1, -1, ""),
        (-1, 0, -1, ""),  # died in the first batch
        (3, 3, 3, ""),
        (3, 3, 2, ""),  # died before Spark's own commit
        (3, 4, 3, ""),  # died before the table's
        (3, -1, -1, r"has micro-batch 3, but the checkpoint .* has none: the table was written with another one"),
        (3, 2, 1, r"has micro-batch 3, but the checkpoint .* ends at 2: .*; name that one, or choose another output"),
        (-1, 3, 2, r"has finished micro-batch 2, but the table .* has none: it is not the checkpoint's table"),
        (1, 3, 2, r"has finished micro-batch 2, but the table .* ends at 1: .*; bring them back, or choose"),
    ],
)
def test_a_checkpoint_of_another_table_is_refused_instead_of_batches_left_out(
    tmp_path: Path, written: int, planned: int, finished: int, sentence: str
) -> None:
    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    for batch in range(written + 1):
        CommitBatch(table, checkpoint)(Files(table, str(batch)), batch)
    plan(checkpoint, planned, finished)
    if sentence:
        with pytest.raises(ConfigError, match=sentence):
            check_place(table, checkpoint)
    else:
        check_place(table, checkpoint)


@pytest.mark.parametrize("first", [1, 9])
def test_a_run_on_a_copy_leaves_the_files_of_the_original_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """The copy was made during a commit, so its leftovers are named by paths of the original, which has them now."""
    table, copy = tmp_path / "table", tmp_path / "copy"
    commit, real = CommitBatch(table, tmp_path / "checkpoint"), os.link
    for batch in range(first):
        commit(Files(table, str(batch)), batch)

    def link(source: Path, target: Path) -> None:
        shutil.copytree(table, copy)
        real(source, target)

    monkeypatch.setattr(os, "link", link)
    commit(Files(table, "last"), first)
    delete_leftovers(copy)
    assert in_directories(table) == sorted(table_files(table)) and len(table_files(table)) == 2 * (first + 1)
    assert [path.name for path in in_directories(copy)] == sorted(path.name for path in table_files(copy))


@pytest.mark.parametrize("name", ["part-0.parquet", "date=2026-01-01/hour=1/part-0.csv", "_delta_log/0.json"])
def test_a_new_table_does_not_hide_what_is_there(tmp_path: Path, name: str) -> None:
    table, checkpoint = tmp_path / "table", tmp_path / "table" / "_checkpoint"
    there = table / name
    there.parent.mkdir(parents=True)
    there.touch()
    with pytest.raises(ConfigError, match=r"is to be made, but .* is there already: it would be hidden .*choose ano"):
        check_place(table, checkpoint)
    plan(checkpoint, 0, -1)
    check_place(table, checkpoint)  # a run that died in its first batch goes on


def test_a_new_table_may_have_a_directory_with_nothing_that_readers_see(tmp_path: Path) -> None:
    for name in ("_checkpoint/offsets", ".hidden", "date=2026-01-01/_tmp"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / ".hidden" / "part-0.parquet").touch()
    (tmp_path / "date=2026-01-01" / "_tmp" / "part-0.parquet").touch()
    check_place(tmp_path, tmp_path / "_checkpoint")


@pytest.mark.parametrize("text", ["", 'v1\n{"path":', "v1\n3"])
def test_a_damaged_list_of_leftovers_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / PENDING).mkdir()
    (tmp_path / PENDING / "0.entry").write_text(text)
    with pytest.raises(PenstockError, match=r"_pending/0.entry is missing or damaged, .*are leftovers; delete it, and"):
        delete_leftovers(tmp_path)


def test_what_spark_calls_comes_out_of_a_pickle_as_it_went_in(tmp_path: Path) -> None:
    commit = CommitBatch(tmp_path, tmp_path / "checkpoint", 4)
    assert pickle.loads(pickle.dumps(commit)) == commit
