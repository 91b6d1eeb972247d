"""The promise of Spark's sink in the table of docs/spark.md: tests hold each row, for the query and for readers."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SINK = "tests/unit/spark/writing/test_exactly_once.py::"
WILLS = "tests/unit/spark/writing/test_last_will.py::"
CLIENTS = "tests/unit/client/producer/transactions/test_atomic_batches.py::"
PLAN = "tests/unit/spark/writing/test_durable_plan.py::"
WRITERS = "tests/unit/broker/transactions/atomic_batches/test_writers.py::"
SPARK = "tests/integration/spark/test_exactly_once.py::"
HELD_BY = {
    "a task fails and is tried again": (SINK + "test_only_the_accepted_attempts_count",),
    "a task fails for good, at what it writes or in front of the sink": (
        SINK + "test_a_task_whose_rows_were_cut_off_has_not_ended_and_aborts_what_it_wrote",
        SINK + "test_abort_goes_as_far_as_the_driver_knows_and_an_error_of_it_ends_nothing",
        SINK + "test_a_task_that_fails_or_is_killed_aborts_what_it_wrote_and_no_other_attempts",
        WRITERS + "test_a_writer_that_is_aborted_alone_leaves_the_version_open_for_the_others",
    ),
    "the Python processes of an executor are killed": (
        SINK + "test_a_task_leaves_its_will_before_its_first_record_and_revokes_it_when_it_has_ended",
        WILLS + "test_a_process_that_is_killed_or_exits_has_its_wills_carried_out",
        CLIENTS + "test_readers_do_not_wait_for_writers_that_another_process_has_aborted_while_the_version_is_open",
    ),
    "a machine is lost": (SINK + "test_what_a_killed_driver_left_open_is_not_committed_by_the_next_run",),
    "the driver is killed between the decision": (
        SINK + "test_a_micro_batch_that_was_committed_writes_nothing_again_but_takes_its_rows",
        SPARK + "test_a_driver_killed_after_its_commit_is_started_again",
    ),
    "a broker or a coordinator is lost": (
        "tests/unit/broker/transactions/atomic_batches/test_campaign.py::"
        "test_versions_are_whole_and_decided_once_whatever_fails",
    ),
    "the newest plan is lost": (
        SINK + "test_a_repetition_with_other_rows_is_told_for_they_would_be_lost",
        PLAN + "test_a_stream_syncs_its_plan_before_it_decides",
        SPARK + "test_a_plan_that_was_lost_and_made_anew_with_as_many_other_rows_is_refused",
    ),
    "the checkpoint is set back further": (
        SINK + "test_a_version_below_the_last_one_is_refused_unless_it_is_the_one_that_is_named",
        SPARK + "test_a_checkpoint_that_was_set_back_is_refused",
    ),
    "a repeated batch has other rows by itself": (
        SINK + "test_a_repetition_with_other_rows_goes_on_where_its_batch_is_named_and_nowhere_else",
        SPARK + "test_rows_of_a_joined_table_that_grew_go_on_by_the_option_that_the_error_names",
    ),
    "a second run of the query": (
        SINK + "test_two_runs_of_one_query_are_told_apart_and_the_remedy_is_told",
        SPARK + "test_a_run_that_another_one_has_fenced_ends",
    ),
    "a micro-batch takes longer": (
        SINK + "test_a_batch_that_took_half_of_its_time_is_a_warning",
        SINK + "test_a_refusal_tells_what_to_do",
    ),
    "a batch write fails": (
        SINK + "test_a_batch_write_that_fails_is_aborted_though_no_task_tells_its_name",
        SPARK + "test_a_batch_write_is_there_as_a_whole_or_not_at_all",
    ),
    "a named batch write runs again": (SINK + "test_a_batch_write_with_a_name_is_written_once_however_often_it_runs",),
    "one name is written to two topics": (SINK + "test_one_name_for_two_topics_is_two_writes",),
}


@cache
def names_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@cache
def rows() -> list[list[str]]:
    """The cells of the table in the section."""
    page = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    section = page.split("\n## Exactly once\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_each_row_says_what_the_query_and_what_readers_see() -> None:
    assert len(rows()) == len(HELD_BY)
    assert all(len(cells) == 3 and all(cells) for cells in rows())


@pytest.mark.parametrize("begin", HELD_BY)
def test_a_test_holds_the_row(begin: str) -> None:
    assert [cells[0] for cells in rows() if cells[0].startswith(begin)], "no such row"
    for held in HELD_BY[begin]:
        path, _, name = held.partition("::")
        assert name in names_in(path), held
