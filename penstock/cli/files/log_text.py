"""Prints the rows of `penstock log` for people: columns for a dump, sentences for findings and changes.

Rows are printed as they come. Columns are padded on a terminal and separated by tabs in a pipe. Bytes that are no text
are shown in hex. The rows come through `tool_process.py`; their meaning is defined in storage/tools.
"""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.cli.output import json_text, say
from penstock.plain_text import one_line

Row = Mapping[str, Any]
NOTHING = "-"

_COLUMNS: dict[str, Sequence[tuple[str, int]]] = {
    "batch": (
        ("file", 26),
        ("position", 10),
        ("base_offset", 12),
        ("last_offset", 12),
        ("leader_epoch", 12),
        ("records", 8),
        ("bytes", 8),
        ("codec", 7),
        ("max_timestamp_ms", 16),
        ("kind", 13),
        ("producer_id", 11),
        ("producer_epoch", 14),
        ("base_sequence", 13),
    ),
    "record": (("offset", 12), ("timestamp_ms", 14), ("key", 16), ("value", 40), ("headers", 0)),
    "index": (("file", 26), ("position", 9), ("offset", 12), ("log_position", 12)),
    "timeindex": (("file", 30), ("position", 9), ("timestamp_ms", 14), ("offset", 12)),
    "txnindex": (
        ("file", 30),
        ("position", 9),
        ("producer_id", 11),
        ("first_offset", 12),
        ("last_offset", 12),
        ("last_stable_offset", 18),
    ),
    "epoch": (("file", 26), ("epoch", 8), ("start_offset", 12)),
    "snapshot": (("file", 30), ("offset", 12), ("leader_epoch", 12), ("producers", 9)),
    "producer": (
        ("producer_id", 12),
        ("epoch", 5),
        ("last_append_ms", 14),
        ("transaction_start_offset", 24),
        ("coordinator_epoch", 17),
        ("batches", 0),
    ),
    "checkpoint": (("file", 34), ("topic", 24), ("partition", 9), ("offset", 12)),
}


class _Names:
    """File names relative to the path that the user gave."""

    def __init__(self, path: Path) -> None:
        self._path = path if path.is_dir() else path.parent

    def short(self, file: str) -> str:
        name = os.path.relpath(file, self._path)
        return file if name.startswith(".") and not os.path.basename(file).startswith(".") else name


class DumpText:
    """The rows of a dump."""

    def __init__(self, path: Path) -> None:
        self._names = _Names(path)
        self._type = ""

    def row(self, row: Row) -> None:
        kind = row["type"]
        columns = _COLUMNS.get(kind, ())
        if kind == "problem":
            say(f"{self._names.short(row['file'])}: byte {row['position']}: {row['problem']}")
        elif kind == "note":
            say(f"{self._names.short(row['file'])} {row['note']}")
        elif not columns:
            for name, value in row.items():
                if name not in ("type", "file"):
                    say(f"{name}: {value}")
        else:
            if kind != self._type:
                _say_row([name.replace("_", " ") for name, _ in columns], columns)
            self._type = kind
            _say_row([self._cell(row, name) for name, _ in columns], columns)

    def _cell(self, row: Row, name: str) -> str:
        if name == "file":
            return self._names.short(row[name])
        if name in ("key", "value") and "coordinator_epoch" in row:
            return f"{row['kind']} marker" if name == "key" else f"coordinator epoch {row['coordinator_epoch']}"
        if name in ("key", "value"):
            return _bytes_cell(row, name)
        if name == "headers":
            return ", ".join(f"{header['name']}={_bytes_cell(header, 'value')}" for header in row.get(name, ()))
        if name == "batches":
            return " ".join(f"{b['base_sequence']}..{b['last_sequence']}@{b['base_offset']}" for b in row[name])
        return NOTHING if row[name] is None else str(row[name])


def _say_row(cells: Sequence[str], columns: Sequence[tuple[str, int]]) -> None:
    if not sys.stdout.isatty():
        say(*cells)
        return
    shown = map(one_line, cells)
    say("  ".join(cell.ljust(width) for cell, (_, width) in zip(shown, columns, strict=True)).rstrip())


def _bytes_cell(row: Row, name: str) -> str:
    """Text without characters that would break the line; `…` and the size if it was cut."""
    if row.get(name) is not None:
        text = json_text(row[name])[1:-1]
    elif f"{name}_base64" in row:
        text = "0x" + base64.b64decode(row[f"{name}_base64"]).hex()
    else:
        return "null"
    whole = row.get(f"{name}_bytes")
    return text if whole is None else f"{text}… ({whole} bytes)"


