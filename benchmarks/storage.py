"""The log beside the bare work on the same disk, in one run: JSON lines as they come, and a table with the goals.

    python -m benchmarks.storage [--quick] [--only append,read] [--dir DIR]

Every figure stands beside the bare equivalent: the same bytes through os.write, os.pread, a checksum, fdatasync, or
aiokafka's compiled code. Ours and the bare one take turns, and the best round of each counts (group commit: the
median), because whatever else the machine does only makes things slower. Absolute figures do not hold from machine to
machine, the ratios do. `--dir` is where to write: the disk under test. Exit code 1 when a goal is missed.

The sections are in files of their own: storage_log.py (append, read, recovery), storage_verify.py, storage_records.py,
storage_commit.py, storage_cleaner.py, storage_partitions.py; rows, rounds and the table in storage_rows.py. Not here: a
socket, a broker (benchmarks/broker.py), a client (benchmarks/client.py).
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator

from benchmarks.storage_cleaner import cleaner_rows
from benchmarks.storage_commit import commit_rows
from benchmarks.storage_log import append_rows, read_rows, recovery_rows
from benchmarks.storage_partitions import partition_rows
from benchmarks.storage_records import record_rows
from benchmarks.storage_rows import FULL, QUICK, Row, Scale, all_met, print_table
from benchmarks.storage_verify import verify_rows

SECTIONS: dict[str, Callable[[str, Scale], Iterator[Row]]] = {
    "append": append_rows,
    "read": read_rows,
    "recovery": recovery_rows,
    "verify": verify_rows,
    "records": record_rows,
    "cleaning": cleaner_rows,
    "commit": commit_rows,
    "partitions": partition_rows,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storage", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: to see that it runs")
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"some of {','.join(SECTIONS)}")
    parser.add_argument("--dir", help="where to write; the disk under test")
    options = parser.parse_args()
    wanted = options.only.split(",")
    if unknown := set(wanted) - set(SECTIONS):
        parser.error(f"--only {','.join(sorted(unknown))}: choose from {','.join(SECTIONS)}")
    rows: list[Row] = []
    for name in wanted:
        root = tempfile.mkdtemp(prefix="penstock-bench-", dir=options.dir)
        try:
            for row in SECTIONS[name](root, QUICK if options.quick else FULL):
                rows.append(row)
                print(row.as_json(), flush=True)
        finally:
            shutil.rmtree(root)
    print_table(rows)
    return 0 if all_met(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
