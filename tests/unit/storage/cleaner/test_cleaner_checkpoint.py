"""The cleaner's checkpoint: never too high."""

from __future__ import annotations

from penstock.types import TopicPartition
from storage.cleaner.cleaner_checkpoint import CleanerCheckpoint
from tests.support.losing_fs import LosingFileSystem
from tests.support.machine import THREADS

A, B = TopicPartition("a", 0), TopicPartition("b", 7)


def new_fs() -> LosingFileSystem:
    fs = LosingFileSystem()
    fs.mkdir("/d")
    fs.fsync_dir("/")
    return fs


def test_what_was_put_is_durable() -> None:
    fs = new_fs()
    checkpoint = CleanerCheckpoint(fs, "/d", THREADS)
    assert checkpoint.get(A) is None
    assert checkpoint.put(A, 10, 0)
    assert checkpoint.put(B, 20, 0)

    again = CleanerCheckpoint(fs.after_crash(), "/d", THREADS)
    assert (again.get(A), again.get(B)) == (10, 20)
    assert fs.exists("/d/cleaner-offset-checkpoint")


def test_a_truncation_lowers_it_durably_and_ends_the_passes_that_run() -> None:
    fs = new_fs()
    checkpoint = CleanerCheckpoint(fs, "/d", THREADS)
    checkpoint.put(A, 10, 0)
    generation = checkpoint.generation(A)
    checkpoint.lower(A, 4)

    assert CleanerCheckpoint(fs.after_crash(), "/d", THREADS).get(A) == 4
    assert not checkpoint.put(A, 10, generation)
    assert checkpoint.get(A) == 4
    assert checkpoint.put(A, 10, checkpoint.generation(A))


def test_it_is_never_raised_by_a_truncation_and_a_pass_ends_even_where_there_is_nothing_to_lower() -> None:
    checkpoint = CleanerCheckpoint(new_fs(), "/d", THREADS)
    checkpoint.lower(A, 4)

    assert checkpoint.get(A) is None
    assert not checkpoint.put(A, 10, 0)


def test_a_log_that_is_gone_has_no_line_and_a_pass_over_it_leaves_none() -> None:
    fs = new_fs()
    checkpoint = CleanerCheckpoint(fs, "/d", THREADS)
    checkpoint.put(A, 10, 0)
    checkpoint.remove(A)

    assert CleanerCheckpoint(fs.after_crash(), "/d", THREADS).get(A) is None
    assert not checkpoint.put(A, 10, 0)


def test_a_damaged_file_is_as_good_as_none() -> None:
    fs = new_fs()
    CleanerCheckpoint(fs, "/d", THREADS).put(A, 10, 0)
    fs.damage("/d/cleaner-offset-checkpoint", 8, 1)

    assert CleanerCheckpoint(fs, "/d", THREADS).get(A) is None
