"""A seeded campaign on the core of classic groups: members that come, leave, die, stand still and change; requests and
answers that are lost, late or doubled; strangers' requests; coordinators that crash and load what was committed.

    python -m tests.support.classic_campaign --seeds 1000 [--first 0]

After every event: the group's soft state is consistent, and every turn's records, replayed, are the group. In one
generation a partition is told to one member alone (a static member's instance). No ticket is answered twice. When the
faults end, the group settles: all who live are in one stable generation, with all partitions. When all have gone, every
ticket was answered and no timer is left.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import permutations
from random import Random
from typing import Any

from broker.coordination.turn import Client
from broker.groups.classic.states import GroupState
from broker.groups.group_config import GroupConfig
from penstock.errors import ApiError, NotCoordinatorError
from penstock.messages.groups.classic_protocol import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.support.classic_group_checks import check_consistent, check_replays
from tests.support.classic_group_core import ClassicGroupCore
from tests.support.classic_members import GROUP, PARTITIONS, REBALANCE_MS, SAFE, SESSION_MS, TICK_MS, Member

CONFIG = GroupConfig(group_initial_rebalance_delay_ms=700)
CHAOS_MS = 90_000
SETTLES_WITHIN_MS = 60_000
GONE_WITHIN_MS = 400_000
PROTOCOLS = tuple(permutations(SAFE))
"""Everyone supports all: a loaded group knows no other protocol than the chosen one, and takes nobody without it."""


class Campaign:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ms = 0
        self.core = ClassicGroupCore(CONFIG)
        self.members: list[Member] = []
        self.owners: dict[tuple[int, int], str] = {}
        self.loss = self.random.choice((0.0, 0.02, 0.1))
        self.coordinators = 1
        self._names = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._committed = 0
        self._commits = False
        self._senders: dict[int, tuple[Member | None, int, Any]] = {}
        """By ticket of this coordinator; until it is answered."""
        self._held: list[tuple[tuple[Member | None, int, Any], Any]] = []
        """Answers that wait for the next commit."""

    # -- time ----------------------------------------------------------------------------------------------------------

    def after(self, delay_ms: int, event: Callable[[], None]) -> None:
        self._order += 1
        heappush(self._events, (self.now_ms + delay_ms, self._order, event))

    def run_until(self, end_ms: int) -> None:
        while True:
            at_ms = self._events[0][0] if self._events else end_ms + 1
            timer_ms = self.core.timers.next_ms
            if timer_ms is not None and timer_ms <= min(at_ms, end_ms):
                self.core.advance(max(timer_ms - self.core.now_ms, 0))
                self.now_ms = self.core.now_ms
            elif at_ms <= end_ms:
                self.now_ms = at_ms
                self.core.advance(at_ms - self.core.now_ms)
                heappop(self._events)[2]()
            else:
                break
            self._take_answers()
        self.core.advance(end_ms - self.core.now_ms)
        self.now_ms = end_ms

    def _take_answers(self) -> None:
        for ticket in [ticket for ticket in self._senders if ticket in self.core.answers]:
            self._held.append((self._senders.pop(ticket), self.core.answers[ticket]))
        if not self._commits and (self._held or self._committed < len(self.core.log)):
            self._commits = True
            self.after(self.random.randint(1, 60), self.commit)
        check_consistent(self.core, GROUP)
        check_replays(self.core, GROUP)

    # -- the network and the log ---------------------------------------------------------------------------------------

    def send(self, member: Member | None, number: int, request: Any) -> None:
        for _ in range(2 if self._chance(self.loss / 2) else 1):
            if not self._chance(self.loss):
                self.after(self.random.randint(0, 40), lambda: self._arrive(member, number, request))

    def _arrive(self, member: Member | None, number: int, request: Any) -> None:
        name = "stranger" if member is None else member.name
        self._senders[self.core.send(request, Client(name, f"/{name}"))] = member, number, request

    def commit(self) -> None:
        """The log's end is committed; the answers that waited for that go out."""
        self._committed, self._commits = len(self.core.log), False
        held, self._held = self._held, []
        for sender, answer in held:
            self._go_out(sender, answer)

    def _go_out(self, sender: tuple[Member | None, int, Any], answer: Any) -> None:
        member, number, request = sender
        if isinstance(answer, SyncGroupResponse):
            self._note_assignment(request, answer)
        if member is not None and not self._chance(self.loss):
            self.after(self.random.randint(0, 40), lambda: member.on_answer(number, answer, self.now_ms))

    def _note_assignment(self, request: SyncGroupRequest, answer: SyncGroupResponse) -> None:
        instance, _, number = request.member_id.partition("-")  # the client's name instead for a dynamic member
        owner = instance if instance.startswith("i") else f"{instance}-{number}"
        for partition in answer.assignment:
            other = self.owners.setdefault((request.generation_id, partition), owner)
            assert other == owner, f"{partition} of generation {request.generation_id}: {other} and {owner}"

    def crash(self) -> None:
        """Another coordinator loads what was committed, and perhaps some of what was not."""
        self._take_answers()
        old = self.core
        waiting: list[tuple[int, ApiError]] = old.core.unloaded()
        assert {ticket for ticket, _ in waiting} == self._senders.keys(), "not each ticket waits, or was answered"
        for sender in [*self._senders.values(), *(sender for sender, _ in self._held)]:
            self._go_out(sender, NotCoordinatorError())
        self._senders, self._held = {}, []
        old.log = old.log[: self.random.randint(self._committed, len(old.log))]
        self._committed = len(old.log)
        self.core = old.loaded_again()
        self.coordinators += 1

    # -- members -------------------------------------------------------------------------------------------------------

    def start_member(self, instance: str | None) -> None:
        self._names += 1
        member = Member(f"c{self._names}", instance, self.send)
        member.knows_ids = not self._chance(0.2)
        self.members.append(member)
        member.join(self.now_ms)
        self.after(TICK_MS, lambda: self._tick(member))

    def _tick(self, member: Member) -> None:
        if member.is_alive:
            member.tick(self.now_ms)
            self.after(TICK_MS, lambda: self._tick(member))

    @property
    def alive(self) -> list[Member]:
        return [member for member in self.members if member.is_alive]

    def _chance(self, of: float) -> bool:
        return self.random.random() < of

    def _fault(self) -> None:
        alive = self.alive
        kind = self.random.choice(("come", "leave", "die", "change", "stand still", "stranger", "stranger", "crash"))
        if kind == "come" or not alive:
            if len(alive) < 6:
                self.start_member(self.random.choice((None, None, "i1", "i2", "i3")))
        elif kind == "leave":
            self.random.choice(alive).leave(self.now_ms)
        elif kind == "die":
            dead = self.random.choice(alive)
            dead.stop()
            if dead.instance is not None:
                self.after(self.random.randint(0, 2 * SESSION_MS), lambda: self.start_member(dead.instance))
        elif kind == "change":
            member = self.random.choice(alive)
            member.protocols = self.random.choice(PROTOCOLS)
            member.metadata += b"+"
            member.join(self.now_ms)
        elif kind == "stand still":
            self._stand_still(self.random.choice(alive))
        elif kind == "stranger":
            self._arrive(None, 0, self._strangers_request())
        else:
            self.crash()

    def _stand_still(self, member: Member) -> None:
        member.is_alive = False

        def go_on() -> None:
            member.is_alive = True
            self._tick(member)

        self.after(self.random.randint(0, 3 * SESSION_MS), go_on)

    def _strangers_request(self) -> Any:
        """It names somebody, and mixes up who and when; it never assigns in a leader's name."""
        one, other = self.random.choice(self.members), self.random.choice(self.members)
        member_id = self.random.choice((one.member_id, "", "nobody"))
        generation = other.generation + self.random.choice((0, 0, 1, -1))
        instance = self.random.choice((None, other.instance))
        group = self.core.groups.get(GROUP)
        kind = self.random.choice(("join", "sync", "beat", "leave"))
        if kind == "join":
            return JoinGroupRequest(GROUP, SESSION_MS, REBALANCE_MS, member_id, "consumer", (), instance)
        if kind == "sync" and (group is None or group.leader != member_id):
            return SyncGroupRequest(GROUP, generation, member_id, instance)
        if kind == "leave":
            return LeaveGroupRequest(GROUP, (LeavingMember(member_id, instance), LeavingMember("nobody")))
        return HeartbeatRequest(GROUP, generation, member_id, instance)

    # -- the whole -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        for instance in self.random.choice(((None,), (None, None, "i1"), ("i1", "i2"), (None,) * 5)):
            self.start_member(instance)
        while self.now_ms < CHAOS_MS:
            self.run_until(self.now_ms + self.random.choice((5, 50, 500, 5_000, 20_000)))
            self._fault()
        self.loss = 0.0
        self.run_until(self.now_ms + 3 * SESSION_MS + 1)  # those who stand still go on
        if not self.alive:
            self.start_member(None)
        self.run_until(self.now_ms + SETTLES_WITHIN_MS)
        self._check_settled()
        for member in self.alive:
            self.random.choice((member.stop, lambda one=member: one.leave(self.now_ms)))()
        self.run_until(self.now_ms + GONE_WITHIN_MS)
        self._check_gone()

    def _check_settled(self) -> None:
        group = self.core.group(GROUP)
        assert group.state is GroupState.STABLE, group
        assert group.members.keys() == {member.member_id for member in self.alive}, group
        found = [(member.generation, member.assignment) for member in self.alive]
        assert all(generation == group.generation and assigned is not None for generation, assigned in found), found
        partitions = sorted(partition for _, assigned in found for partition in assigned or ())
        assert partitions == list(range(PARTITIONS)), found

    def _check_gone(self) -> None:
        group = self.core.group(GROUP)
        assert group.state is GroupState.EMPTY, group
        assert not self._senders, self._senders
        turn = self.core.turn()
        self.core.core.delete(turn, group)
        self.core.end(turn)
        assert not len(self.core.timers), self.core.timers._due


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    generations = coordinators = 0
    for seed in range(options.first, options.first + options.seeds):
        campaign = Campaign(seed)
        try:
            campaign.run()
        except BaseException:
            print(f"seed {seed} failed: python -m tests.support.classic_campaign --first {seed} --seeds 1")
            raise
        generations += len({generation for generation, _ in campaign.owners})
        coordinators += campaign.coordinators
    print(f"{options.seeds} seeds: {generations} generations that were assigned, {coordinators} coordinators")


if __name__ == "__main__":
    main()
