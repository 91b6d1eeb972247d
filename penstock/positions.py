"""Keeps positions between two runs of a program: in a file, or in a database beside the program's own rows.

    kept = SqlPositions(connection, "orders-to-sqlite")      kept = PositionFile("orders.positions")
    kept.load()                                              {TopicPartition("orders", 0): Position(...)}
    kept.save({tp: consumer.position(tp) for tp in consumer.assignment()})

A database gives each record's effect exactly once: rows and positions are in one transaction, so a crash keeps both or
neither. A file is written after the work: a crash between the two repeats work, and loses none. One program at a time
reads under one name. With a database another one is noticed, and refused. docs/resuming.md has both as programs. Not
here: reading, and what to do about a topic that was made anew (`Consumer.seek`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.durable import sync_all
from penstock.errors import ConfigError, CorruptFileError, PositionsTakenError
from penstock.position import Position
from penstock.types import TopicPartition

VERSION = 1
PLACEHOLDERS = {"qmark": "?", "format": "%s", "pyformat": "%s"}
"""The placeholders by `paramstyle` of a DB-API 2.0 module (PEP 249)."""
DEFAULT_TABLE = "penstock_positions"
KEY = "reader = {0} AND topic = {0} AND partition_number = {0}"

Positions = Mapping[TopicPartition, Position]


class PositionFile:
    """Positions in one small JSON file, which is replaced as a whole: a crash leaves the old one or the new one."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)

    def load(self) -> dict[TopicPartition, Position]:
        """The positions that were saved last; empty where none were. CorruptFileError where the file is no such
        file."""
        try:
            text = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        try:
            kept = json.loads(text)
            if kept["version"] != VERSION:
                raise ConfigError(f"{self._path} has version {kept['version']}; this program reads version {VERSION}")
            return {
                TopicPartition(topic, int(partition)): Position.parse(position)
                for topic, partitions in kept["positions"].items()
                for partition, position in partitions.items()
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            position = error.pos if isinstance(error, json.JSONDecodeError) else 0
            raise CorruptFileError(str(self._path), position, f"no file of positions: {error!r}") from None

    def save(self, positions: Positions) -> None:
        """Replaces the positions of these partitions, and keeps the others. On stable storage when it returns."""
        by_topic: dict[str, dict[str, str]] = {}
        for tp, position in sorted({**self.load(), **positions}.items()):
            by_topic.setdefault(tp.topic, {})[str(tp.partition)] = _text(tp, position)
        waiting = self._path.with_name(self._path.name + ".tmp")
        with open(waiting, "w", encoding="utf-8") as file:
            json.dump({"version": VERSION, "positions": by_topic}, file, indent=1)
            file.flush()
            sync_all(file.fileno())  # BEFORE the new name: an empty file must not take the old one's place
        os.replace(waiting, self._path)
        directory = os.open(self._path.absolute().parent, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # a file system that cannot sync a directory keeps the name by itself
                sync_all(directory)
        finally:
            os.close(directory)

    def __repr__(self) -> str:
        return f"PositionFile({str(self._path)!r})"


class SqlPositions:
    """Positions in a table, through a DB-API connection of the program: sqlite3, psycopg, MySQLdb and others.

    It executes and never commits: what it writes belongs to the transaction that the program has open. After a rollback
    `load` again, and seek: the consumer stands behind records whose rows are not there.
    """

    def __init__(
        self, connection: Any, reader: str, *, table: str = DEFAULT_TABLE, paramstyle: str | None = None
    ) -> None:
        if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", table, re.ASCII):
            raise ConfigError(f"table={table!r} must be a name of letters, digits and underscores, maybe with a schema")
        style = paramstyle or _paramstyle(connection)
        if style not in PLACEHOLDERS:
            raise ConfigError(f"paramstyle={style!r} must be one of {', '.join(PLACEHOLDERS)} (PEP 249)")
        self._connection = connection
        self._reader = reader
        self._table = table
        self._mark = PLACEHOLDERS[style]
        self._known: dict[TopicPartition, str] = {}

    def create_table(self) -> None:
        """Makes the table unless it is there."""
        self._execute(
            f"CREATE TABLE IF NOT EXISTS {self._table} (reader VARCHAR(200) NOT NULL, topic VARCHAR(249) NOT NULL,"
            " partition_number INTEGER NOT NULL, position VARCHAR(100) NOT NULL,"
            " PRIMARY KEY (reader, topic, partition_number))"
        )

    def load(self) -> dict[TopicPartition, Position]:
        """The positions that were committed last under this reader's name."""
        found: dict[TopicPartition, str] = {}
        cursor = self._connection.cursor()
        try:
            columns = "topic, partition_number, position"
            wanted = f"SELECT {columns} FROM {self._table} WHERE reader = {self._mark}"
            cursor.execute(wanted, (self._reader,))
            for topic, partition, position in cursor.fetchall():
                found[TopicPartition(topic, int(partition))] = position
        finally:
            cursor.close()
        self._known = found
        return {tp: Position.parse(position) for tp, position in found.items()}

    def save(self, positions: Positions) -> None:
        """Writes these positions, in the transaction that is open.

        PositionsTakenError where another program has saved some of them under this name since `load`: roll back.
        """
        for tp, position in positions.items():
            text, before = _text(tp, position), self._known.get(tp)
            if text != before:
                self._write(tp, text, before)
                self._known[tp] = text

    def _write(self, tp: TopicPartition, text: str, before: str | None) -> None:
        mark, key = self._mark, (self._reader, tp.topic, tp.partition)
        if before is None:
            columns = "reader, topic, partition_number, position"
            self._execute(f"INSERT INTO {self._table} ({columns}) VALUES ({', '.join([mark] * 4)})", (*key, text))
            return
        changed = f"UPDATE {self._table} SET position = {mark} WHERE {KEY.format(mark)} AND position = {mark}"
        if self._execute(changed, (text, *key, before)) != 1:
            raise PositionsTakenError(
                f"{tp}: the position of reader {self._reader!r} is not {before} any more: another program reads under"
                " this name; roll back, and end one of the two"
            )

    def _execute(self, statement: str, values: tuple[object, ...] = ()) -> int:
        cursor = self._connection.cursor()
        try:
            cursor.execute(statement, values)
            return int(cursor.rowcount)
        finally:
            cursor.close()

    def __repr__(self) -> str:
        return f"SqlPositions({self._reader!r}, table={self._table!r})"


def _text(tp: TopicPartition, position: Position) -> str:
    """The position as it is kept. TypeError for an offset alone, which would be refused at the next `load`, after a
    restart."""
    if not isinstance(position, Position):
        raise TypeError(f"{tp}: save a Position, not {position!r}; take consumer.position(tp) or record.position")
    return str(position)


def _paramstyle(connection: Any) -> str:
    """The style of the module which made the connection; it, or a package around it, has to say so (PEP 249)."""
    home = type(connection).__module__
    while home:
        style = getattr(sys.modules.get(home), "paramstyle", None)
        if isinstance(style, str):
            return style
        home = home.rpartition(".")[0]
    raise ConfigError(
        f"{type(connection).__module__} does not say how it writes parameters; give paramstyle={'|'.join(PLACEHOLDERS)}"
    )
