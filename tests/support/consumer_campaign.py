"""Seeded campaigns on the core of consumer groups: members that lose answers, are slow to give up, come, go, die and
change their minds, while topics come, grow and go, and the coordinator loads its log again.

After every step:
- no partition belongs to two members, as they themselves have acknowledged what they own;
- the records read from scratch, whole or compacted, are the state that the coordinator has.

At the end everybody just sends heartbeats: the group settles within `ROUNDS_MAX` rounds, and every partition that
somebody subscribes to has an owner that does.

    python -m tests.support.consumer_campaign --seeds 0-99 --steps 400
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from broker.groups.group_sizes import group_memory
from broker.groups.shard.group_totals import GroupTotals
from broker.groups.shard.shard import Shard
from penstock.errors import (
    ApiError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupIdNotFoundError,
    UnknownMemberIdError,
)
from penstock.messages.groups.consumer_protocol import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicIdPartitions,
)
from tests.support.consumer_groups import ConsumerShard, TopicsHere

ROUNDS_MAX: Final = 12
SESSION_MS: Final = 45_000
GROUP: Final = "g"
SWEEPS: Final = 2
"""Timers that are no member's."""
Partitions = frozenset[tuple[str, int]]
NONE: Final[Partitions] = frozenset()


@dataclass(slots=True, eq=False)
class Consumer:
    """A client of the protocol. `owned` is what it reads; `wanted` what it was last told to have."""

    member_id: str
    names: tuple[str, ...] | None
    regex: str | None
    instance_id: str | None = None
    assignor: str | None = None
    epoch: int = 0
    owned: Partitions = NONE
    wanted: Partitions = NONE
    unsure: bool = True
    """The last answer was lost, or it has just joined: it says everything."""
    news: dict[str, Any] = field(default_factory=dict)
    reported: Partitions | None = None
    heard_ms: int = 0

    def reconcile(self, draw: Random | None) -> None:
        """Give up and take over: all of it, or with `draw` perhaps only a part of what is to be given up."""
        lost = self.owned - self.wanted
        if lost and draw is not None and draw.random() < 0.5:
            self.owned -= frozenset(draw.sample(sorted(lost), draw.randint(0, len(lost))))
        else:
            self.owned = self.wanted

    def request(self) -> ConsumerGroupHeartbeatRequest:
        says: dict[str, Any] = dict(self.news)
        if self.unsure or self.epoch == 0:
            says = {
                "rebalance_timeout_ms": 30_000,
                "subscribed_topic_names": self.names,
                "subscribed_topic_regex": self.regex or "",
                "server_assignor": self.assignor,
                "owned_partitions": grouped(self.owned),
            }
            if self.names is None and self.regex is None:
                says["subscribed_topic_names"] = ()
        elif self.owned != self.reported:
            says["owned_partitions"] = grouped(self.owned)
        return ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=self.epoch, instance_id=self.instance_id, **says
        )

    def take(self, answer: ConsumerGroupHeartbeatResponse, reported: Partitions) -> None:
        self.epoch, self.unsure, self.news, self.reported = answer.member_epoch, False, {}, reported
        if answer.assignment is not None:
            self.wanted = frozenset((one.topic_id, number) for one in answer.assignment for number in one.partitions)

    def forget(self) -> None:
        """It was fenced: it owns nothing, and joins again."""
        self.epoch, self.owned, self.wanted, self.unsure, self.reported = 0, NONE, NONE, True, None


def grouped(partitions: Partitions) -> tuple[TopicIdPartitions, ...]:
    topics = sorted({topic_id for topic_id, _ in partitions})
    return tuple(
        TopicIdPartitions(topic_id, tuple(sorted(number for one, number in partitions if one == topic_id)))
        for topic_id in topics
    )


