"""Each role with exactly its rights, and without each of them: python -m tests.rights [--roles reader,…] [--spark].

A secured node with ACLs, and one user for each role of `penstock acls roles`. Prints a table role × right taken away ×
tool → the time and the error's text, and what is wrong with it. It is wrong when a tool is refused with all rights of
its role, works without one that it is said to need, or does not say within seconds, in one line, which right it lacks.
--spark has Spark and the jobs as well. Loopback only; a minute, or three with Spark.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.rights.matrix import Outcome, Tool, outcomes
from tests.rights.roles import TOOLS
from tests.rights.stage import staged
from tests.support.campaign.frame import Campaign, Run
from tests.support.campaign.options import commas, option


@dataclass(frozen=True, slots=True)
class Options:
    roles: tuple[str, ...] = option((), "names with commas; all without it", type=commas)
    spark: bool = option(False, "Spark and the jobs, too")


def play(run: Run[Options]) -> None:
    every = run.enter(_tools(with_spark=run.options.spark))
    stage = run.enter(staged())
    for role in run.options.roles or every:
        for found in outcomes(stage, role, every[role]):
            run.say(line(found))
            if found.trouble:
                run.report.wrong(role, line(found))


def line(found: Outcome) -> str:
    right = found.without
    without = "all rights" if right is None else f"without {right.operation.value} on {right.resource_type.value}"
    shown = found.text.splitlines()[0] if found.text else "works"
    trouble = f"WRONG ({found.trouble}): " if found.trouble else ""
    return f"{found.role:24} {without:36} {found.tool.name:44} {found.seconds:5.1f} s  {trouble}{shown}"


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


CAMPAIGN = Campaign("tests.rights", __doc__, Options, play)

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