class _FindingText:
    """Findings; a remedy is printed the first time it applies."""

    def __init__(self, path: Path) -> None:
        self.names = _Names(path)
        self._remedies: set[str] = set()

    def print(self, row: Row) -> None:
        where = [self.names.short(row["file"])]
        if "position" in row:
            where.append(f"byte {row['position']}")
        if "offset" in row:
            where.append(f"offset {row['offset']}")
        say(f"{row['severity']}: {', '.join(where)}: {row['what']}")
        remedy = row.get("remedy", "")
        if remedy and remedy not in self._remedies:
            self._remedies.add(remedy)
            say(f"    {remedy}")


class VerifyText:
    """The rows of a verification."""

    def __init__(self, path: Path) -> None:
        self._findings = _FindingText(path)
        self._file = ""
        self._unprinted: Row | None = None

    def row(self, row: Row) -> None:
        if row["type"] == "finding":
            self._findings.print(row)
            self._file = row["file"]
        elif row["type"] == "log":
            self._unprinted = row
            if self._file.startswith(row["directory"]):
                self._print_log()
        else:
            if row["logs"] == 1:
                self._print_log()
            self._print_summary(row)

    def _print_log(self) -> None:
        """Prints the log if something is to be reported: a log dir may have thousands of sound logs."""
        row, self._unprinted = self._unprinted, None
        if row is not None:
            flushed = f", flushed up to {row['recovery_point']}" if "recovery_point" in row else ""
            offsets = f"offsets {row['log_start_offset']} to {row['log_end_offset']}{flushed}"
            say(f"{_name(row)}: {offsets}; {_counts(row, 'segment', 'batch', 'record')}")

    def _print_summary(self, row: Row) -> None:
        damage, warnings, notes = row["damage"], row["warning"], row["note"]
        words = [f"damage in {_plural(damage, 'place')}"] if damage else []
        words += [_plural(warnings, "warning")] if warnings else []
        words = words or ["sound"]
        words += [_plural(notes, "note")] if notes else []
        say(f"{_counts(row, 'log', 'batch', 'record')}: {', '.join(words)}; {_speed(row)}")


class RecoveryText:
    """The rows of a recovery, and of the plan of a truncation."""

    def __init__(self, path: Path, *, dry_run: bool) -> None:
        self._findings = _FindingText(path)
        self._names = self._findings.names
        self._would = "would have " if dry_run else ""

    def row(self, row: Row) -> None:
        kind = row["type"]
        if kind == "finding":
            self._findings.print(row)
        elif kind == "change":
            say(self._would + self._change(row))
        elif kind == "truncation":
            self._print_truncation(row)
        elif kind == "restart":
            say(self._damage(row))
            start, offset = row["log_start_offset"], row["offset"]
            say(f"    only deleted records are damaged, below the log start {start}: the files will begin at {offset},")
            say("    and no record that can be read is lost")
        elif kind == "recovered" and row["cut_bytes"]:
            say(f"{_name(row)}: ends at offset {row['log_end_offset']}, {row['cut_bytes']} bytes were cut off")
        elif kind == "summary":
            refused = f", {row['refused']} damaged and not changed" if row["refused"] else ""
            done = " (none was made)" if row["dry_run"] else ""
            changes = _plural(row["changes"], "change")
            say(f"{_plural(row['logs'], 'log')} recovered{refused}; {changes}{done}; {_speed(row)}")
            say("checked from the recovery points on; `penstock log verify` checks everything")

    def _change(self, row: Row) -> str:
        file = self._names.short(row["file"])
        if row["action"] == "renamed":
            return f"renamed {file} to {os.path.basename(row['to'])}"
        if row["action"] == "cut":
            return f"cut {row['bytes']} bytes off the end of {file}"
        return f"{row['action']} {file} ({row['bytes']} bytes)"

    def _print_truncation(self, row: Row) -> None:
        say(self._damage(row))
        lost = f"{row['lost_offsets']} offsets, {row['offset']} to {row['offset'] + row['lost_offsets'] - 1}, are lost"
        readable = f"{_plural(row['readable_records'], 'record')} of them can be read today"
        say(f"    if the log is cut there, it ends at offset {row['offset']}: {lost}; {readable}")
        if "caution" in row:
            say(f"    {row['caution']}")

    def _damage(self, row: Row) -> str:
        return f"{_name(row)}: {self._names.short(row['file'])}, byte {row['position']}: {row['what']}"


def _plural(count: int, word: str) -> str:
    return f"{count} {word if count == 1 else _many(word)}"


def _many(word: str) -> str:
    return f"{word}{'es' if word.endswith('ch') else 's'}"


def _counts(row: Row, *words: str) -> str:
    """The row's counts, each with its word; the row has them under the plural."""
    return ", ".join(_plural(row[_many(word)], word) for word in words)


def _name(row: Row) -> str:
    """A log's name: its directory's."""
    return os.path.basename(os.path.abspath(str(row["directory"])))


def _speed(row: Row) -> str:
    return f"{row['read_bytes'] / 1e6:.1f} MB in {row['seconds']:.1f} s, {row['mb_per_s']:.0f} MB/s"
