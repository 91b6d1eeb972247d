"""A shard of groups without its driver: topics, time and ids are the test's; every record goes through its
encoding, and the log of all of them is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker.coordination.record_log import TxnProducer, replay_entry
from broker.coordination.turn import Client, TopicFacts, Turn
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.group_epochs import MATCHES_MAX
from broker.groups.group_config import GroupConfig
from broker.groups.group_sizes import group_memory
from broker.groups.records.record_codec import decode_group_record, encode_group_record
from broker.groups.records.record_log import read_group_records
from broker.groups.shard.group_totals import GroupTotals
from broker.groups.shard.shard import Shard
from penstock.errors import ApiError
from penstock.messages.groups.consumer_protocol import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicIdPartitions,
)
from penstock.record.builder import build_batch
from penstock.record.markers import Marker

REBALANCE_MS = 60_000
PART_RECORDS = 30
CLIENT = Client("client", "/127.0.0.1")


class TopicsHere:
    """`KnownTopics` of a test."""

    def __init__(self, **partitions: int) -> None:
        self.made = 0
        self.group_version = 1
        self.facts: dict[str, TopicFacts] = {}
        for name, count in partitions.items():
            self.add(name, count)

    def add(self, name: str, partitions: int, racks: Sequence[frozenset[str]] | None = None) -> str:
        """Make it, or make it anew with another id."""
        self.made += 1
        topic_id = f"{self.made:021d}A"
        self.facts[name] = TopicFacts(topic_id, name, partitions, racks or [frozenset()] * partitions)
        return topic_id

    def grow(self, name: str, partitions: int) -> None:
        self.facts[name] = self.facts[name]._replace(partitions=partitions, racks=[frozenset()] * partitions)

    def by_name(self, name: str) -> TopicFacts | None:
        return self.facts.get(name)

    def by_id(self, topic_id: str) -> TopicFacts | None:
        return next((topic for topic in self.facts.values() if topic.topic_id == topic_id), None)

    def names(self) -> list[str]:
        return sorted(self.facts)

    def may_begin_consumer_groups(self) -> bool:
        return self.group_version > 0


class ManyNames(list[str]):
    """Names that pass for so many that only two patterns may be matched with them at once."""

    def __len__(self) -> int:
        return 3 * MATCHES_MAX // 5


class ManyTopicsHere(TopicsHere):
    """Topics that are told as if there were very many others."""

    def names(self) -> list[str]:
        return ManyNames(super().names())


class ConsumerShard:
    """`Replays` of a test."""

    def __init__(self, topics: TopicsHere, **config: Any) -> None:
        self.topics = topics
        self.config = GroupConfig(**{"group_initial_rebalance_delay_ms": 0, **config})
        self.now_ms = 1_000_000
        self.ids = self.tickets = 0
        self.answers: dict[int, Any] = {}
        self.log: list[tuple[bytes, bytes | None]] = []
        self._start()

    def _start(self) -> None:
        self.core = Shard(self.config, group_memory(1 << 40), GroupTotals())
        self.groups: dict[str, Any] = self.core.groups
        self.timers = self.core.timers

    def reload(self) -> None:
        """Throw everything away, and read the log again."""
        self._start()
        self.read_into(self.core, self.log)
        for step in self.core.loaded():
            step(self.turn())

    def read(self, log: Sequence[tuple[bytes, bytes | None]]) -> dict[str, Any]:
        """The groups of this log, which is read in parts, as a coordinator loads it."""
        core = Shard(self.config, group_memory(1 << 40), GroupTotals())
        for first in range(0, len(log), PART_RECORDS):
            keys, values = zip(*log[first : first + PART_RECORDS], strict=True)
            for entry in read_group_records(build_batch(values, keys=keys, timestamps_ms=0), 0).records:
                replay_entry(core, entry)
        return core.groups

    def read_into(self, core: Shard, log: Sequence[tuple[bytes, bytes | None]]) -> None:
        for record in log:
            decoded = decode_group_record(*record)
            assert decoded is not None
            core.replay(*decoded)

    def decoded(self) -> list[Any]:
        return [decode_group_record(*record) for record in self.log]

    def compacted(self) -> list[tuple[bytes, bytes | None]]:
        last = {key: index for index, (key, _) in enumerate(self.log)}
        return [(key, value) for index, (key, value) in enumerate(self.log) if last[key] == index and value is not None]

    def turn(self) -> Turn:
        return Turn(self.now_ms, 1_700_000_000_000 + self.now_ms, self.topics, self, self._new_id)

    def _new_id(self) -> str:
        self.ids += 1
        return f"made-{self.ids}"

    def replay_marker(self, marker: Marker) -> None:
        raise NotImplementedError

    def replay(self, key: Any, value: Any | None, producer: TxnProducer | None = None) -> None:
        assert producer is None
        record = encode_group_record(key, value)
        self.log.append(record)
        decoded = decode_group_record(*record)
        assert decoded is not None
        self.core.replay(*decoded)

    def send(self, request: Any, client: Client = CLIENT) -> Any:
        """The answer, which comes at once; its error raised."""
        ticket = self.ask(request, client)
        answer = self.answers.pop(ticket)
        if isinstance(answer, ApiError):
            raise answer
        return answer

    def ask(self, request: Any, client: Client = CLIENT) -> int:
        """The number with which the answer will be in `answers`. A request whose error is raised has written
        nothing."""
        self.tickets += 1
        ticket = self.tickets
        turn = self.turn()
        try:
            self.core.handle(turn, ticket, request, client)
        except ApiError as error:
            assert not turn.records
            turn.answers.append((ticket, error))
        self._keep(turn)
        self.pass_time(0)
        return ticket

    def _keep(self, turn: Turn) -> None:
        for ticket, answer in turn.answers:
            assert ticket not in self.answers, "a ticket is answered once"
            self.answers[ticket] = answer

    def pass_time(self, ms: int) -> None:
        """Timers run when they are due."""
        end = self.now_ms + ms
        while (next_ms := self.timers.next_ms) is not None and next_ms <= end:
            self.now_ms = max(self.now_ms, next_ms)
            for action in self.timers.take_due(self.now_ms):
                turn = self.turn()
                action(turn)
                self._keep(turn)
        self.now_ms = end

    def topics_changed(self, *names: str) -> None:
        deleted = frozenset(name for name in names if name not in self.topics.facts)
        self.core.topics_changed(self.turn(), frozenset(names), deleted)

    def group(self, group_id: str = "g") -> ConsumerGroup:
        group = self.groups[group_id]
        assert isinstance(group, ConsumerGroup)
        return group


class ConsumerHere:
    """A member that does as its answers say: it gives up what it lost at once, and tells so with its next heartbeat."""

    def __init__(self, shard: ConsumerShard, member_id: str, *names: str, group_id: str = "g", **fields: Any) -> None:
        self.shard = shard
        self.group_id = group_id
        self.member_id = member_id
        self.epoch = 0
        self.fields: dict[str, Any] = {"subscribed_topic_names": tuple(names), **fields}
        self.owned: tuple[TopicIdPartitions, ...] = ()
        self.is_known = False
        """True if the coordinator knows `owned`."""
        self.client = CLIENT

    def request(self, full: bool = False, **other: Any) -> ConsumerGroupHeartbeatRequest:
        fields: dict[str, Any] = {"instance_id": self.fields.get("instance_id")}
        if full or self.epoch == 0:
            fields = {"rebalance_timeout_ms": REBALANCE_MS, "owned_partitions": self.owned, **self.fields}
        elif not self.is_known:
            fields["owned_partitions"] = self.owned
        return ConsumerGroupHeartbeatRequest(
            **{"group_id": self.group_id, "member_id": self.member_id, "member_epoch": self.epoch, **fields, **other}
        )

    def beat(self, full: bool = False, **other: Any) -> ConsumerGroupHeartbeatResponse:
        answer: ConsumerGroupHeartbeatResponse = self.shard.send(self.request(full, **other), self.client)
        self.is_known = True
        self.epoch = answer.member_epoch
        if answer.assignment is not None and answer.assignment != self.owned:
            self.owned = answer.assignment
            self.is_known = False
        return answer

    def subscribe(self, *names: str) -> ConsumerGroupHeartbeatResponse:
        self.fields["subscribed_topic_names"] = names
        return self.beat(subscribed_topic_names=names)

    def leave(self, epoch: int = -1) -> None:
        self.shard.send(self.request(member_epoch=epoch, owned_partitions=None))
        self.epoch, self.owned, self.is_known = 0, (), False

    @property
    def partitions(self) -> set[tuple[str, int]]:
        return {(topic.topic_id, partition) for topic in self.owned for partition in topic.partitions}


def settle(*members: ConsumerHere, rounds: int = 6) -> int:
    """Heartbeats of all in turn, until nobody's epoch or partitions change; how many rounds that took."""
    for count in range(rounds):
        before = [(member.epoch, member.owned, member.is_known) for member in members]
        for member in members:
            member.beat()
        if before == [(member.epoch, member.owned, member.is_known) for member in members]:
            return count
    raise AssertionError(f"not settled after {rounds} rounds")
