"""How the batches of a log are replayed."""

from __future__ import annotations

from penstock.record.batch import read_header
from penstock.record.builder import build_batch
from storage.append.producer_state import KnownProducers
from storage.recovery.producer_recovery import ProducerReplay

BATCH = read_header(build_batch([b"v"], timestamps_ms=0, producer_id=0, producer_epoch=0, base_sequence=0))


def test_a_replay_remembers_nothing_of_the_producers_that_it_has_forgotten() -> None:
    """Only the newest batch could be taken back: a log may have had millions of producers, one after the other."""
    known, replay = KnownProducers(), ProducerReplay(now_ms=0, producers_max=2)
    for producer_id in range(5):
        replay.take(known, BATCH._replace(producer_id=producer_id, base_offset=producer_id), not_after_ms=0)
    assert list(known) == [3, 4]

    known.take_back()
    assert list(known) == [2, 3]
