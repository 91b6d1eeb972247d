"""Consumers in Kafka's protocol, with fetch sessions and without, by names and by topic ids.

Each reads every partition of its topic to the end, through changes of leaders, and tells the ledger what it was given.
Besides it checks what a client of Kafka takes for granted: a session takes no request under an epoch that it had before
(I59); a node that has told of a topic id serves nothing under an earlier id of that name (I60); records are below the
high watermark that comes with them, and the end of a log is not below what was read from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.kafka.schemas.fetch import FetchRequest, FetchResponse
from broker.kafka.schemas.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.record.reader import read_columns
from tests.simulation.cluster.clients.readers import RETRY_SECONDS, has_read
from tests.simulation.cluster.kafka.connection import Broken, Connection
from tests.simulation.cluster.kafka.fetch_session import NOT_FOUND, WRONG_EPOCH, FetchSession, Place, Wanted, whole
from tests.simulation.cluster.kafka.kafka_client import KafkaClient
from tests.simulation.cluster.plan import KafkaReaderPlan, TopicKind

if TYPE_CHECKING:
    from tests.simulation.cluster.workload import Clients

LATEST, EARLIEST = -1, -2
PROBE_SHARE = 0.04
"""After so many of the answers, something is asked that must be refused, or that says how far a log goes."""
KEEPS_SHARE = 0.5
"""So often a session goes on naming a topic that was deleted."""
OUT_OF_RANGE = 1
BY_ID_VERSION = 13
FETCH_BYTES = (2_000, 20_000, 1 << 20)
HURRY_SECONDS = 0.02
"""The pause of a reader once nobody writes: by small answers, with long pauses, it would never come to the end."""
LIST_OFFSETS_VERSION = 5
UNLIKE = Wanted(-1, -1)


class Follower(NamedTuple):
    """A follower that the leader of this epoch has named (KIP-392)."""

    node_id: int
    epoch: int


class KafkaReader:
    """One consumer; its name in the ledger is its own."""

    def __init__(self, clients: Clients, number: int, plan: KafkaReaderPlan) -> None:
        self.clients, self.plan = clients, plan
        self.name = f"kafka-reader-{number}"
        self._client = KafkaClient(clients, self.name)
        self._sessions: dict[int, FetchSession] = {}
        self._partitions = 0
        self._old_ids: list[str] = []
        self._rack = clients.racks.rack()
        self._followers: dict[Place, Follower] = {}
        self._is_plain = any(t.name == plan.topic and t.kind is TopicKind.PLAIN for t in clients.plan.topics)

    async def read(self) -> None:
        """Until everything that was written has been read."""
        clients, topic = self.clients, self.plan.topic
        while True:
            log = clients.logs.get(topic)
            if log is None:
                await asyncio.sleep(RETRY_SECONDS)
            elif await self._follow(log, clients.topic_ids[topic]):
                self._client.drop()
                return

    async def _follow(self, log: int, topic_id: str) -> bool:
        """False: the topic is another one by now."""
        clients, topic, self._partitions = self.clients, self.plan.topic, 0
        while not has_read(clients, self.name, log, clients.partitions(topic)):
            if clients.logs.get(topic) != log:
                self._old_ids.append(topic_id)
                return False
            self._meet(log)
            by_node = self._by_node(log, topic_id)
            known = sum(map(len, by_node.values()))
            for node_id, wanted in by_node.items():
                try:
                    is_well = await self._fetch(node_id, wanted, log)
                except Broken:
                    self._session(node_id).failed()
                    self._leave(node_id)
                    is_well = False
                if not is_well:
                    await self._client.refresh(topic)
            if known < self._partitions:
                await self._client.refresh(topic)
            await asyncio.sleep(self.plan.pause_s if clients.ends is None else min(self.plan.pause_s, HURRY_SECONDS))
        return True

    def _meet(self, log: int) -> None:
        """Partitions that are new are read from the beginning."""
        there = self.clients.partitions(self.plan.topic)
        for tp in there[self._partitions :]:
            self.clients.ledger.begin_range(self.name, log, tp.partition, 0)
        self._partitions = len(there)

    def _by_node(self, log: int, topic_id: str) -> dict[int, dict[Place, Wanted]]:
        """The partitions whose leader is known, by leader."""
        found: dict[int, dict[Place, Wanted]] = {}
        for partition in range(self._partitions):
            leader = self._client.leader(self.plan.topic, partition)
            if leader is not None and leader.node_id >= 0 and leader.topic_id == topic_id:
                offset = self.clients.ledger.next_offset(self.name, log, partition)
                place = Place(self.plan.topic, topic_id, partition)
                follower = self._followers.get(place)
                node_id = follower.node_id if follower and follower.epoch == leader.epoch else leader.node_id
                found.setdefault(node_id, {})[place] = Wanted(offset, leader.epoch)
        return found

    def _leave(self, node_id: int) -> None:
        """Reads at leaders again what was read there as at a follower, as librdkafka does."""
        self._followers = {place: one for place, one in self._followers.items() if one.node_id != node_id}

    def _session(self, node_id: int) -> FetchSession:
        found = self._sessions.get(node_id)
        if found is None:
            found = self._sessions[node_id] = FetchSession(is_used=self.plan.has_session)
        return found

    # -- fetching ------------------------------------------------------------------------------------------------------

    async def _fetch(self, node_id: int, wanted: dict[Place, Wanted], log: int) -> bool:
        """False: who leads has to be looked up again."""
        client, draw = self._client, self._client.draw
        connection = await client.node(node_id)
        version = client.version(FetchRequest, self.plan.version)
        session = self._session(node_id)
        asked = wanted | (self._kept(session) if version >= BY_ID_VERSION else {})
        question = session.question(asked, draw.choice((20, 100, 500)), draw.choice(FETCH_BYTES), self._rack)
        answer: FetchResponse = await connection.ask(question, version)
        if answer.error_code:
            self.clients.refused[f"kafka fetch {answer.error_code}"] += 1
            session.failed(answer.error_code)
            self._leave(node_id)
            return answer.error_code in (NOT_FOUND, WRONG_EPOCH)
        session.answered(answer.session_id)
        is_well = True
        for place, part in self._parts(answer, asked, version):
            if part.error_code:
                is_well &= self._refused(session, place, part.error_code, is_wanted=place in wanted)
                self._followers.pop(place, None)
            elif place in wanted and part.preferred_read_replica >= 0:
                self._followers[place] = Follower(part.preferred_read_replica, wanted[place].leader_epoch)
                self.clients.calls["kafka readers sent to followers"] += 1
            elif place in wanted:
                self._take(place, wanted[place].offset, part, log)
            elif part.records:
                client.wrong("stale-id", f"I60: {len(part.records)} bytes of {place}, which was deleted")
        if draw.random() < PROBE_SHARE:
            await self._probe(connection, session, version, draw.choice([*wanted]))
        return is_well

    def _kept(self, session: FetchSession) -> dict[Place, Wanted]:
        """Places of deleted topics that the session still names, and that it does not forget now."""
        kept = {place: want for place, want in session.named.items() if place.topic_id in self._old_ids}
        return kept if kept and self._client.draw.random() < KEEPS_SHARE else {}

    def _parts(self, answer: FetchResponse, asked: dict[Place, Wanted], version: int) -> Iterator[tuple[Place, Any]]:
        """The partitions of an answer; each must have been asked for."""
        for topic in answer.responses:
            for part in topic.partitions:
                name = (topic.topic_id if version >= BY_ID_VERSION else topic.topic), part.partition_index
                at = [p for p in asked if name == (p.topic_id if version >= BY_ID_VERSION else p.topic, p.partition)]
                if len(at) == 1:
                    yield at[0], part
                else:
                    self._client.wrong("answers", f"I58: nobody has asked for {name}, which was answered")

    def _refused(self, session: FetchSession, place: Place, code: int, *, is_wanted: bool) -> bool:
        self.clients.refused[f"kafka fetch {code}"] += 1
        if not is_wanted:
            return True
        session.named[place] = UNLIKE  # it is named anew, or forgotten
        if code == OUT_OF_RANGE and self._is_plain:
            self._client.wrong("told-lost", f"{place} is out of range")
        return False

    def _take(self, place: Place, offset: int, part: Any, log: int) -> None:
        if not part.records:
            return
        columns = read_columns(part.records, from_offset=offset)
        if len(columns.offsets) and columns.offsets[-1] >= part.high_watermark:
            text = f"{place}: offset {columns.offsets[-1]} above the high watermark {part.high_watermark}"
            self._client.wrong("uncommitted", text)
        self.clients.calls["kafka records read"] += len(columns.offsets)
        self.clients.ledger.read(self.name, log, place.partition, columns.offsets, columns.values)

    # -- questions with a known answer ---------------------------------------------------------------------------------

    async def _probe(self, connection: Connection, session: FetchSession, version: int, place: Place) -> None:
        again = session.used_before()
        if again is not None and version >= 7:
            answer = await connection.ask(again, version)
            if answer.error_code not in (NOT_FOUND, WRONG_EPOCH):
                self._client.wrong("session", f"I59: {session} takes epoch {again.session_epoch} again: {answer}")
            self.clients.calls["kafka sessions probed"] += 1
        await self._ask_end(connection, place)
        if self._old_ids and version >= BY_ID_VERSION:
            await self._ask_old(connection, version)

    async def _ask_end(self, connection: Connection, place: Place) -> None:
        """A log does not end before what was read from it."""
        read = self.clients.ledger.next_offset(self.name, self.clients.logs.get(self.plan.topic, -1), place.partition)
        leader = self._client.leader(place.topic, place.partition)
        parts = [
            ListOffsetsPartition(
                partition_index=place.partition,
                current_leader_epoch=-1 if leader is None else leader.epoch,
                timestamp=self._client.draw.choice((LATEST, EARLIEST)),
            )
        ]
        question = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=place.topic, partitions=parts)])
        answer = await connection.ask(question, self._client.version(ListOffsetsRequest, LIST_OFFSETS_VERSION))
        found = answer.topics[0].partitions[0]
        if found.error_code or not self._is_plain:
            return
        is_wrong = found.offset < read if parts[0].timestamp == LATEST else found.offset != 0
        if is_wrong:
            self._client.wrong("end", f"{place}: offset {found.offset} for {parts[0].timestamp}, and {read} is read")

    async def _ask_old(self, connection: Connection, version: int) -> None:
        """A node that knows the newest id of a name has nothing under an older one."""
        found = await self._client.refresh_at(connection, self.plan.topic)
        ids = {topic.topic_id for topic in found.topics if not topic.error_code}
        if self.clients.topic_ids[self.plan.topic] not in ids:
            return
        old = Place(self.plan.topic, self._client.draw.choice(self._old_ids), 0)
        answer = await connection.ask(whole(old, 0, 1 << 20), version)
        for topic in answer.responses:
            for part in topic.partitions:
                if part.records or not part.error_code:
                    self._client.wrong("stale-id", f"I60: {part} for {old}, and the node has told of {ids}")
        self.clients.calls["kafka old ids asked"] += 1

    def __repr__(self) -> str:
        return f"KafkaReader({self.name})"
