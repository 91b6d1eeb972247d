"""Floods at a node, and what honest clients get done beside them: python -m tests.attack --floods.

Prints a table (markdown) and a verdict; exit code 1 for any row that misses a bound, or for a mutant that no flood
notices. `--list` names the rows. Loopback only, bounded in count and in time: a quarter of an hour, or a little more.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from tests.attack.floods import mutants
from tests.attack.floods.campaign import Settings, run
from tests.attack.floods.stage import has_six
from tests.attack.floods.table import ROWS
from tests.attack.floods.verdict import MACHINE, MISSED, Played, head, line


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack --floods", description="A node, flooded.")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="rows whose name has it, or matches it")
    parser.add_argument("--seconds", type=float, default=Settings().seconds, help="of each flood")
    parser.add_argument("--share", type=float, default=Settings().share, help="of a core, for the flooder")
    parser.add_argument("--list", action="store_true", help="the rows, and nothing else")
    parser.add_argument("--json", type=Path, metavar="FILE", help="everything that was measured")
    parser.add_argument("--mutants", action="store_true", help="nodes without a limit, which a flood must notice")
    given = parser.parse_args(arguments)
    rows = [row for row in ROWS if _is_wanted(row.name, given.only)]
    if not has_six():
        rows = [row for row in rows if not row.host]
        print("this machine has no IPv6: its rows are left out", file=sys.stderr)
    if given.list:
        print("\n".join(row.name for row in rows))
        return 0
    logging.disable(logging.CRITICAL)
    settings = Settings(given.seconds, share=given.share)
    if given.mutants:
        return mutants.run_all(given.only, settings)
    print("\n".join(head()), flush=True)
    played = run(rows, settings, lambda one: print(line(one), flush=True))
    if given.json:
        given.json.write_text(json.dumps([one.as_json() for one in played], indent=1), encoding="utf-8")
    return _judged(played)


def _is_wanted(name: str, only: Sequence[str]) -> bool:
    return not only or any(part in name or fnmatchcase(name, part) for part in only)


def _judged(played: Sequence[Played]) -> int:
    missed = [one for one in played if one.verdict == MISSED]
    unsaid = sum(one.verdict == MACHINE for one in played)
    print(f"\n{len(missed)} of {len(played)} floods missed a bound; {unsaid} say nothing: the machine was too busy")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
