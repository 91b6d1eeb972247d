"""Mistakes in shipped code, each with the fault that must notice it: a campaign that never fails proves nothing.

A mutant is text: in a copy of the tree, `old` becomes `new` in the source of one function (`Edit`, as the simulator's
mutants are). The copy is whole, because the code runs in the nodes, in the driver and in Spark's Python workers. The
campaign of that copy plays one fault; the mutant is noticed if something was not as the page promises. That the fault
holds without the mutant is what the campaign itself shows.
"""

from __future__ import annotations

import inspect
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.transactions.atomic_batches import batch_checks
from broker.transactions.atomic_batches.decisions import AtomicBatchDecisions
from penstock.spark.writing import batch_key, foreach_batch, last_will, refusals, sink
from tests.simulation.cluster.mutants.edit import Edit
from tests.spark_exactly_once.faults import checkpoints, tasks, writes
from tests.spark_exactly_once.faults.promise import ROOT
from tests.spark_exactly_once.faults.table import FAULTS, NOT_PLAYED, Play, name_of
from tests.support.campaign.frame import Campaign, Run, to_stderr

COPIED: Final = ("penstock", "broker", "metadata", "raft", "storage", "tests")
ALONE: Final = ("pyspark_penstock.py", "docs/spark.md")
PLAY_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    fault: Play
    edits: tuple[Edit, ...]

    @property
    def fault_name(self) -> str:
        return next(name_of(kind, self.fault) for kind, plays in FAULTS.items() if self.fault in plays)


MUTANTS: Final = (
    Mutant(
        "a repetition has as many rows, and that is enough",
        checkpoints.plan_with_as_many_other_rows,
        (
            Edit(
                refusals.RowsWritten.is_repeated_by,
                "return same_number and (not rows.number or self.checksum in (rows.checksum, NO_CHECKSUM))",
                "return same_number",
            ),
        ),
    ),
    Mutant(
        "a repetition may have any rows",
        checkpoints.one_batch_and_the_topic_grew,
        (Edit(refusals.check_repetition, "if committed.is_repeated_by(rows):", "if True:"),),
    ),
    Mutant(
        "a version below the last one is written",
        checkpoints.further,
        (Edit(batch_checks.check_version, "if version < found.last_version:", "if False:"),),
    ),
    Mutant(
        "a version that was committed is written again",
        checkpoints.note_of_the_commit,
        (
            Edit(
                AtomicBatchDecisions.begin,
                "if version == found.last_version:",
                "if version == found.last_version and not request.run:",
            ),
            Edit(
                AtomicBatchDecisions.commit,
                "if version == found.last_version:",
                "if version == found.last_version and not request.writers:",
            ),
        ),
    ),
    Mutant(
        "a task that fails leaves what it wrote open",
        tasks.a_row_that_no_topic_takes,
        (Edit(sink._give_up, "writer.abort(timeout=GIVE_UP_S)", "pass"),),
    ),
    Mutant(
        "rows that were cut off count as ended",
        tasks.the_only_task_dies_for_good,
        (Edit(sink.Writing.exactly_once, "if self.tools.is_cut_off():", "if False:"),),
    ),
    Mutant(
        "a task leaves no last will",
        tasks.pythons_are_killed_always,
        (Edit(sink.Writing.exactly_once, "self.tools.last_wills.leave(will)", "pass"),),
    ),
    Mutant(
        "a last will aborts what others wrote too",
        tasks.pythons_are_killed_once,
        (
            Edit(
                last_will._abort,
                "batches.abort_writers(first.application, writers, run=first.run, timeout=timeout_s)",
                "batches.abort(first.application, 0, run=first.run)",
            ),
        ),
    ),
    Mutant(
        "writers that were not accepted are committed too",
        tasks.twin,
        (
            Edit(
                AtomicBatchDecisions.settle,
                "is_committed=transaction.producer_id in accepted",
                "is_committed=bool(accepted)",
            ),
        ),
    ),
    Mutant(
        "a batch has all the time that it takes",
        tasks.too_long,
        (Edit(sink.Writing._begin, "timeout_ms=self.options.timeout_ms", "timeout_ms=900_000"),),
    ),
    Mutant(
        "the name of a write is the same in each topic",
        writes.one_name_for_two_topics,
        (Edit(batch_key.named_within, 'whole = f"{name}@{topic}"', "whole = name"),),
    ),
    Mutant(
        "two writes of a query have one name",
        writes.two_writes_of_a_batch,
        (
            Edit(
                foreach_batch.write_batch,
                'full_name = f"{application or query}/{name}"',
                'full_name = f"{application or query}/{name[:3]}"',
            ),
        ),
    ),
    Mutant(
        "a run that was replaced goes on",
        writes.second_run,
        (Edit(batch_checks.check_run, "if found is not None and run and run in found.fenced_runs:", "if False:"),),
    ),
    Mutant(
        "other rows are accepted without the option",
        writes.a_table_that_grew,
        (Edit(refusals.check_repetition, "if key.version == options.accepts:", "if key.version >= options.accepts:"),),
    ),
)


