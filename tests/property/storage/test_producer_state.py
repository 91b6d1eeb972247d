"""The producers that a log knows equal those that the list of all its batches tells of.

The model keeps every batch of the log and looks at all of them for each answer. It knows nothing of windows that move,
of copies, or of what an append changes.
"""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import ApiError, InvalidProducerEpochError, OutOfOrderSequenceError, UnknownProducerIdError
from penstock.record.batch import BatchHeader, read_header
from penstock.record.builder import build_batch
from storage.append.producer_rules import must_fit
from storage.append.producer_state import KnownProducers
from tests.support.amount import usually

MAX = 2**31 - 1
TEMPLATE = read_header(build_batch([b"v"], timestamps_ms=0))


class Model:
    """The batches of a log, as headers."""

    def __init__(self) -> None:
        self.batches: list[BatchHeader] = []

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches else 0

    def of(self, producer_id: int) -> list[BatchHeader]:
        """The newest batches of the producer that have one epoch; at most five."""
        found: list[BatchHeader] = []
        for batch in reversed(self.batches):
            if batch.producer_id == producer_id and len(found) < 5:
                if found and batch.producer_epoch != found[0].producer_epoch:
                    break
                found.append(batch)
        return found[::-1]

    def next_sequence(self, producer_id: int) -> int:
        newest = self.of(producer_id)
        sequence = newest[-1].base_sequence if newest else 0
        for _ in range(newest[-1].last_offset_delta + 1 if newest else 0):
            sequence = 0 if sequence == MAX else sequence + 1
        return sequence

    def answer(self, asked: BatchHeader) -> int | type[ApiError] | None:
        """The offset of the first append of a duplicate, a refusal, or None."""
        newest = self.of(asked.producer_id)
        if not newest:
            return UnknownProducerIdError if asked.base_sequence else None
        epoch = newest[-1].producer_epoch
        for batch in newest:
            if batch[6] == asked[6] and batch[9:12] == asked[9:12]:  # as many records, the same producer's three fields
                return batch.base_offset
        if asked.producer_epoch < epoch:
            return InvalidProducerEpochError
        wanted = self.next_sequence(asked.producer_id) if asked.producer_epoch == epoch else 0
        return None if asked.base_sequence == wanted else OutOfOrderSequenceError


def answered(known: KnownProducers, asked: BatchHeader) -> int | type[ApiError] | None:
    producer = known.get(asked.producer_id)
    if producer is not None and (batch := producer.has(asked)) is not None:
        return batch.base_offset
    try:
        must_fit(asked, producer)
    except ApiError as refusal:
        return type(refusal)
    return None


def header(offset: int, producer_id: int, epoch: int, sequence: int, count: int) -> BatchHeader:
    return TEMPLATE._replace(
        base_offset=offset,
        last_offset_delta=count - 1,
        record_count=count,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def rebuilt(batches: list[BatchHeader]) -> KnownProducers:
    known = KnownProducers()
    for batch in batches:
        known.take(batch, 0)
    return known


def drawn_batch(model: Model, random: Random) -> BatchHeader:
    """Mostly one that fits, or nearly."""
    producer_id, epoch, count = random.randrange(3), random.choice((0, 0, 0, 1, 1, 2)), random.randint(1, 3)
    wanted = model.next_sequence(producer_id)
    sequence = random.choice((0, wanted, wanted, wanted, (wanted + 1) % (MAX + 1), max(wanted - 1, 0)))
    return header(model.end, producer_id, epoch, sequence, count)


def stepped(model: Model, known: KnownProducers, random: Random) -> KnownProducers:
    """After one more step, taken by both."""
    step = random.choices(("ask", "repeat", "follow", "fail", "truncate"), (8, 4, 1, 1, 1))[0]
    asked = drawn_batch(model, random)
    if step == "truncate":
        model.batches = model.batches[: len(model.batches) - random.randrange(4)]
        return rebuilt(model.batches) if known.newest_offset >= model.end else known
    known.begin_append()
    if step == "follow":
        model.batches.append(asked._replace(base_sequence=random.choice((asked.base_sequence, MAX, MAX - 2))))
        known.take(model.batches[-1], 0)
        return known
    if step == "fail":
        for number in range(3):
            known.take(asked._replace(base_sequence=number, producer_id=random.randrange(3)), 0)
        known.take_back()
        return known
    if step == "repeat" and model.batches:
        asked = random.choice(model.batches[-15:])
    said = answered(known, asked)
    assert said == model.answer(asked), asked
    if said is None:
        model.batches.append(asked._replace(base_offset=model.end))
        known.take(model.batches[-1], 0)
    return known


@given(seed=st.integers(0, 2**32))
@settings(max_examples=usually(15, long=40), derandomize=True, deadline=None)
def test_every_answer_is_that_of_the_list_of_all_batches(seed: int) -> None:
    model, known, random = Model(), KnownProducers(), Random(seed)
    for _ in range(60):
        known = stepped(model, known, random)
        for producer_id in range(3):
            mine = known.get(producer_id)
            remembered = [] if mine is None else [(b.base_offset, b.base_sequence) for b in mine.batches]
            assert remembered == [(batch.base_offset, batch.base_sequence) for batch in model.of(producer_id)]
        assert known.newest_offset == max((b.last_offset for one in range(3) for b in model.of(one)), default=-1)
