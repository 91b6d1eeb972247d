"""Seeded campaigns on one group with members of both protocols, while it moves between them.

Members of KIP-848 lose answers and are slow to give up; classic ones, cooperative and eager, are silent for a while;
all come, leave and die, topics grow and go, and the coordinator loads its log again. After every step no partition is
read by two members of the group. At the end everybody goes on, and every partition has one owner.

    python -m tests.support.mixed_campaign --seeds 0-99 --steps 300
"""

from __future__ import annotations

import argparse
from random import Random
from typing import Any, Final

from broker.groups.classic.group import ClassicGroup
from penstock.errors import ApiError, FencedMemberEpochError, GroupIdNotFoundError, UnknownMemberIdError
from penstock.messages.groups.classic_protocol import LeaveGroupRequest, LeavingMember
from penstock.messages.groups.consumer_protocol import ConsumerGroupHeartbeatRequest
from tests.support.classic_consumer import ClassicConsumer
from tests.support.consumer_campaign import Consumer
from tests.support.consumer_groups import ConsumerShard, TopicsHere

ROUNDS_MAX: Final = 40
SESSION_MS: Final = 45_000
GROUP: Final = "g"
NAMES: Final = (("a",), ("a", "b"), ("b", "c"))


class MixedCampaign:
    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.topics = TopicsHere(a=5, b=3, c=2)
        self.shard = ConsumerShard(
            self.topics,
            group_consumer_migration_policy=self.draw.choice(["bidirectional"] * 4 + ["upgrade"]),
        )
        self.new: list[Consumer] = []
        self.old: list[ClassicConsumer] = []
        self.heard_ms: dict[ClassicConsumer, int] = {}
        self.number = self.moves = 0
        self.kind: type[Any] | None = None

    def step(self) -> None:
        kinds = {
            self.beat: 30,
            self.go_on: 45,
            self.lose_an_answer: 6,
            self.join_new: 4,
            self.join_old: 4,
            self.leave_new: 4,
            self.leave_old: 2,
            self.die: 2,
            self.wait: 8,
            self.change_topics: 2,
            self.reload: 2,
        }
        self.draw.choices(list(kinds), list(kinds.values()))[0]()
        self.check()

    # -- steps ---------------------------------------------------------------------------------------------------------

    def beat(self) -> None:
        if self.new:
            self.heartbeat(self.draw.choice(self.new))

    def lose_an_answer(self) -> None:
        if self.new:
            self.heartbeat(self.draw.choice(self.new), lost=True)

    def heartbeat(self, consumer: Consumer, lost: bool = False, prompt: bool = False) -> None:
        reported, consumer.heard_ms = consumer.owned, self.shard.now_ms
        try:
            answer = self.shard.send(consumer.request())
        except (FencedMemberEpochError, UnknownMemberIdError, GroupIdNotFoundError):
            consumer.forget()
            return
        if lost:
            consumer.unsure = True
            return
        consumer.take(answer, reported)
        if prompt or self.draw.random() < 0.8:
            consumer.reconcile(None if prompt else self.draw)

    def go_on(self) -> None:
        if self.old:
            consumer = self.draw.choice(self.old)
            self.heard_ms[consumer] = self.shard.now_ms
            consumer.step()

    def join_new(self) -> None:
        if len(self.new) < 4:
            self.number += 1
            self.new.append(Consumer(f"n{self.number}", self.draw.choice(NAMES), None))
            self.heartbeat(self.new[-1])

    def join_old(self) -> None:
        if len(self.old) < 4:
            consumer = ClassicConsumer(self.shard, *self.draw.choice(NAMES), eager=self.draw.random() < 0.4, slow=True)
            self.old.append(consumer)
            self.heard_ms[consumer] = self.shard.now_ms
            consumer.step()

    def leave_new(self) -> None:
        if self.new:
            consumer = self.new.pop(self.draw.randrange(len(self.new)))
            if consumer.epoch > 0:
                self.tell(ConsumerGroupHeartbeatRequest(GROUP, consumer.member_id, -1))

    def leave_old(self) -> None:
        if self.old:
            consumer = self.old.pop(self.draw.randrange(len(self.old)))
            if consumer.member_id:
                self.tell(LeaveGroupRequest(GROUP, (LeavingMember(consumer.member_id),)))

    def tell(self, request: Any) -> None:
        try:
            self.shard.send(request)
        except ApiError:
            return

    def die(self) -> None:
        members: list[list[Any]] = [one for one in (self.new, self.old) if one]
        if members:
            some = self.draw.choice(members)
            some.pop(self.draw.randrange(len(some)))

    def wait(self) -> None:
        self.pass_time(self.draw.choice([100, 1_000, 5_000, 15_000]))

    def pass_time(self, ms: int) -> None:
        """A consumer that was not heard for its session's time reads nothing any more."""
        self.shard.pass_time(ms)
        for consumer in self.new:
            if self.shard.now_ms - consumer.heard_ms >= SESSION_MS:
                consumer.forget()
        for old in self.old:
            waits = old.joins is not None or old.syncs is not None
            if not waits and self.shard.now_ms - self.heard_ms[old] >= SESSION_MS:
                old.owned, old.lost, old.next, old.generation = frozenset(), frozenset(), None, -1

    def change_topics(self) -> None:
        name = self.draw.choice(sorted(self.topics.facts))
        self.topics.grow(name, self.topics.facts[name].partitions + 1)
        self.shard.topics_changed(name)

    def reload(self) -> None:
        """Requests that wait are told that the coordinator is another one: they join again."""
        for ticket, error in self.shard.core.unloaded():
            self.shard.answers[ticket] = error
        self.shard.reload()
        for old in self.old:
            if old.joins is not None or old.syncs is not None:
                self.shard.answers.pop(old.joins if old.joins is not None else old.syncs or 0, None)
                old.joins = old.syncs = None
                old.next = old.join

    # -- promises ------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        group = self.shard.groups.get(GROUP)
        if group is None:
            return
        if type(group) is not self.kind:
            self.kind, self.moves = type(group), self.moves + 1
        owner: dict[tuple[str, int], str] = {}
        names = {topic.topic_id: name for name, topic in self.topics.facts.items()}
        for consumer in self.new:
            if consumer.member_id in group.members:
                for topic_id, partition in consumer.owned:
                    self.own(owner, (names[topic_id], partition), consumer.member_id)
        for old in self.old:
            if old.member_id in group.members:
                for name, partition in old.owned:
                    self.own(owner, (name, partition), old.member_id)
        if self.draw.random() < 0.1 and not isinstance(group, ClassicGroup):
            assert self.shard.read(self.shard.log)[GROUP] == group
            assert self.shard.read(self.shard.compacted())[GROUP] == group

    def own(self, owner: dict[tuple[str, int], str], partition: tuple[str, int], member_id: str) -> None:
        other = owner.setdefault(partition, member_id)
        assert other == member_id, f"{partition} belongs to {other} and {member_id}"

    def finish(self) -> int:
        """The rounds until every partition has its one owner, after the sessions of the dead are over."""
        for _ in range(8):
            self.everybody(15_000)
        for count in range(ROUNDS_MAX):
            if self.is_settled():
                return count
            self.everybody(1_000)
        raise AssertionError(f"not settled after {ROUNDS_MAX} rounds: {self.shard.groups.get(GROUP)!r}")

    def everybody(self, ms: int) -> None:
        self.pass_time(ms)
        for consumer in self.new:
            self.heartbeat(consumer, prompt=True)
            self.check()
        for old in self.old:
            self.heard_ms[old] = self.shard.now_ms
            old.step()
            self.check()

    def is_settled(self) -> bool:
        names = {topic.topic_id: name for name, topic in self.topics.facts.items()}
        owned = [(names[topic_id], number) for one in self.new for topic_id, number in one.owned]
        owned += [partition for old in self.old for partition in old.owned]
        read = {name for one in self.new for name in one.names or ()} | {name for old in self.old for name in old.names}
        wanted = [(name, number) for name in read for number in range(self.topics.facts[name].partitions)]
        waits = any(old.joins is not None or old.syncs is not None for old in self.old)
        return sorted(owned) == sorted(wanted) and not waits


def run_mixed(seed: int, steps: int) -> tuple[int, int]:
    """One campaign: the rounds that it took to settle, and how often the group changed its protocol."""
    campaign = MixedCampaign(seed)
    try:
        for _ in range(steps):
            campaign.step()
        return campaign.finish(), campaign.moves
    except Exception as error:
        error.add_note(f"python -m tests.support.mixed_campaign --seeds {seed}-{seed} --steps {steps}")
        raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0-99")
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    found = [run_mixed(seed, options.steps) for seed in range(int(first), int(last or first) + 1)]
    rounds, moves = max(one for one, _ in found), sum(one for _, one in found)
    print(f"{len(found)} seeds of {options.steps} steps, {moves} moves: settled after {rounds} rounds at most")


if __name__ == "__main__":
    main()
