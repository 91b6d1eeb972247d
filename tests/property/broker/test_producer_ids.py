"""No producer id is given twice, over drawn histories of controller changes, lost answers and broker restarts.

Real decisions at both ends: `Controller` and `ProducerIdBlocks`. Between them is a metadata log whose tail is not
committed yet; a new controller keeps a drawn part of the tail and drops the rest. Controllers that were replaced go on
deciding for brokers that still ask them. An answer leaves when its record is committed; then it arrives, late perhaps,
or is lost. Two mistakes show that the check can fail.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import pytest

from broker.producer_ids.id_blocks import ProducerIdBlocks
from metadata.controller.config import ControllerConfig
from metadata.controller.controller import Controller
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.records import Record, RegisterBrokerRecord
from penstock.errors import ApiError, NetworkError
from penstock.messages.produce import AllocateProducerIdsRequest, AllocateProducerIdsResponse

BROKERS = (1, 2, 3)
STEPS = 250
SEEDS = 30
CONFIG = ControllerConfig("cluster-1", session_timeout_ms=9_000)


@dataclass(eq=False, slots=True)
class Ask:
    """A broker's call to a controller; the process that made it may be gone by now."""

    process: Process
    answer: AllocateProducerIdsResponse | None = None


@dataclass(eq=False, slots=True)
class Process:
    """One start of a broker."""

    broker_id: int
    broker_epoch: int
    blocks: ProducerIdBlocks[int]
    asking: Ask | None = None


