"""Nodes with one limit taken away, each with the flood that must notice it: a campaign that never fails proves nothing.

Each mutant (mutant_table.py) is the process that ships, started by mutant_node.py. The flood is played without the
mutant first. A mutant is noticed by a bound that is missed with it alone. Where all bounds that are missed with it are
missed without it, too, nothing can be said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from unittest.mock import patch

from penstock.errors import PenstockError
from penstock.local_nodes import node_process as process
from tests.attack.floods.campaign import Settings, run
from tests.attack.floods.mutant_node import mutant_node_command
from tests.attack.floods.mutant_table import MUTANTS, Mutant
from tests.attack.floods.table import ROWS
from tests.attack.floods.verdict import MISSED, Played

NOTICED, NOT_NOTICED = "noticed", "NOT NOTICED"
UNDECIDED: Final = "undecided: the same bounds are missed without it"


@contextmanager
def nodes_of(mutant: Mutant) -> Iterator[None]:
    """The nodes that a Cluster starts within are the mutant's."""
    if not mutant.attribute:
        yield
        return
    name = mutant.name
    with patch.object(process, "node_command", lambda *arguments: mutant_node_command(name, *arguments)):
        yield


def run_all(only: Sequence[str], settings: Settings) -> int:
    """Every mutant that is named, or all; 1 if one is not noticed."""
    wanted = [one for one in MUTANTS if not only or any(part in one.name for part in only)]
    rows = {row.name: row for row in ROWS}
    quiet: dict[str, Played] = {}
    wrong = 0
    print("| mutant | flood | without it | with it | verdict |\n| --- | --- | --- | --- | --- |", flush=True)
    for mutant in wanted:
        if mutant.flood not in quiet:
            quiet[mutant.flood] = run([rows[mutant.flood]], settings, _silent)[0]
        before = quiet[mutant.flood]
        try:
            with nodes_of(mutant):
                after = run([rows[mutant.flood]], settings, _silent, mutant.config)[0]
        except PenstockError as error:  # the node refuses such a configuration
            print(f"| {mutant.name} | {mutant.flood} | {_told(before)} | {error!r:.300} | no node |", flush=True)
            wrong += 1
            continue
        verdict = judged(before, after)
        wrong += verdict == NOT_NOTICED
        print(f"| {mutant.name} | {mutant.flood} | {_told(before)} | {_told(after)} | {verdict} |", flush=True)
    return 1 if wrong else 0


def judged(before: Played, after: Played) -> str:
    """The verdict about a mutant, by its flood without it and with it."""
    if after.kinds_of_misses - before.kinds_of_misses:
        return NOTICED
    return UNDECIDED if before.verdict == MISSED else NOT_NOTICED


def _silent(played: Played) -> None:
    """A mutant has its own line."""


def _told(played: Played) -> str:
    return "; ".join([played.verdict, *played.misses])
