"""`penstock log dump|verify DIR`: what the segment files of a partition hold, read as they lie on disk.

Works on a directory of a stopped node or a copy; beside a running one the last batch may be half written. Only reads.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.options import AsJson
from penstock.cli.output import print_json, print_table
from penstock.errors import ConfigError, CorruptMessageError

if TYPE_CHECKING:
    from penstock.record.batch import BatchHeader

app = typer.Typer(help="Look into the files of a partition.", no_args_is_help=True)

PartitionDirectory = Annotated[Path, typer.Argument(metavar="DIR", help="A partition's directory, like data/orders-0.")]


@dataclass(frozen=True, slots=True)
class Finding:
    """One batch of one file, or what is wrong at a position."""

    file: str
    position: int
    header: BatchHeader | None
    problem: str = ""


@app.command()
def dump(directory: PartitionDirectory, as_json: AsJson = False) -> None:
    """Print every record batch: offsets, epoch, count, size, codec."""
    columns = [
        "file",
        "position",
        "base offset",
        "last offset",
        "epoch",
        "records",
        "bytes",
        "codec",
        "timestamp",
        "problem",
    ]
    rows = [_row(finding) for finding in findings(directory, gaps_allowed=True)]
    if as_json:
        for row in rows:
            print_json(dict(zip((name.replace(" ", "_") for name in columns), row, strict=True)))
    else:
        print_table(columns, rows)


@app.command()
def verify(
    directory: PartitionDirectory,
    compacted: Annotated[bool, typer.Option("--compacted", help="Of a compacted topic: gaps are no fault.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check every checksum and that offsets are dense; exit 1 when something is wrong."""
    batches = records = 0
    problems: list[Finding] = []
    for finding in findings(directory, gaps_allowed=compacted):
        if finding.header is None or finding.problem:
            problems.append(finding)
        else:
            batches += 1
            records += finding.header.record_count
    if as_json:
        wrong = [{"file": p.file, "position": p.position, "problem": p.problem} for p in problems]
        print_json({"batches": batches, "records": records, "problems": wrong})
    else:
        for problem in problems:
            print(f"{problem.file}: byte {problem.position}: {problem.problem}")
        print(f"{batches} batches with {records} records are good, {len(problems)} problems")
    if problems:
        raise typer.Exit(1)


def findings(directory: Path, *, gaps_allowed: bool) -> Iterator[Finding]:
    """Every batch in the order of the log; after damage, the rest of that file is not looked at."""
    segments = sorted(directory.glob("*.log"))
    if not segments:
        raise ConfigError(f"{directory}: no segment files (*.log); give a partition's directory")
    expected: int | None = None
    for segment in segments:
        if segment.stat().st_size == 0:
            continue
        with (
            segment.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
            memoryview(mapped) as data,
        ):
            for finding in _segment_findings(segment.name, data, expected, gaps_allowed):
                if finding.header is not None:
                    expected = finding.header.next_offset
                yield finding


def _segment_findings(name: str, data: memoryview, expected: int | None, gaps_allowed: bool) -> Iterator[Finding]:
    from penstock.record.batch import iter_headers, verify_crc

    end = 0
    try:
        for position, header in iter_headers(data):
            problem = ""
            if not verify_crc(data, position, header):
                problem = "the checksum does not fit"
            elif expected is not None and (
                header.base_offset < expected or (header.base_offset > expected and not gaps_allowed)
            ):
                problem = f"begins at offset {header.base_offset}, expected {expected}"
            yield Finding(name, position, header, problem)
            expected, end = header.next_offset, position + header.size_bytes
    except CorruptMessageError as error:
        yield Finding(name, end, None, str(error))
        return
    if end < len(data):
        yield Finding(name, end, None, f"{len(data) - end} bytes that are no whole batch")


def _row(finding: Finding) -> tuple[object, ...]:
    header = finding.header
    if header is None:
        return (finding.file, finding.position, "", "", "", "", "", "", "", finding.problem)
    return (
        finding.file,
        finding.position,
        header.base_offset,
        header.last_offset,
        header.leader_epoch,
        header.record_count,
        header.size_bytes,
        header.codec.name.lower(),
        header.max_timestamp_ms,
        finding.problem,
    )