class History:
    """One seed's."""

    def __init__(self, seed: int, *, answers_before_commit: bool = False, restores_blocks: bool = False) -> None:
        self.rng = random.Random(seed)
        self.answers_before_commit, self.restores_blocks = answers_before_commit, restores_blocks
        self.now_ms = 0
        self.image: MetadataImage = EMPTY_IMAGE
        self.tail: list[tuple[Record, Ask | None]] = []  # decided by the newest controller, and not committed
        self.controller = self.controller_from(EMPTY_IMAGE)
        self.deposed: list[Controller] = []
        self.answers: list[Ask] = []  # on their way
        self.given: list[int] = []
        self.outcomes: Counter[str] = Counter()
        for broker_id in BROKERS:
            self.commit_all([RegisterBrokerRecord(broker_id, "first", self.next_offset, "host", 9192)])
        self.controller = self.controller_from(self.image)
        self.processes = {broker_id: self.process(broker_id) for broker_id in BROKERS}

    def controller_from(self, image: MetadataImage) -> Controller:
        return Controller(image, CONFIG, self.rng, self.now_ms)

    @property
    def next_offset(self) -> int:
        return self.image.offset + 1 + len(self.tail)

    def commit_all(self, records: list[Record]) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.apply(self.image.offset + len(records), 0)

    def process(self, broker_id: int, blocks: ProducerIdBlocks[int] | None = None) -> Process:
        return Process(broker_id, self.image.brokers[broker_id].broker_epoch, blocks or ProducerIdBlocks())

    # -- what happens --------------------------------------------------------------------------------------------------

    def step(self) -> None:
        action, weight = zip(
            (self.client_asks, 12),
            (self.broker_asks, 12),
            (self.commit, 8),
            (self.answer_arrives, 8),
            (self.answer_is_lost, 2),
            (self.controller_changes, 1),
            (self.broker_restarts, 1),
            strict=True,
        )
        chosen = self.rng.choices(action, weight)[0]
        if chosen():
            self.outcomes[chosen.__name__] += 1

    def client_asks(self) -> bool:
        """Many clients at once, so that blocks are used up."""
        process = self.processes[self.rng.choice(BROKERS)]
        for _ in range(self.rng.choice((1, 50, 700))):
            try:
                producer_id = process.blocks.request(0, self.now_ms)
            except ApiError:
                return False
            if producer_id is not None:
                self.given.append(producer_id)
        return True

    def broker_asks(self) -> bool:
        process = self.processes[self.rng.choice(BROKERS)]
        if process.asking is not None or not process.blocks.wants_block:
            return False
        process.asking = ask = Ask(process)
        request = AllocateProducerIdsRequest(process.broker_id, process.broker_epoch)
        is_stale = bool(self.deposed) and self.rng.random() < 0.2
        controller = self.rng.choice(self.deposed) if is_stale else self.controller
        try:
            result = controller.allocate_producer_ids(request, self.now_ms, 0)
        except ApiError as error:
            process.blocks.block_refused(error)
            process.asking = None
            return False
        ask.answer = result.response
        if not is_stale:
            (record,) = result.records
            controller.replay(record, self.next_offset)
            self.tail.append((record, ask))
            if self.answers_before_commit:
                self.answers.append(ask)
        return True

    def commit(self) -> bool:
        count = self.rng.randint(0, len(self.tail))
        self.commit_all([record for record, _ in self.tail[:count]])
        if not self.answers_before_commit:
            self.answers += [ask for _, ask in self.tail[:count] if ask is not None]
        del self.tail[:count]
        return count > 0

    def answer_arrives(self) -> bool:
        if not self.answers:
            return False
        ask = self.answers.pop(self.rng.randrange(len(self.answers)))
        process = ask.process
        if process.asking is not ask or ask.answer is None:
            return False  # that call was given up, or its process is gone
        process.asking = None
        try:
            answered = process.blocks.block_came(ask.answer.first_producer_id, ask.answer.count)
        except ApiError as error:
            process.blocks.block_refused(error)
            return False
        self.given += [producer_id for _, producer_id in answered]
        return True

    def answer_is_lost(self) -> bool:
        """Or was never to come; the broker gives the call up."""
        process = self.processes[self.rng.choice(BROKERS)]
        if process.asking is None:
            return False
        process.asking = None
        process.blocks.block_refused(NetworkError("the connection broke"))
        return True

    def controller_changes(self) -> bool:
        """The next one has a part of what was not committed, and commits that first."""
        kept = self.rng.randint(0, len(self.tail))
        self.commit_all([record for record, _ in self.tail[:kept]])
        self.tail.clear()
        self.deposed = [*self.deposed[-1:], self.controller]
        self.controller = self.controller_from(self.image)
        return True

    def broker_restarts(self) -> bool:
        """It is registered anew, once everything before that is committed."""
        while self.tail:
            self.commit()
        broker_id = self.rng.choice(BROKERS)
        record = RegisterBrokerRecord(broker_id, f"from {self.next_offset}", self.next_offset, "host", 9192)
        self.controller.replay(record, self.next_offset)
        self.commit_all([record])
        before = self.processes[broker_id].blocks
        self.processes[broker_id] = self.process(broker_id, _as_it_was(before) if self.restores_blocks else None)
        return True

    def run(self) -> History:
        for _ in range(STEPS):
            self.step()
        return self

    @property
    def has_given_twice(self) -> bool:
        return len(set(self.given)) < len(self.given)


def _as_it_was(blocks: ProducerIdBlocks[int]) -> ProducerIdBlocks[int]:
    """A mistake: a process that goes on with the block of the one before, from where that was saved."""
    restored: ProducerIdBlocks[int] = ProducerIdBlocks()
    if blocks._blocks:
        newest = blocks._blocks[-1]
        first = max(0, newest.start - 10)
        restored.block_came(first, newest.stop - first)
    return restored


def test_no_producer_id_is_given_twice_in_any_history() -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(SEEDS):
        history = History(seed).run()
        assert not history.has_given_twice, f"seed {seed}"
        outcomes += history.outcomes
        outcomes["given"] += len(history.given)
    assert len(outcomes) == 8 and min(outcomes.values()) >= SEEDS and outcomes["given"] > 1_000 * SEEDS, outcomes


@pytest.mark.parametrize("mistake", ["answers_before_commit", "restores_blocks"])
def test_a_mistake_gives_an_id_twice(mistake: str) -> None:
    assert any(History(seed, **{mistake: True}).run().has_given_twice for seed in range(SEEDS))
