"""Whatever is late, lost, refused or doubled: an idempotent producer writes nothing twice uncounted, keeps the order,
loses nothing that is acked, and comes to an end.
"""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.client.producer import sequences
from penstock.client.producer.batch import ProducerBatch
from penstock.client.producer.partition_queue import PartitionQueue
from penstock.client.producer.sending.failed_batches import FailedBatches
from penstock.client.producer.sequences import PartitionSequences
from penstock.errors import PenstockError
from tests.property.client.idempotent_walk import Walk
from tests.simulation.cluster.mutants.edit import Edit, Mutant, switched_on
from tests.support.amount import usually

STEPS = 1_500
SEEDS = 15


def run(seed: int, *, is_calm: bool = False, has_bad_records: bool = False, keeps_order: bool = True) -> Walk:
    walk = Walk(seed, is_calm=is_calm, has_bad_records=has_bad_records, keeps_order=keeps_order)
    for _ in range(STEPS):
        walk.step()
    walk.finish()
    return walk


@pytest.mark.parametrize("seed", range(usually(4, long=SEEDS)))
def test_without_a_lasting_failure_each_record_is_written_once_and_in_order(seed: int) -> None:
    run(seed, is_calm=True)


@pytest.mark.parametrize("seed", range(usually(4, long=SEEDS)))
def test_refused_batches_double_no_other_one(seed: int) -> None:
    run(seed, is_calm=True, has_bad_records=True)


@pytest.mark.parametrize("seed", range(usually(4, long=SEEDS)))
def test_with_failures_the_order_stands_and_what_may_be_doubled_is_counted(seed: int) -> None:
    run(seed)


@pytest.mark.parametrize("seed", range(usually(4, long=SEEDS)))
def test_an_id_that_runs_out_of_epochs_is_replaced(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequences, "EPOCH_MAX", 3)
    assert run(seed, keeps_order=False).ids > 1


REACHED = (
    "duplicate",
    "late request",
    "counted",
    "forgotten",
    "Failed",
    "MessageTooLargeError",
    "NotLeaderOrFollowerError",
    "OutOfOrderSequenceError",
    "UnknownProducerIdError",
    "InvalidProducerEpochError",
)


def test_the_walk_reaches_what_it_is_meant_to_reach() -> None:
    seen: Counter[str] = Counter()
    for seed in range(60):
        walk = run(seed)
        seen += walk.seen
        seen["counted"] += walk.counted
        if all(seen[what] for what in REACHED):
            return
    raise AssertionError(seen)


def mistake(name: str, *edits: Edit) -> Mutant:
    return Mutant(name, "KIP-98", edits)


MISTAKES = (
    mistake("a retry gets a new sequence", Edit(PartitionSequences.on_sent, "if place is None:", "if True:")),
    mistake(
        "more batches are under way than a broker knows again",
        Edit(PartitionSequences.may_send, "len(self._window) < self.in_flight_max", "len(self._window) < 9"),
    ),
    mistake(
        "new batches go out while an older one is tried again",
        Edit(PartitionSequences.may_send, "and all(p.in_flight or p.is_resolved for p in self._window)", ""),
        Edit(PartitionQueue.head, "while self.ready:", "while self.ready and (self.ready.rotate(-1) or True):"),
    ),
    mistake(
        "what is tried again goes before older batches",
        Edit(PartitionQueue.put_back, "self._is_before(at,", "False and ("),
    ),
    mistake(
        "an acked batch makes room though one before it is not resolved",
        Edit(PartitionSequences._resolve, "while self._window and self._window[0].is_resolved:", "if True:"),
        Edit(PartitionSequences._resolve, "del self._window[0]", "self._window.remove(place)"),
    ),
    mistake(
        "every refusal ends the epoch", Edit(PartitionSequences.on_refused, "elif not place.as_oldest:", "elif False:")
    ),
    mistake(
        "no refusal ends the epoch", Edit(PartitionSequences.on_refused, "elif not place.as_oldest:", "elif True:")
    ),
    mistake(
        "the sequences begin anew in the same epoch",
        Edit(PartitionSequences._following, "now.epoch + 1", "now.epoch"),
    ),
    mistake(
        "a failed batch's sequences are given to the next one",
        Edit(
            PartitionSequences.on_failed, "place.leaves_gap |= not place.may_be_written", "self._next = place.sequence"
        ),
    ),
    mistake(
        "a batch that failed ends the epoch of those before it, too",
        Edit(
            PartitionSequences._note_gap,
            "bool(self._window) and self._window[0].leaves_gap",
            "any(place.leaves_gap for place in self._window)",
        ),
    ),
    mistake(
        "the halves of a batch have the same sequence",
        Edit(PartitionSequences.split, "sequence = (sequence + count) % SEQUENCES", "pass"),
    ),
    mistake(
        "an encoded batch keeps its first epoch",
        Edit(ProducerBatch.stamp, "self.stamped != (identity, sequence)", "self.stamped is None"),
    ),
    mistake(
        "a refusal for its sequence is final",
        Edit(FailedBatches.on_failure, "isinstance(error, SequenceError) and", "False and"),
    ),
    mistake(
        "an unknown outcome is taken for a refusal",
        Edit(PartitionSequences.on_back, "place.may_be_written |= is_unknown", "pass"),
    ),
    mistake(
        "the next epoch is begun in any order",
        Edit(PartitionSequences._begin, "in window:", "in reversed(window):"),
    ),
)


@pytest.mark.parametrize("mutant", MISTAKES, ids=lambda mutant: mutant.name)
def test_a_mistake_is_noticed(mutant: Mutant) -> None:
    with switched_on(mutant), pytest.raises((AssertionError, PenstockError, ValueError)):
        for seed in range(40):
            run(seed, is_calm=True)
            run(seed, is_calm=True, has_bad_records=True)
            run(seed)
