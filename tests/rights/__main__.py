"""Each role's tools with exactly its rights, and with each of them taken away: python -m tests.rights [--spark].

A secured node with ACLs, and one user for each role of `penstock acls roles`. Prints a table role × right taken away ×
tool → the time and the error's text, and what is wrong with it. Exit code 1 where a tool is refused with all rights of
its role, works without one that it is said to need, or does not say within seconds, in one line, which right it lacks.
--spark has Spark and the jobs as well. Loopback only; a minute, or three with Spark.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from tests.rights.matrix import Outcome, Tool, outcomes
from tests.rights.roles import TOOLS
from tests.rights.stage import staged


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.rights", description="Least rights, and each taken away.")
    parser.add_argument("--roles", default="", help="names with commas; all without it")
    parser.add_argument("--spark", action="store_true", help="Spark and the jobs, too")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    wrong = 0
    with _tools(with_spark=options.spark) as every, staged() as stage:
        for role in options.roles.split(",") if options.roles else every:
            for found in outcomes(stage, role, every[role]):
                wrong += bool(found.trouble)
                print(line(found), flush=True)
    print(f"{wrong} wrong" if wrong else "nothing is wrong")
    return 1 if wrong else 0


def line(found: Outcome) -> str:
    right = found.without
    without = "all rights" if right is None else f"without {right.operation.value} on {right.resource_type.value}"
    told = found.text.splitlines()[0] if found.text else "works"
    trouble = f"WRONG ({found.trouble}): " if found.trouble else ""
    return f"{found.role:24} {without:36} {found.tool.name:44} {found.seconds:5.1f} s  {trouble}{told}"


@contextmanager
def _tools(*, with_spark: bool) -> Iterator[Mapping[str, Sequence[Tool]]]:
    if not with_spark:
        yield TOOLS
        return
    from penstock.spark.session import spark_session
    from tests.rights.spark import spark_tools

    session = spark_session("rights", "local[2,2]", quick=True, logs_failures=False)
    try:
        yield {**TOOLS, **spark_tools(session)}
    finally:
        session.stop()


if __name__ == "__main__":
    sys.exit(main())
