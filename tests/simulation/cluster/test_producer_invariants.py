"""Brokers know of producers what is committed; they may forget deleted batches, and producers that are silent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storage.append.producer_state import KnownProducers, ProducerEntry, TakenBatch
from tests.simulation.cluster.producer_invariants import difference
from tests.simulation.cluster.sequences import Appended, Numbered
from tests.simulation.cluster.test_invariants import HEALTHY, Lie, Scene, judged

END = 70


def _appended(epoch: int, *offsets: int) -> Appended:
    return Appended(epoch, tuple(Numbered(offset // 10, offset, 9) for offset in offsets))


def _entry(epoch: int, *offsets: int) -> ProducerEntry:
    return ProducerEntry(epoch, tuple(TakenBatch(offset // 10, offset, 9, -1) for offset in offsets), 0)


@pytest.mark.parametrize(
    ("entry", "committed", "first_offset"),
    [
        (_entry(0, 20, 30), _appended(0, 20, 30), 0),
        (_entry(0, 20, 30, 40, 50, 60), _appended(0, 20, 30, 40, 50, 60), 0),
        (_entry(0, 40, 50, 60, 70, 80), _appended(0, 20, 30, 40, 50, 60), 0),  # two are not committed yet
        (_entry(0, 60, 70), _appended(0, 60), 0),
        (_entry(1, 80), _appended(0, 20, 30), 0),  # nor is its next epoch
        (_entry(0, 40, 50), _appended(0, 20, 30, 40, 50), 40),  # some are deleted
        (None, _appended(0, 20, 30), 40),
    ],
)
def test_what_is_known_is_what_is_committed(
    entry: ProducerEntry | None, committed: Appended, first_offset: int
) -> None:
    assert not difference(entry, committed, END, first_offset)


@pytest.mark.parametrize(
    ("entry", "committed", "first_offset"),
    [
        (None, _appended(0, 20, 30), 0),
        (None, _appended(0, 20, 30), 30),
        (_entry(0, 20), _appended(0, 20, 30), 0),
        (_entry(0, 30), _appended(0, 20, 30), 0),
        (_entry(0, 30), _appended(0, 20, 30), 20),
        (_entry(0, 30, 40, 50, 60), _appended(0, 20, 30, 40, 50, 60), 0),  # a window of four
        (_entry(0, 50, 60, 70, 80), _appended(0, 20, 30, 40, 50, 60), 0),
        (_entry(0, 20, 40), _appended(0, 20, 30), 0),
        (_entry(1, 60), _appended(0, 20, 30), 0),
        (_entry(0, 20, 30), _appended(1, 40), 0),
    ],
)
def test_what_differs_is_found(entry: ProducerEntry | None, committed: Appended, first_offset: int) -> None:
    assert difference(entry, committed, END, first_offset)


def _forget(known: KnownProducers) -> None:
    known.forget(list(known))


def a_leader_forgets_a_producer(scene: Scene) -> None:
    _forget(scene.leader[1].log.producers.known)


def a_follower_forgets_a_producer(scene: Scene) -> None:
    _forget(scene.follower[1].log.producers.known)


def a_leader_knows_too_many(scene: Scene) -> None:
    scene.leader[1].log.producers.known._producers[7] = _entry(0, 10)


@pytest.mark.parametrize("lie", [a_leader_forgets_a_producer, a_follower_forgets_a_producer, a_leader_knows_too_many])
def test_a_lie_about_producers_breaks_i39(lie: Lie) -> None:
    assert judged(lie).failures[0].startswith("I39: ")


def test_a_producer_that_was_silent_for_long_enough_may_be_forgotten() -> None:
    """Nobody writes any more when it is forgotten."""
    config = {**HEALTHY.config, "producer.id.expiration.ms": 1_500}
    plan = replace(HEALTHY, seconds=6.0, config=config, writers=(replace(HEALTHY.writers[0], pause_s=20.0),))
    outcome = judged(lambda scene: None, plan)
    assert not outcome.failures
    assert outcome.producers["expired"] == 3
