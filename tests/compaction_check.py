"""Checks that compacted replicas hold each key's last value: python -m tests.compaction_check --data DIR --topic T …

Knows nothing of Penstock: the .log files are read with aiokafka's record code, and what they must hold is folded from
`git log --raw --reverse --no-renames` of the same repositories (or from a file of updates), by this program itself.
Wrong is: a key whose newest record is not its last value; a deleted key whose newest record has a value; a key that
nobody wrote; a record after a newer one of the same key in another partition; bytes that are no batch with a good
checksum; a file of an unfinished swap. A record in a full segment that a newer one replaces is only counted: the
cleaner is late, not wrong. One JSON line on stdout; exit code 1 when something is wrong.
"""

from __future__ import annotations

import argparse
import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from aiokafka.record.memory_records import MemoryRecords

EXAMPLES_MAX = 5
BATCH_OVERHEAD = struct.Struct(">qi")
"""Base offset, and how many bytes of the batch follow."""
Table = dict[bytes, bytes | None]


@dataclass(slots=True)
class Findings:
    """The contents of the replicas of one node."""

    keys: int = 0
    deleted_keys: int = 0
    tombstones: int = 0
    records: int = 0
    superseded: int = 0
    segments: int = 0
    bytes: int = 0
    wrong: int = 0
    examples: list[str] = field(default_factory=list)

    def complain(self, what: str) -> None:
        self.wrong += 1
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(what)


# -- what must be there ------------------------------------------------------------------------------------------------


def fold_git(git_directory: str, table: Table) -> None:
    """The last blob of each path; None where the last commit that touched it took it away."""
    parts = [part for part in Path(git_directory).absolute().parts if part not in ("repo", ".git")]
    command = ["git", f"--git-dir={git_directory}", "log", "--raw", "--reverse", "--no-renames", "--no-abbrev"]
    output = subprocess.run([*command, "--format=", "-z", "HEAD"], stdout=subprocess.PIPE, check=True).stdout
    fields = output.split(b"\0")
    for at in range(0, len(fields) - 1, 2):
        status, path = fields[at].rsplit(b" ", 1)[1], fields[at + 1]
        blob = fields[at].split(b" ")[3]
        table[parts[-1].encode() + b":" + path] = None if status.startswith(b"D") else blob


def fold_file(path: str, table: Table) -> None:
    with open(path) as file:
        for line in file:
            key, _, value = line.rstrip("\n").partition(" ")
            table[bytes.fromhex(key)] = bytes.fromhex(value) if value else None


# -- what is there -----------------------------------------------------------------------------------------------------


def check_node(data: Path, topic: str, expected: Table) -> Findings:
    """Every partition of the topic in one log dir against the table."""
    findings = Findings(deleted_keys=sum(value is None for value in expected.values()))
    found: Table = {}
    for directory in sorted(data.glob(f"{topic}-*")):
        if not directory.name.removeprefix(f"{topic}-").isdigit():
            continue
        newest = _read_partition(directory, findings)
        for key in newest.keys() & found.keys():
            findings.complain(f"{key!r} is in {directory.name} and in another partition")
        found.update(newest)
    for key, value in expected.items():
        if found.get(key) != value:
            findings.complain(f"{key!r} is {found.get(key)!r}, must be {value!r}")
    for key in found.keys() - expected.keys():
        findings.complain(f"{key!r} was never written")
    findings.keys = sum(value is not None for value in found.values())
    findings.tombstones = sum(value is None for value in found.values())
    return findings


def _read_partition(directory: Path, findings: Findings) -> Table:
    """The newest value of each key; counts what it sees."""
    newest: Table = {}
    seen_at: dict[bytes, bool] = {}
    last_offset = -1
    segments = sorted(directory.glob("*.log"))
    for leftover in [*directory.glob("*.cleaned"), *directory.glob("*.swap")]:
        findings.complain(f"{leftover} is left")
    for path in segments:
        is_full = path != segments[-1]
        findings.segments += 1
        findings.bytes += path.stat().st_size
        for offset, key, value in _records(path, findings):
            if offset <= last_offset:
                findings.complain(f"{path.name}: offset {offset} after {last_offset}")
            last_offset = offset
            findings.records += 1
            findings.superseded += seen_at.get(key, False) and is_full
            newest[key], seen_at[key] = value, is_full
    return newest


def _records(path: Path, findings: Findings) -> Iterator[tuple[int, bytes, bytes | None]]:
    content, at = path.read_bytes(), 0
    while at < len(content):
        size = BATCH_OVERHEAD.size + BATCH_OVERHEAD.unpack_from(content, at)[1] if len(content) - at > 60 else 0
        batch = MemoryRecords(content[at : at + size]).next_batch() if 60 < size <= len(content) - at else None
        if batch is None or not batch.validate_crc():
            findings.complain(f"{path}: no batch with a good checksum at byte {at}")
            return
        for record in batch:
            yield record.offset, record.key, record.value
        at += size


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compaction_check", description=__doc__.splitlines()[0])
    parser.add_argument("--data", action="append", required=True, help="a log dir; more of them are other nodes'")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--history", action="append", default=[], help="a git directory")
    parser.add_argument("--updates", action="append", default=[], help="a file of updates")
    options = parser.parse_args()
    expected: Table = {}
    for history in options.history:
        fold_git(history, expected)
    for updates in options.updates:
        fold_file(updates, expected)
    nodes = [check_node(Path(data), options.topic, expected) for data in options.data]
    print(json.dumps({"wrong": sum(node.wrong for node in nodes), "nodes": [asdict(node) for node in nodes]}))
    return 1 if any(node.wrong for node in nodes) else 0


if __name__ == "__main__":
    sys.exit(main())