def path_of(edit: Edit) -> Path:
    """The file of an edit, from the tree's root."""
    return Path(inspect.getsourcefile(edit.function) or "").resolve().relative_to(ROOT)


def edited_text(edit: Edit, text: str) -> str:
    """A file's text with the edit of its function; ValueError where its place has changed."""
    first = edit.function.__code__.co_firstlineno - 1
    before = text.splitlines(keepends=True)
    last = first + len(inspect.getblock(before[first:]))
    function = "".join(before[first:last])
    if function.count(edit.old) != 1:
        raise ValueError(f"{edit.function.__qualname__}: {edit.old!r} stands there {function.count(edit.old)} times")
    return "".join((*before[:first], function.replace(edit.old, edit.new), *before[last:]))


def copy_tree(mutant: Mutant, directory: Path) -> Path:
    """A copy of what the campaign needs, with the mistake. The edits of one mutant have as many lines as before."""
    tree = directory / "tree"
    for name in COPIED:
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ALONE:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    for edit in mutant.edits:
        path = tree / path_of(edit)
        path.write_text(edited_text(edit, path.read_text(encoding="utf-8")), encoding="utf-8")
    return tree


@dataclass(frozen=True, slots=True)
class Options:
    """A mutant, and the seed of its fault."""

    mutant: Mutant
    seed: int = 1


def play(run: Run[Options]) -> None:
    """Plays the mutant's fault with its tree, in processes of its own; wrong is a mutant that is not noticed."""
    mutant = run.options.mutant
    tree = copy_tree(mutant, run.directory)
    words = ("--seed", str(run.options.seed), "--only", mutant.fault_name)
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark_exactly_once", *words],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "TMPDIR": str(run.directory)},
        capture_output=True,
        text=True,
        timeout=PLAY_S,
        check=False,
    )
    facts = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    problems = [text for one in facts for text in one["examples"] if not text.startswith(f"{NOT_PLAYED}: ")]
    run.report.figures |= {"mutant": mutant.name, "fault": mutant.fault_name, "problems": problems}
    if not problems:
        run.report.wrong(
            "not-noticed", "; ".join(text for one in facts for text in one["examples"]) or done.stderr[-1_000:]
        )


def run_all(only: Sequence[str], seed: int) -> bool:
    """Every mutant whose name has one of these words, or all; False if one is not noticed."""
    is_ok = True
    for mutant in MUTANTS:
        if only and not any(word in mutant.name for word in only):
            continue
        report = MISTAKES.run(Options(mutant, seed), to_stderr)
        print(json.dumps(report.as_json()), flush=True)
        is_ok = is_ok and report.ok
    return is_ok


MISTAKES = Campaign("tests.spark_exactly_once.faults.mutants", __doc__, Options, play)
