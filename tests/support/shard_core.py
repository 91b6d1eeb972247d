"""The core of a whole shard, as the driver drives it: turns, timers by a clock of its own, and a log to load again.

Every ticket is a number; a second answer to one is a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from broker.coordination.record_log import TransactionalRecord, TxnProducer
from broker.coordination.turn import Client, TopicFacts, Turn
from broker.groups.group_config import GroupConfig
from broker.groups.group_sizes import group_memory
from broker.groups.records.record_codec import decode_group_record, encode_group_record
from broker.groups.shard.group_totals import GroupTotals
from broker.groups.shard.shard import Shard
from penstock.errors import ApiError
from penstock.messages.groups.classic_protocol import (
    JoinGroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
    MemberAssignment,
    SyncGroupRequest,
)
from penstock.messages.groups.consumer_protocol import ConsumerGroupHeartbeatRequest
from penstock.messages.groups.offsets import OffsetCommitPartition, OffsetCommitRequest
from penstock.record.markers import Marker
from penstock.types import TopicPartition
from tests.support.offsets_shard import Logged, must_take

CLIENT = Client("app", "/10.0.0.1", party="User:app")
WALL_MS = 1_700_000_000_000
NO_RACK: frozenset[str] = frozenset()
SESSION_MS = 10_000


class Topics:
    """`KnownTopics` that a test changes."""

    def __init__(self, *names: str, partitions: int = 3) -> None:
        self._facts = {
            name: TopicFacts(f"id-{name}".ljust(22, "A"), name, partitions, [NO_RACK] * partitions) for name in names
        }

    def by_name(self, name: str) -> TopicFacts | None:
        return self._facts.get(name)

    def by_id(self, topic_id: str) -> TopicFacts | None:
        return next((facts for facts in self._facts.values() if facts.topic_id == topic_id), None)

    def names(self) -> Sequence[str]:
        return sorted(self._facts)

    def may_begin_consumer_groups(self) -> bool:
        return True

    def drop(self, name: str) -> None:
        del self._facts[name]


class ShardCore:
    """See the module. `log` has the records as bytes."""

    def __init__(self, config: GroupConfig | None = None, bytes_max: int = 1 << 30) -> None:
        self.config, self.topics = config or GroupConfig(), Topics("t", "u")
        self.memory, self.totals = group_memory(bytes_max), GroupTotals()
        self.log: list[Logged] = []
        self.epochs: dict[int, int] = {}
        self.answers: dict[int, Any] = {}
        self.now_ms, self._ids, self.client = 0, 0, CLIENT
        self.shard = Shard(self.config, self.memory, self.totals)
        self._load(self.shard)

    def _new_id(self) -> str:
        self._ids += 1
        return f"member-{self._ids}".ljust(22, "A")

    def turn(self) -> Turn:
        wall_ms, may_be = WALL_MS + self.now_ms, partial(must_take, epochs=self.epochs)
        return Turn(self.now_ms, wall_ms, self.topics, self.shard, self._new_id, must_take=may_be)

    def end_transaction(self, producer: TxnProducer, is_committed: bool = True) -> None:
        """Its marker, which has the next epoch."""
        marker = Marker(producer.producer_id, producer.producer_epoch + 1, is_committed, 1)
        self.shard.replay_marker(marker)
        self.log.append(marker)
        self.epochs[producer.producer_id] = marker.producer_epoch

    def done(self, turn: Turn) -> None:
        for record in turn.records:
            producer = record.producer if isinstance(record, TransactionalRecord) else None
            self.log.append((*encode_group_record(record[0], record[1]), producer))
            if producer is not None:
                self.epochs[producer.producer_id] = producer.producer_epoch
        for ticket, answer in turn.answers:
            assert ticket not in self.answers, f"ticket {ticket} is answered twice"
            self.answers[ticket] = answer

    def ask(self, request: Any, ticket: int | None = None, client: Client | None = None) -> Any:
        """The answer, or the error; None if it waits. The sender is `client`, or else the one of this core."""
        number = len(self.answers) + 1_000 if ticket is None else ticket
        turn = self.turn()
        try:
            self.shard.handle(turn, number, request, client or self.client)
        except ApiError as error:
            assert not turn.records, "an error after something was written"
            turn.answer(number, error)
        self.done(turn)
        return self.answers.get(number)

    def advance(self, ms: int) -> None:
        """Time passes, timer by timer."""
        until_ms = self.now_ms + ms
        while (next_ms := self.shard.timers.next_ms) is not None and next_ms <= until_ms:
            self.now_ms = max(self.now_ms, next_ms)
            for action in self.shard.timers.take_due(self.now_ms):
                turn = self.turn()
                action(turn)
                self.done(turn)
        self.now_ms = until_ms

    def drop_topic(self, name: str) -> None:
        self.topics.drop(name)
        turn = self.turn()
        self.shard.topics_changed(turn, frozenset({name}), frozenset({name}))
        self.done(turn)

    def reloaded(self) -> Shard:
        """Another shard, loaded from the log; this core goes on with it."""
        self.shard.unloaded()
        self.shard = Shard(self.config, self.memory, self.totals)
        for one in self.log:
            if isinstance(one, Marker):
                self.shard.replay_marker(one)
                continue
            record = decode_group_record(*one[:2])
            assert record is not None
            self.shard.replay(*record, one[2])
        self._load(self.shard)
        return self.shard

    def _load(self, shard: Shard) -> None:
        for step in shard.loaded():
            turn = self.turn()
            step(turn)
            self.done(turn)

    # -- requests ------------------------------------------------------------------------------------------------------

    def commit(self, group_id: str, offset: int, topic: str = "t", partition: int = 0) -> Any:
        """By nobody's member."""
        place = OffsetCommitPartition(TopicPartition(topic, partition), offset)
        return self.ask(OffsetCommitRequest(group_id, (place,)))

    def classic_member(self, group_id: str) -> str:
        """A group with one member, which has its assignment; its id."""
        join = JoinGroupRequest(
            group_id, SESSION_MS, 60_000, "", "consumer", (JoinGroupProtocol("range", b"\x00\x00\x00\x00\x00\x00"),),
            requires_known_member_id=False,
        )  # fmt: skip
        ticket = len(self.answers) + 1
        self.ask(join, ticket)
        self.advance(self.config.group_initial_rebalance_delay_ms)
        joined = self.answers[ticket]
        assert isinstance(joined, JoinGroupResponse), joined
        member_id, generation = joined.member_id, joined.generation_id
        assigned = (MemberAssignment(member_id, b"assigned"),)
        self.ask(SyncGroupRequest(group_id, generation, member_id, assignments=assigned))
        return member_id

    def consumer_member(self, group_id: str, member_id: str, *topics: str) -> Any:
        return self.ask(
            ConsumerGroupHeartbeatRequest(
                group_id, member_id, 0, rebalance_timeout_ms=60_000, subscribed_topic_names=topics or ("t",),
                owned_partitions=(),
            )
        )  # fmt: skip
