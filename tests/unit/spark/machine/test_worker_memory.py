"""Promises about a worker's memory: what our imports made is set aside once, and nothing where it could cost more."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Iterator

import pytest

from penstock.spark.machine.worker_memory import WorkerMemory

ANY_NUMBER = 10**9
"""This process has the objects that other tests have left."""


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_the_second_task_of_a_process_sets_aside_what_is_there_and_no_later_one_does() -> None:
    memory = WorkerMemory(ANY_NUMBER)
    memory.begin_task()
    assert not gc.get_freeze_count()
    memory.begin_task()
    frozen = gc.get_freeze_count()
    assert frozen > 1_000
    memory.begin_task()
    assert gc.get_freeze_count() <= frozen, "objects that are freed leave; none comes"


def test_what_comes_after_that_is_collected_and_what_has_no_cycle_is_freed_as_ever() -> None:
    class Thing:
        def __init__(self) -> None:
            self.me: Thing | None = None

    before = Thing()
    was = weakref.ref(before)
    memory = WorkerMemory(ANY_NUMBER)
    memory.begin_task()
    memory.begin_task()
    del before
    assert was() is None
    later = Thing()
    later.me = later
    gone = weakref.ref(later)
    del later
    gc.collect()
    assert gone() is None


def test_a_process_that_holds_much_besides_is_left_alone() -> None:
    memory = WorkerMemory(frozen_max=100)
    for _ in range(3):
        memory.begin_task()
    assert not gc.get_freeze_count()


def test_a_process_whose_collector_somebody_else_has_set_is_left_alone() -> None:
    gc.disable()
    try:
        memory = WorkerMemory(ANY_NUMBER)
        for _ in range(2):
            memory.begin_task()
        assert not gc.get_freeze_count()
    finally:
        gc.enable()
    gc.freeze()
    before = gc.get_freeze_count()
    _later = [[] for _ in range(1_000)]
    memory = WorkerMemory(ANY_NUMBER)
    for _ in range(2):
        memory.begin_task()
    assert gc.get_freeze_count() <= before


def test_a_forked_worker_counts_its_own_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = WorkerMemory(ANY_NUMBER)
    memory.begin_task()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    memory.begin_task()
    assert not gc.get_freeze_count()
