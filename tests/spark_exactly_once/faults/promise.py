"""The promise of Spark's sink, as docs/spark.md prints it: what a query and what readers must see after a fault.

The page is the judge's only source. A fault names its row by the first words; the other two cells of that row say what
must have happened, and QUERY and READERS say how each cell is checked. A cell that neither knows is an error: a page
that promises something else must be checked for something else.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
PAGE: Final = ROOT / "docs" / "spark.md"
TASK_ERROR: Final = "broken by the campaign"
"""The error of a task that fails."""
LONG_PAUSE: Final = "A query that is started again after that repeats its last micro-batch"
"""The one fault without a row: a sentence of the same section promises its duplicates."""


@dataclass(frozen=True, slots=True)
class ForQuery:
    """The error of the query; "": it ends without one. `writes_nothing`: no record is appended, committed or not."""

    error: str = ""
    writes_nothing: bool = False


@dataclass(frozen=True, slots=True)
class ForReaders:
    """`waits`: a failed attempt may hold readers of committed records up until the next start."""

    waits: bool = False


QUERY: Final = {
    "it goes on": ForQuery(),
    "the next start repeats it": ForQuery(),
    "two writes": ForQuery(),
    "the next start repeats the batch, and writes nothing": ForQuery(writes_nothing=True),
    "it writes nothing": ForQuery(writes_nothing=True),
    "it fails": ForQuery(TASK_ERROR),
    "it fails with the task's error": ForQuery(TASK_ERROR),
    "it fails with Spark's error": ForQuery("Python worker exited unexpectedly"),
    "`AtomicBatchVersionError`: nothing is written": ForQuery(
        "AtomicBatchVersionError.*is repeated with .* of which none were written", writes_nothing=True
    ),
    "`AtomicBatchVersionError`: it names `txnGoesBackTo`": ForQuery(
        r"AtomicBatchVersionError.*set the option txnGoesBackTo=\d", writes_nothing=True
    ),
    "`AtomicBatchVersionError`: it names `txnAcceptsRepetition`": ForQuery(
        r"AtomicBatchVersionError.*txnAcceptsRepetition=\d+ goes on", writes_nothing=True
    ),
    "the run that begins a micro-batch later goes on, the other ends with `ProducerFencedError`": ForQuery(
        "ProducerFencedError.*another run writes as"
    ),
    "a warning at half of the time; then it fails": ForQuery(r"set a larger kafka\.transaction\.timeout\.ms"),
}
"""By the second cell."""
READERS: Final = {
    "each row once": ForReaders(),
    "each topic has its rows once": ForReaders(),
    "each row once, up to the last decision": ForReaders(),
    "the rows as they were committed first": ForReaders(),
    "nothing of it": ForReaders(),
    "nothing of the batch": ForReaders(),
    "nothing of the batch; they do not wait: the task, its last will or the driver aborts it": ForReaders(),
    "each row once; until then, or for `kafka.transaction.timeout.ms`, they wait": ForReaders(waits=True),
}
"""By the third cell."""


@dataclass(frozen=True, slots=True)
class Promise:
    """One row of the table."""

    happens: str
    query: ForQuery
    readers: ForReaders


@dataclass(frozen=True, slots=True)
class Seen:
    """After a fault: the query's error ("" for none), the numbers that readers of committed records find in the target
    beside those that should be there, how many records were appended, and whether another program's record is read."""

    error: str
    committed: Counter[int]
    wanted: Counter[int]
    appended: int
    is_another_read: bool


@cache
def promises() -> tuple[Promise, ...]:
    """The rows of the page's table; KeyError for a cell that no check is known for."""
    section = PAGE.read_text(encoding="utf-8").split("\n## Exactly once\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return tuple(Promise(happens, QUERY[query], READERS[readers]) for happens, query, readers in rows)


def promise_of(row: str) -> Promise:
    """The row that begins so."""
    (found,) = [one for one in promises() if one.happens.startswith(row)]
    return found


def problems_of(promise: Promise, seen: Seen) -> list[str]:
    """The differences between what the page promises and what was seen; none if it holds."""
    found = []
    wanted = promise.query.error
    if wanted and not re.search(wanted, seen.error, re.DOTALL):
        found.append(f"the query should end with {wanted!r}: {seen.error[:400] or 'it ended without an error'}")
    if seen.error and not wanted:
        found.append(f"the query should go on: {seen.error[:800]}")
    if promise.query.writes_nothing and seen.appended:
        found.append(f"{seen.appended} records were appended, where nothing should be written")
    if missing := seen.wanted - seen.committed:
        found.append(f"{missing.total()} rows are missing: {sorted(missing)[:5]}")
    if more := seen.committed - seen.wanted:
        found.append(f"{more.total()} rows are there that should not be, or twice: {sorted(more)[:5]}")
    if not seen.is_another_read:
        found.append("readers of committed records wait for a transaction that nobody will end")
    return found
