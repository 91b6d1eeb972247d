"""Positions between two runs: in a file that is old or new and nothing else, and in a database with the rows."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Position, TopicPartition
from penstock.errors import ConfigError, CorruptFileError, PositionsTakenError
from penstock.positions import PositionFile, SqlPositions

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
OLD, NEW = Position("id-of-a", 5, 1), Position("id-of-a", 9, 2)


# -- a file ------------------------------------------------------------------------------------------------------------


def test_a_file_gives_back_what_was_saved_and_keeps_other_partitions(tmp_path: Path) -> None:
    kept = PositionFile(tmp_path / "kept")
    assert kept.load() == {}
    kept.save({A0: OLD, B0: Position("id-of-b", 0)})
    kept.save({A0: NEW, A1: OLD})
    assert PositionFile(tmp_path / "kept").load() == {A0: NEW, A1: OLD, B0: Position("id-of-b", 0)}
    assert os.listdir(tmp_path) == ["kept"]


def test_an_offset_alone_is_refused_when_it_is_saved_and_not_at_the_next_load(tmp_path: Path) -> None:
    kept = PositionFile(tmp_path / "kept")
    rows = SqlPositions(sqlite3.connect(":memory:"), "r")
    rows.create_table()
    for save in (kept.save, rows.save):
        with pytest.raises(TypeError, match=r"a-0: save a Position, not 9; take consumer.position\(tp\)"):
            save({A0: 9})  # type: ignore[dict-item]
    assert kept.load() == {} and rows.load() == {}


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_save_that_fails_on_its_way_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    kept = PositionFile(tmp_path / "kept")
    kept.save({A0: OLD})

    def fails(*arguments: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fails)
        with pytest.raises(OSError, match="full"):
            kept.save({A0: NEW})
    assert kept.load() == {A0: OLD}
    kept.save({A0: NEW})
    assert kept.load() == {A0: NEW} and os.listdir(tmp_path) == ["kept"]


def test_the_bytes_are_on_the_disk_before_they_have_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []

    def noted(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            steps.append(name)
            return real(*arguments)

        return call

    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, noted(name, getattr(os, name)))
    PositionFile(tmp_path / "kept").save({A0: OLD})
    assert steps == ["fsync", "replace", "fsync"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"version": 1}',
        '{"version": 1, "positions": {"a": {"x": "id:5:1"}}}',
        '{"version": 1, "positions": {"a": {"0": 5}}}',
        '{"version": 1, "positions": {"a": {"0": "5"}}}',
        '{"version": 1, "positions": [1]}',
        "\xff",
    ],
)
def test_a_damaged_file_is_named_and_not_overwritten(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kept"
    path.write_text(text, encoding="latin-1")
    kept = PositionFile(path)
    with pytest.raises(CorruptFileError, match=str(path)):
        kept.load()
    with pytest.raises(CorruptFileError):
        kept.save({A0: NEW})
    assert path.read_text(encoding="latin-1") == text


def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text('{"version": 2, "positions": {}}')
    with pytest.raises(ConfigError, match="has version 2; this program reads version 1"):
        PositionFile(tmp_path / "kept").load()


# -- a database --------------------------------------------------------------------------------------------------------


class PercentCursor:
    """A cursor of a driver that writes %s for a parameter, over SQLite."""

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self._cursor = cursor

    def execute(self, statement: str, values: tuple[object, ...] = ()) -> None:
        assert "?" not in statement
        self._cursor.execute(statement.replace("%s", "?"), values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


class PercentConnection:
    def __init__(self, path: Path) -> None:
        self._real = sqlite3.connect(path)

    def cursor(self) -> PercentCursor:
        return PercentCursor(self._real.cursor())

    def __enter__(self) -> object:
        return self._real.__enter__()

    def __exit__(self, *error: Any) -> object:
        return self._real.__exit__(*error)

    def close(self) -> None:
        self._real.close()


@pytest.fixture(params=["qmark", "pyformat"])
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Any]]:
    made: list[Any] = []

    def new() -> Any:
        path = tmp_path / "rows.db"
        made.append(sqlite3.connect(path) if request.param == "qmark" else PercentConnection(path))
        return made[-1]

    yield new
    for connection in made:
        connection.close()


def store(connection: Any, reader: str = "reader") -> SqlPositions:
    style = "pyformat" if isinstance(connection, PercentConnection) else None
    return SqlPositions(connection, reader, paramstyle=style)


def test_positions_are_there_with_the_transaction_and_only_then(connect: Callable[[], Any]) -> None:
    connection = connect()
    kept = store(connection)
    with connection:
        kept.create_table()
        kept.create_table()
        kept.save({A0: OLD, B0: OLD})
    assert store(connect()).load() == {A0: OLD, B0: OLD}
    with pytest.raises(ZeroDivisionError), connection:
        kept.save({A0: NEW, A1: NEW})
        raise ZeroDivisionError
    assert store(connect()).load() == {A0: OLD, B0: OLD}
    assert kept.load() == {A0: OLD, B0: OLD}  # and the same object goes on after it has loaded again
    with connection:
        kept.save({A0: NEW, A1: NEW})
    assert store(connect()).load() == {A0: NEW, A1: NEW, B0: OLD}


def test_another_program_of_the_same_name_is_refused_and_one_of_another_name_is_not(
    connect: Callable[[], Any],
) -> None:
    first, second, other = connect(), connect(), connect()
    one, two, apart = store(first), store(second), store(other, "apart")
    with first:
        one.create_table()
        one.save({A0: OLD})
    assert two.load() == {A0: OLD} and apart.load() == {}
    with second:
        two.save({A0: NEW})
    with other:
        apart.save({A0: Position("id-of-a", 1)})
    message = "a-0: the position of reader 'reader' is not id-of-a:5:1 any more"
    with pytest.raises(PositionsTakenError, match=message), first:
        one.save({A0: Position("id-of-a", 7, 1)})
    assert store(connect()).load() == {A0: NEW}


def test_a_position_that_did_not_move_is_not_written(connect: Callable[[], Any]) -> None:
    connection = connect()
    kept = store(connection)
    with connection:
        kept.create_table()
        kept.save({A0: OLD})
    connection.close()
    kept.save({A0: OLD})  # would fail on a closed connection


def test_what_a_store_cannot_use_is_named(connect: Callable[[], Any]) -> None:
    with pytest.raises(ConfigError, match="table='a; DROP'"):
        SqlPositions(connect(), "r", table="a; DROP")
    with pytest.raises(ConfigError, match="paramstyle='named' must be one of qmark, format, pyformat"):
        SqlPositions(connect(), "r", paramstyle="named")
    with pytest.raises(ConfigError, match=r"test_positions does not say how it writes parameters"):
        SqlPositions(PercentConnection(Path(":memory:")), "r")
