"""Seeded campaigns on the core of transactions: producers of both versions write and end transactions, lose answers,
are replaced and go on as zombies, while time passes, commits are late, and the coordinator fails over.

At the end, when everything has come to rest:
- of each transaction all data is committed, or none; what its producer was told is what happened; nothing is left open
- no producer id and epoch was given to two producers; a producer that was replaced began nothing more
- in the log each id moves as the table of states allows, and its epochs never fall

    python -m tests.support.transaction_campaign --seeds 0-99 --steps 600
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from broker.transactions.transaction_metadata import EPOCH_MAX, TransactionMetadata
from broker.transactions.transaction_records import TransactionLogKey, decode_transaction_record
from broker.transactions.transaction_states import MOVES
from penstock.errors import (
    ApiError,
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    ProducerFencedError,
)
from penstock.messages.produce import InitProducerIdRequest
from penstock.messages.transactions.producers import AddPartitionsToTxnRequest, EndTxnRequest, TransactionPartitions
from penstock.types import TopicPartition
from tests.support.transaction_world import DAY_MS, World

TIMEOUT_MS: Final = 60_000
IDS: Final = ("a", "b", "c")
NOBODY: Final = (-1, -1)
_TRY_AGAIN: Final = (CoordinatorNotAvailableError, ConcurrentTransactionsError)
_IS_OVER: Final = (ProducerFencedError, InvalidProducerIdMappingError)


@dataclass(eq=False)
class Written:
    """One transaction of one producer. `reported` is the end that its producer was told."""

    data: list[tuple[TopicPartition, object]] = field(default_factory=list)
    wants: bool | None = None
    reported: bool | None = None


@dataclass(eq=False)
class Producer:
    """A process. It asks one thing at a time."""

    name: str
    version: int
    producer: tuple[int, int] = NOBODY
    transaction: Written = field(default_factory=Written)
    waits: bool = False
    is_dead: bool = False
    is_replaced: bool = False
    must_recover: bool = False


class Campaign:
    """See the module."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = World(self.random)
        self.producers: list[Producer] = []
        self.transactions: list[Written] = []
        self.owners: dict[tuple[int, int], Producer] = {}
        self.committed = self.aborted = 0

    # -- steps ---------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        world, chance = self.world, self.random.random()
        if chance < 0.70:
            self._someone_acts()
        elif chance < 0.85:
            world.write_markers()
        elif chance < 0.88:
            world.late()
        elif chance < 0.91:
            world.ask_for_unknown()
        elif chance < 0.93:
            world.failover()
        elif chance < 0.94:
            world.commit_unknown()
        elif chance < 0.955:
            self._use_up_epochs(self.random.choice(IDS))
        else:
            world.wait(self.random.choice((1, 1_000, TIMEOUT_MS // 2, TIMEOUT_MS)))
        if self.random.random() < 0.7:
            world.commit(everything=self.random.random() < 0.7)

    def _someone_acts(self) -> None:
        alive = [one for one in self.producers if not one.is_dead and not one.waits]
        if not alive or (len(alive) < 8 and self.random.random() < 0.05):
            self.producers.append(Producer(self.random.choice(IDS), self.random.choice((1, 2))))
            alive = self.producers[-1:]
        self._act(self.random.choice(alive))

    def _act(self, one: Producer) -> None:
        if one.producer == NOBODY or one.must_recover:
            self._init(one)
        elif one.transaction.wants is not None:
            self._end(one)
        elif self.random.random() < 0.6:
            self._write(one)
        elif one.transaction.data or one.version == 2:
            one.transaction.wants = bool(one.transaction.data) and self.random.random() < 0.7
            self._end(one)

    def _use_up_epochs(self, name: str) -> None:
        """As if so many producers had come."""
        found = self.world.shard.transaction(name)
        if found is None or found.state.value != "Empty" or found.producer_epoch > 100:
            return
        used = found.moved(found.state, found.update_ms, producer_epoch=EPOCH_MAX - 2, last_producer_epoch=-1)
        self.world.take(lambda turn: turn.write(TransactionLogKey(transactional_id=name), used))

    # -- requests ------------------------------------------------------------------------------------------------------

    def _ask(self, one: Producer, request: Any, on_answer: Any) -> None:
        one.waits = True

        def answered(answer: Any) -> None:
            one.waits = False
            on_answer(answer)

        self.world.ask(request, answered)

    def _init(self, one: Producer) -> None:
        def on_answer(answer: Any) -> None:
            if isinstance(answer, _IS_OVER):
                one.is_dead = True
            elif not isinstance(answer, ApiError):
                if one.producer == NOBODY:
                    for other in self.producers:
                        other.is_replaced |= other is not one and other.name == one.name and other.producer != NOBODY
                self._given(one, (answer.producer_id, answer.producer_epoch))
                one.must_recover = False
                one.transaction = Written()
            else:
                assert isinstance(answer, _TRY_AGAIN), answer

        self._ask(one, InitProducerIdRequest(one.name, TIMEOUT_MS, *one.producer), on_answer)

    def _given(self, one: Producer, producer: tuple[int, int]) -> None:
        assert self.owners.setdefault(producer, one) is one, f"{producer} was given to two producers"
        assert producer[1] < EPOCH_MAX
        one.producer = producer

    def _write(self, one: Producer) -> None:
        partition = self.random.choice(list(self.world.leaders))
        leader, guard, datum = self.world.leaders[partition], object(), object()
        transaction, producer = one.transaction, one.producer
        leader.guards[producer[0]] = guard, producer[1] if one.version == 2 else None

        def on_answer(answer: Any) -> None:
            error = answer if isinstance(answer, ApiError) else answer.transactions[0].partitions[0].error
            if error is None:
                assert not one.is_replaced, "a producer that was replaced has begun a transaction"
                if leader.takes(producer, datum, guard):
                    if not transaction.data:
                        self.transactions.append(transaction)
                    transaction.data.append((partition, datum))
                else:
                    transaction.wants = False
            elif isinstance(error, _IS_OVER):
                self._over(one)
            else:
                assert isinstance(error, _TRY_AGAIN), error

        asked = TransactionPartitions(one.name, *producer, (partition,), False, one.version == 2)
        self._ask(one, AddPartitionsToTxnRequest((asked,), waits=self.random.random() < 0.7), on_answer)

    def _over(self, one: Producer) -> None:
        """It takes the way that a client of its version has after a time-out."""
        if one.version == 2 and one.transaction.wants is not False:
            one.transaction.wants = False
        elif one.version == 1 and not one.must_recover:
            one.must_recover = True
        else:
            one.is_dead = True

    def _end(self, one: Producer) -> None:
        transaction = one.transaction
        wants = bool(transaction.wants)
        if one.version == 1 and not transaction.data:
            one.must_recover = True
            return

        def on_answer(answer: Any) -> None:
            if isinstance(answer, _IS_OVER):
                self._over(one)
            elif isinstance(answer, InvalidTxnStateError):
                assert wants
                transaction.reported = transaction.wants = False
                one.must_recover = one.version == 1
            elif isinstance(answer, ApiError):
                assert isinstance(answer, _TRY_AGAIN), answer
            else:
                transaction.reported = wants
                if wants:
                    self.committed += 1
                else:
                    self.aborted += 1
                one.transaction = Written()
                if one.version == 2:
                    self._given(one, (answer.producer_id, answer.producer_epoch))

        self._ask(one, EndTxnRequest(one.name, *one.producer, wants, one.version == 2), on_answer)

    # -- the end -------------------------------------------------------------------------------------------------------

    def finish(self) -> tuple[int, int]:
        """Everything comes to rest, and is compared; the transactions that producers know committed, and aborted."""
        world = self.world
        for _ in range(50):
            world.commit(everything=True)
            world.ask_for_unknown()
            world.commit(everything=True)
            while world.sent:
                world.write_markers()
                world.commit(everything=True)
            world.wait(TIMEOUT_MS)
        assert world.shard.statistics().ongoing == world.shard.statistics().prepared == 0
        assert not any(data for leader in world.leaders.values() for data in leader.open.values()), "left open"
        for transaction in self.transactions:
            ends = {self.world.leaders[partition].ends[datum] for partition, datum in transaction.data}
            assert len(ends) == 1, "a part of a transaction is committed"
            assert transaction.reported is None or ends == {transaction.reported}, "the producer was told another end"
        self._check_log()
        world.wait(2 * DAY_MS)
        assert world.shard.statistics().transactional_ids == 0
        return self.committed, self.aborted

    def _check_log(self) -> None:
        last: dict[str, TransactionMetadata] = {}
        gone: set[tuple[str, int]] = set()
        for entry in self.world.log:
            record = decode_transaction_record(*entry)
            assert record is not None
            name, now = record[0].transactional_id, record[1]
            before = last.pop(name, None)
            if now is None:
                continue
            last[name] = now
            assert (name, now.producer_id) not in gone, "a producer id came back"
            if before is not None:
                assert now.state in MOVES[before.state] and now.update_ms > before.update_ms
                if now.producer_id != before.producer_id:
                    gone.add((name, before.producer_id))
                else:
                    assert now.producer_epoch >= before.producer_epoch, "an epoch fell"


def run(seed: int, steps: int) -> tuple[int, int]:
    """One campaign. A failure says how to run it again."""
    campaign = Campaign(seed)
    try:
        for _ in range(steps):
            campaign.step()
        return campaign.finish()
    except Exception as error:
        error.add_note(f"python -m tests.support.transaction_campaign --seeds {seed}-{seed} --steps {steps}")
        raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0-99")
    parser.add_argument("--steps", type=int, default=600)
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    ends = [run(seed, options.steps) for seed in range(int(first), int(last or first) + 1)]
    committed, aborted = (sum(numbers) for numbers in zip(*ends, strict=True))
    print(f"{len(ends)} seeds of {options.steps} steps: {committed} transactions committed, {aborted} aborted")


if __name__ == "__main__":
    main()
