"""The part of a simulated Kafka-speaking member that does not depend on the protocol of its group.

It finds the coordinator, asks it, reads the partitions that it owns, commits what it has processed, and now and then
leaves, dies, or stands still for longer than its session: then the first thing that it does is to commit, as a process
does that was stopped in the middle of its work. Some commits of what it gives up come late: they are sent when it is in
a newer epoch, as if they came from a connection that was given up with a commit under way. Not here: how it becomes a
member (consumer_member.py, classic_member.py), and what may be true (oracle.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from broker.kafka.schemas.fetch import FetchRequest
from penstock.record.reader import read_columns
from tests.simulation.cluster.groups.coordinator_client import ELSEWHERE, CoordinatorClient
from tests.simulation.cluster.groups.offset_messages import BY_ID_VERSION, commit_request, fetch_request, parts_of
from tests.simulation.cluster.groups.oracle import Life, Spot
from tests.simulation.cluster.kafka.connection import Broken, Connection
from tests.simulation.cluster.kafka.fetch_session import Place, whole
from tests.simulation.cluster.plan import MemberPlan

if TYPE_CHECKING:
    from tests.simulation.cluster.groups.group import Group

ILLEGAL_GENERATION, UNKNOWN_MEMBER, REBALANCES = 22, 25, 27
NO_GROUP, FENCED_INSTANCE, FENCED_EPOCH, UNRELEASED_INSTANCE, STALE_EPOCH = 69, 82, 110, 111, 113
OUT = frozenset({UNKNOWN_MEMBER, FENCED_EPOCH, FENCED_INSTANCE, ILLEGAL_GENERATION, NO_GROUP})
"""The member is one no more, or was never."""
TIMED_OUT, UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID = 7, 3, 100
MAY_COME = ELSEWHERE | OUT | {REBALANCES, UNRELEASED_INSTANCE, STALE_EPOCH, TIMED_OUT, UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID}
SESSION_MS, REBALANCE_MS = 2_500, 3_000
WAIT_MS, READ_SECONDS, FETCH_BYTES = 20, 1.0, 20_000
LAST_PAUSE_S = 0.05
"""The longest pause once nobody writes any more. A fetch ends with its segment: with small segments, a slow member that
comes late would need minutes for what is there."""
LEAVE_SHARE, DIE_SHARE, STILL_SHARE, COMMIT_SHARE, LATE_SHARE = 0.01, 0.01, 0.008, 0.5, 0.4
SLOW_SHARE, SLOW_SECONDS = 0.3, 0.4
"""So many times it takes up to so long to give partitions up."""


class Out(Exception):
    """The coordinator knows the member no more: it has lost its partitions."""


class Over(Exception):
    """This life ends: the member has left, or died."""

    def __init__(self, seconds: float) -> None:
        super().__init__("the member is away")
        self.seconds = seconds


class Member:
    """See the module. `owned` has the position of each partition that it owns."""

    def __init__(self, group: Group, number: int, plan: MemberPlan) -> None:
        self.group, self.plan, self.clients = group, plan, group.clients
        self.name = f"{group.plan.name}-{number}"
        self.instance = f"{self.name}-static" if plan.is_static else None
        self.coordinator = CoordinatorClient(self.clients, self.name, group.plan.name)
        self.client = self.coordinator.client
        self.draw = self.client.draw
        self.member_id, self.epoch = "", 0
        self.owned: dict[Spot, int] = {}
        self.life = Life(self.name, self.instance or self.name)
        self._uncommitted: dict[Spot, int] = {}
        self._late: tuple[int, dict[Spot, int]] | None = None
        """A commit that is under way, and its epoch."""
        self._lives = 0
        self.names: dict[str, str] = {}
        """By topic id."""

    @property
    def now_s(self) -> float:
        return self.clients.network.scheduler.now_s

    # -- a life --------------------------------------------------------------------------------------------------------

    async def work(self) -> None:
        """Until the group has processed everything."""
        while not self.group.is_done:
            self._begin()
            try:
                while not self.group.is_done:
                    await self._step()
                await self._leave_quietly()
            except Over as over:
                self.lose()
                if not self.clients.is_mended:
                    await asyncio.sleep(over.seconds)
        self.lose()
        self.client.drop()

    def _begin(self) -> None:
        self._lives += 1
        self.life = Life(f"{self.name}.{self._lives}", self.instance or f"{self.name}.{self._lives}")
        self.group.oracle.begins(self.life)
        self.begin()

    async def _step(self) -> None:
        try:
            await self.beat()
            await self._late_commit()
            await self._read()
            if self._uncommitted and self.draw.random() < COMMIT_SHARE:
                await self.commit(self._uncommitted)
            await self._maybe_do_something()
        except Out:
            self.lose()
            self.group.oracle.begins(self.life)
            self.begin()
            await self.client.pause()
        except Broken:
            self.coordinator.forget()
            await self.client.pause()
        await asyncio.sleep(min(self.plan.pause_s, LAST_PAUSE_S) if self.clients.is_over else self.plan.pause_s)

    async def _maybe_do_something(self) -> None:
        """Not while the cluster is mended: then the group is to be stable."""
        if self.clients.is_mended:
            return
        number, draw = self.draw.random(), self.draw
        if number < LEAVE_SHARE:
            await self._leave_quietly()
            raise Over(draw.uniform(0.1, 3.0))
        if number < LEAVE_SHARE + DIE_SHARE:
            self.clients.calls["group members died"] += 1
            self.client.drop()
            raise Over(draw.uniform(0.1, 2 * SESSION_MS / 1000))
        if number < LEAVE_SHARE + DIE_SHARE + STILL_SHARE:
            self.clients.calls["group members stood still"] += 1
            await asyncio.sleep(draw.uniform(0.5, 3.0) * SESSION_MS / 1000)
            if self.owned:
                await self.commit(self.owned)
        elif len(self.group.plan.topics) > 1 and number > 1 - LEAVE_SHARE:
            self.change_topics()

    async def _leave_quietly(self) -> None:
        with suppress(Broken):
            if self._uncommitted:
                with suppress(Out):
                    await self.commit(self._uncommitted)
            await self.leave()
            self.clients.calls["group members left"] += 1

    def lose(self) -> None:
        """Owns nothing any more, and is no member."""
        self.owned, self._uncommitted, self._late = {}, {}, None
        self.group.oracle.gone(self.life)

    # -- the protocol --------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Nothing is known of the group."""
        raise NotImplementedError

    async def beat(self) -> None:
        """Joins, or says that it lives, and takes what it is assigned."""
        raise NotImplementedError

    async def leave(self) -> None:
        raise NotImplementedError

    def change_topics(self) -> None:
        """Subscribes to others of the group's topics."""
        raise NotImplementedError

    # -- the coordinator -----------------------------------------------------------------------------------------------

    async def ask(self, message: Any, version: int) -> Any:
        """The coordinator's answer; Broken when there is none, or no coordinator."""
        answer = await self.coordinator.ask(message, version)
        code = getattr(answer, "error_code", 0)
        if code and code not in MAY_COME | self.may_come:
            self.client.wrong("answers", f"{type(message).__name__} was answered {answer}")
        return answer

    may_come: frozenset[int] = frozenset()
    """More error codes that this protocol has."""

    # -- offsets -------------------------------------------------------------------------------------------------------

    async def take(self, spots: Iterable[Spot]) -> dict[Spot, int]:
        """Where to begin to read these; without those of which that is not known."""
        asked = set(spots)
        version = self._version(asked)
        member = {"member_id": self.member_id, "member_epoch": self.epoch} if version > 8 and self.is_checked else {}
        question = fetch_request(self.names, self.group.plan.name, asked, **member)
        sent_s = self.now_s
        answer = (await self.ask(question, version)).groups[0]
        self._check(answer.error_code)
        found = {}
        for spot, part in parts_of(self.names, answer.topics, version).items():
            if not part.error_code and spot in asked:
                self.group.oracle.fetched(spot, part.committed_offset, sent_s)
                found[spot] = max(0, part.committed_offset)
        return found

    is_checked = True
    """Its fetches of offsets name it."""

    versions: tuple[int, ...] = (8, 9, BY_ID_VERSION)
    """The versions of its requests for offsets."""

    def _version(self, spots: Iterable[Spot]) -> int:
        """The version of a request for offsets: by names or by ids."""
        has_names = self.plan.by_name and all(spot.topic_id in self.names for spot in spots)
        return self.draw.choice(self.versions) if has_names else BY_ID_VERSION

    async def commit(self, offsets: Mapping[Spot, int]) -> None:
        """Offsets up to which the member has processed."""
        offsets = dict(offsets)
        for spot, code in (await self._codes_of_commit(offsets, self.epoch)).items():
            if code:
                self._check(code)
            else:
                self.group.oracle.acknowledged(spot, offsets[spot])
                self.clients.calls["group offsets committed"] += 1
                if self._uncommitted.get(spot) == offsets[spot]:
                    del self._uncommitted[spot]

    async def _codes_of_commit(self, offsets: Mapping[Spot, int], epoch: int) -> dict[Spot, int]:
        """The error code of each partition; 0 where it is committed."""
        version, group_id = self._version(offsets), self.group.plan.name
        member = {"member_id": self.member_id, "group_instance_id": self.instance}
        question = commit_request(
            self.names, group_id, offsets, self.name, generation_id_or_member_epoch=epoch, **member
        )
        self.group.oracle.commits(self.life, offsets)
        answer = await self.ask(question, version)
        codes = {spot: part.error_code for spot, part in parts_of(self.names, answer.topics, version).items()}
        for code in filter(None, codes.values()):
            self.clients.refused[f"kafka commit {code}"] += 1
        return codes

    async def commit_last(self, spots: Iterable[Spot]) -> None:
        """The last commit of partitions before it gives them up, which may take its time. It may come late."""
        gone = tuple(spots)
        if gone and self.draw.random() < SLOW_SHARE:
            await asyncio.sleep(self.draw.uniform(0.0, SLOW_SECONDS))
        waiting = {spot: self._uncommitted[spot] for spot in gone if spot in self._uncommitted}
        if waiting and self.draw.random() < LATE_SHARE:
            self._late = self.epoch, waiting
        elif waiting:
            with suppress(Broken):
                await self.commit(waiting)

    async def _late_commit(self) -> None:
        """Its sender is in a newer epoch, and has told the coordinator that it gave the partitions up."""
        if self._late is None or self.epoch <= self._late[0]:
            return
        (epoch, offsets), self._late = self._late, None
        for spot, code in (await self._codes_of_commit(offsets, epoch)).items():
            self.clients.calls["group commits came late"] += 1
            if not code:
                self.group.oracle.came_late(self.life, spot, offsets[spot], epoch)

    def _check(self, code: int) -> None:
        if code in OUT:
            raise Out
        if code in ELSEWHERE:
            self.coordinator.forget()
            raise Broken(f"error code {code}")

    # -- reading -------------------------------------------------------------------------------------------------------

    def learn_names(self) -> None:
        """From the client's metadata, which is as old as its last look."""
        for topic in self.group.plan.topics:
            leader = self.client.leader(topic, 0)
            if leader is not None:
                self.names[leader.topic_id] = topic

    async def _read(self) -> None:
        """A little of each partition that it owns."""
        for spot, offset in list(self.owned.items()):
            topic = self.names.get(spot.topic_id)
            leader = None if topic is None else self.client.leader(topic, spot.partition)
            try:
                async with asyncio.timeout(READ_SECONDS):
                    if topic is None or leader is None or leader.topic_id != spot.topic_id or leader.node_id < 0:
                        await self._look()
                    else:
                        await self._fetch(Place(topic, *spot), offset, await self.client.node(leader.node_id))
            except (Broken, TimeoutError):
                await self._look()

    async def _look(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(READ_SECONDS):
                await self.client.refresh(self.draw.choice(self.group.plan.topics))
        self.learn_names()

    async def _fetch(self, place: Place, offset: int, connection: Connection) -> None:
        version = self.client.version(FetchRequest, self.draw.choice((12, 13)))
        answer = await connection.ask(whole(place, offset, FETCH_BYTES), version)
        for topic in answer.responses:
            for part in topic.partitions:
                if part.error_code:
                    self.clients.refused[f"kafka fetch {part.error_code}"] += 1
                    await self._look()
                elif part.records:
                    self._process(Spot(place.topic_id, place.partition), offset, part.records)

    def _process(self, spot: Spot, offset: int, records: Any) -> None:
        columns = read_columns(records, from_offset=offset)
        if not len(columns.offsets) or spot not in self.owned:
            return
        end = int(columns.offsets[-1]) + 1
        self.group.oracle.processed(spot, offset, end)
        self.clients.calls["group records processed"] += len(columns.offsets)
        self.owned[spot] = self._uncommitted[spot] = end

    def forget(self, spots: Iterable[Spot]) -> None:
        """They are given up."""
        for spot in spots:
            self.owned.pop(spot, None)
            self._uncommitted.pop(spot, None)

    def __repr__(self) -> str:
        return f"Member({self.name})"
