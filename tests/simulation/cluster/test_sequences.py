"""Each way in which a batch may be numbered wrongly is noticed."""

from __future__ import annotations

import pytest

from penstock.record.builder import build_batch
from tests.simulation.cluster.sequences import SEQUENCES, Appended, Numbered, Sequences

Numbers = tuple[int, int, int, int]
"""Producer id, epoch, base sequence, records."""


def _fault(*batches: Numbers) -> str | None:
    """The fault of the last batch."""
    sequences, fault = Sequences(), None
    for producer_id, epoch, sequence, count in batches:
        assert fault is None
        fault = sequences.fault(_batch(producer_id, epoch, sequence, count))
    return fault


def _batch(producer_id: int, epoch: int, sequence: int, count: int, offset: int = 0) -> bytes:
    return build_batch(
        [b"v"] * count,
        base_offset=offset,
        timestamps_ms=0,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


@pytest.mark.parametrize(
    "batches",
    [
        [(-1, -1, -1, 1), (-1, -1, -1, 1)],
        [(7, 0, 0, 3), (8, 0, 0, 1), (7, 0, 3, 1), (8, 0, 1, 1)],
        [(7, 0, 0, 3), (7, 1, 0, 1), (7, 1, 1, 1)],
    ],
)
def test_batches_in_their_order(batches: list[Numbers]) -> None:
    assert _fault(*batches) is None


@pytest.mark.parametrize(
    "batches",
    [
        [(7, 0, 0, 3), (7, 0, 0, 3)],  # twice
        [(7, 0, 0, 3), (7, 0, 4, 1)],  # a gap
        [(7, 0, 0, 3), (7, 0, 3, 1), (7, 0, 0, 3)],  # an older one behind a later one
        [(7, 0, 0, 3), (7, 1, 0, 1), (7, 0, 3, 1)],  # of an epoch that was over
        [(7, 0, 0, 3), (7, 1, 3, 1)],  # an epoch that goes on where another ended
        [(7, 0, 1, 1)],  # not from the first on
    ],
)
def test_a_batch_out_of_order(batches: list[Numbers]) -> None:
    fault = _fault(*batches)
    assert fault is not None
    assert "producer 7" in fault


def test_sequences_wrap() -> None:
    sequences = Sequences()
    sequences.appended[7] = Appended(0, (Numbered(SEQUENCES - 3, 0, 0),))
    for sequence, count in ((SEQUENCES - 2, 5), (3, 1)):
        assert sequences.fault(_batch(7, 0, sequence, count)) is None


def test_the_newest_five_batches_of_the_newest_epoch_are_remembered() -> None:
    sequences = Sequences()
    for n in range(7):
        assert sequences.fault(_batch(7, 0, 2 * n, 2, 10 * n)) is None
    assert sequences.appended == {7: Appended(0, tuple(Numbered(2 * n, 10 * n, 1) for n in range(2, 7)))}
    assert sequences.fault(_batch(7, 1, 0, 3, 70)) is None
    assert sequences.appended == {7: Appended(1, (Numbered(0, 70, 2),))}
    assert sequences.later_epochs == 1