class Campaign:
    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.topics = TopicsHere(a=4, b=7, ab=3, c=1)
        self.shard = ConsumerShard(self.topics, group_consumer_max_size=9)
        self.consumers: list[Consumer] = []
        self.away: list[Consumer] = []
        self.number = 0
        self.written = 0
        self.shadow = Shard(self.shard.config, group_memory(1 << 40), GroupTotals())

    # -- steps ---------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        kinds = {
            self.beat: 60,
            self.lose_an_answer: 10,
            self.repeat: 4,
            self.join: 6,
            self.leave: 3,
            self.die: 2,
            self.go_away: 2,
            self.come_back: 3,
            self.subscribe: 4,
            self.wait: 6,
            self.change_topics: 4,
            self.reload: 2,
            self.lie: 1,
        }
        self.draw.choices(list(kinds), list(kinds.values()))[0]()
        self.check()

    def one(self) -> Consumer | None:
        return self.draw.choice(self.consumers) if self.consumers else None

    def beat(self) -> None:
        consumer = self.one()
        if consumer is not None:
            self.heartbeat(consumer)

    def heartbeat(self, consumer: Consumer, lost: bool = False, prompt: bool = False) -> None:
        reported = consumer.owned
        answer = self.ask(consumer)
        if answer is None:
            return
        if lost:
            consumer.unsure = True
            return
        consumer.take(answer, reported)
        if prompt or self.draw.random() < 0.8:
            consumer.reconcile(None if prompt else self.draw)

    def ask(self, consumer: Consumer) -> ConsumerGroupHeartbeatResponse | None:
        consumer.heard_ms = self.shard.now_ms
        try:
            answer: ConsumerGroupHeartbeatResponse = self.shard.send(consumer.request())
        except (FencedMemberEpochError, UnknownMemberIdError, GroupIdNotFoundError):
            consumer.forget()
            return None
        except ApiError as error:
            # A join may be refused: no room, an instance that is taken. A member that was removed because it gave up
            # too late may meet a new holder of its instance.
            assert consumer.epoch == 0 or isinstance(error, FencedInstanceIdError), error
            consumer.forget()
            self.consumers.remove(consumer)
            return None
        return answer

    def lose_an_answer(self) -> None:
        consumer = self.one()
        if consumer is not None:
            self.heartbeat(consumer, lost=True)

    def repeat(self) -> None:
        """The same heartbeat again, since its answer was lost: nothing more is written, the answer is the same."""
        consumer = self.one()
        if consumer is None:
            return
        consumer.unsure = True
        request = consumer.request()
        first = self.ask(consumer)
        if first is None:
            return
        written = len(self.shard.log)
        second = self.shard.send(request)
        assert second == first, (request, first, second)
        assert len(self.shard.log) == written, self.shard.log[written:]

    def join(self) -> None:
        self.number += 1
        names, regex = self.subscription()
        instance = self.draw.choice([None, None, f"i{self.draw.randint(1, 3)}"])
        assignor = self.draw.choice([None, None, "uniform", "range"])
        consumer = Consumer(f"m{self.number}", names, regex, instance, assignor)
        self.consumers.append(consumer)
        self.heartbeat(consumer)

    def subscription(self) -> tuple[tuple[str, ...] | None, str | None]:
        names = self.draw.choice([("a",), ("a", "b"), ("b",), ("c", "a", "new"), (), None])
        regex = None if names is not None and self.draw.random() < 0.8 else self.draw.choice(["a.*", "[ab]", "none"])
        return names, regex

    def leave(self) -> None:
        consumer = self.one()
        if consumer is None or consumer.epoch == 0:
            return
        self.consumers.remove(consumer)
        self.send_leave(consumer, -1)

    def send_leave(self, consumer: Consumer, epoch: int) -> bool:
        """True if the coordinator heard it."""
        request = ConsumerGroupHeartbeatRequest(GROUP, consumer.member_id, epoch, instance_id=consumer.instance_id)
        consumer.forget()
        try:
            self.shard.send(request)
        except ApiError:
            return False
        return True

    def die(self) -> None:
        """It is heard no more; its session passes, some time."""
        consumer = self.one()
        if consumer is not None:
            self.consumers.remove(consumer)

    def go_away(self) -> None:
        consumer = self.one()
        if consumer is not None and consumer.instance_id is not None and consumer.epoch > 0:
            self.consumers.remove(consumer)
            if self.send_leave(consumer, -2):
                self.away.append(consumer)

    def come_back(self) -> None:
        if self.away:
            consumer = self.away.pop()
            self.number += 1
            consumer.member_id = f"m{self.number}"
            self.consumers.append(consumer)
            self.heartbeat(consumer)

    def subscribe(self) -> None:
        consumer = self.one()
        if consumer is not None:
            consumer.names, consumer.regex = self.subscription()
            consumer.news = {
                "subscribed_topic_names": consumer.names or (),
                "subscribed_topic_regex": consumer.regex or "",
            }

    def wait(self) -> None:
        """A consumer that was not heard for its session's time owns nothing, and knows it: its own clock tells it."""
        self.shard.pass_time(self.draw.choice([100, 3_000, 10_000, 20_000]))
        for consumer in self.consumers:
            if self.shard.now_ms - consumer.heard_ms >= SESSION_MS:
                consumer.forget()

    def change_topics(self) -> None:
        name = self.draw.choice(["a", "b", "ab", "c", "new", "other"])
        there = self.topics.facts.get(name)
        if there is None:
            self.topics.add(name, self.draw.randint(1, 6))
        elif self.draw.random() < 0.3:
            del self.topics.facts[name]
        elif self.draw.random() < 0.3:
            self.topics.add(name, self.draw.randint(1, 6))
        else:
            self.topics.grow(name, there.partitions + self.draw.randint(1, 3))
        self.shard.topics_changed(name)

    def reload(self) -> None:
        self.shard.reload()

    def lie(self) -> None:
        """A member says that it owns what it does not: that is taken for nothing but what it may own."""
        consumer = self.one()
        if consumer is not None and consumer.epoch > 0:
            topic_id = self.topics.facts[self.draw.choice(sorted(self.topics.facts))].topic_id
            consumer.owned |= {(topic_id, 0)} if (topic_id, 0) in consumer.wanted else NONE
            self.heartbeat(consumer)

    # -- promises ------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        group = self.shard.groups.get(GROUP)
        owner: dict[tuple[str, int], str] = {}
        for consumer in self.consumers:
            if group is not None and consumer.member_id in group.members:
                for partition in consumer.owned:
                    other = owner.setdefault(partition, consumer.member_id)
                    assert other == consumer.member_id, f"{partition} belongs to {other} and {consumer.member_id}"
        if group is not None:
            assert group.targets.keys() <= group.members.keys(), "a target is left over"
            assert len(self.shard.timers) <= 2 * len(group.members) + SWEEPS, "a timer is left over"
            assert set(group.instances.values()) <= group.members.keys()
        self.check_records()

    def check_records(self) -> None:
        for key, value in self.shard.log[self.written :]:
            self.shard.read_into(self.shadow, [(key, value)])
        if len(self.shard.log) != self.written:
            self.written = len(self.shard.log)
            assert self.shadow.groups == self.shard.groups
            if self.draw.random() < 0.1:
                assert self.shard.read(self.shard.compacted()) == self.shard.groups
                assert self.shard.read(self.shard.log) == self.shard.groups

    def finish(self) -> int:
        """The rounds of heartbeats until nothing changes, after a topic grew that most read."""
        self.shard.pass_time(1)
        for consumer in self.consumers:
            consumer.reconcile(None)
        self.expire_others()
        if "a" in self.topics.facts:
            self.topics.grow("a", self.topics.facts["a"].partitions + 5)
            self.shard.topics_changed("a")
        for count in range(ROUNDS_MAX):
            before = (len(self.shard.log), [(one.epoch, one.owned, one.unsure) for one in self.consumers])
            for consumer in list(self.consumers):
                self.heartbeat(consumer, prompt=True)
                self.check()
            if before == (len(self.shard.log), [(one.epoch, one.owned, one.unsure) for one in self.consumers]):
                self.check_settled()
                return count
        raise AssertionError(f"not settled after {ROUNDS_MAX} rounds: {self.shard.groups.get(GROUP)!r}")

    def expire_others(self) -> None:
        """The sessions of those that died pass, while the others go on."""
        for _ in range(4):
            self.shard.pass_time(SESSION_MS // 3)
            for consumer in list(self.consumers):
                self.heartbeat(consumer, prompt=True)
                self.check()

    def check_settled(self) -> None:
        group = self.shard.groups.get(GROUP)
        if group is None:
            assert not self.consumers
            return
        assert set(group.members) == {one.member_id for one in self.consumers}
        assert group.state == ("Stable" if self.consumers else "Empty"), group
        owned: dict[str, Partitions] = {one.member_id: one.owned for one in self.consumers}
        for name, topic in self.topics.facts.items():
            readers = {one for one in group.members if name in group.subscription_of(group.members[one])}
            for partition in range(topic.partitions):
                owners = {one for one, partitions in owned.items() if (topic.topic_id, partition) in partitions}
                assert len(owners) == bool(readers) and owners <= readers, (name, partition, owners, readers)
        subscriptions = {group.subscription_of(member) for member in group.members.values()}
        asked = {member.server_assignor for member in group.members.values()}
        if len(subscriptions) == 1 and "range" not in asked:
            counts = [len(partitions) for partitions in owned.values()]
            assert max(counts) - min(counts) <= 1, counts


def run(seed: int, steps: int) -> int:
    """One campaign; the rounds that it took to settle. A failure says how to run it again."""
    campaign = Campaign(seed)
    try:
        for _ in range(steps):
            campaign.step()
        return campaign.finish()
    except Exception as error:
        error.add_note(f"python -m tests.support.consumer_campaign --seeds {seed}-{seed} --steps {steps}")
        raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0-99")
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    rounds = [run(seed, options.steps) for seed in range(int(first), int(last or first) + 1)]
    print(f"{len(rounds)} seeds of {options.steps} steps: settled after {max(rounds)} rounds at most")


if __name__ == "__main__":
    main()
