"""The operators of a simulated cluster: each does one thing to it again and again, by an admin client of its own.

What they are told must be true: a topic that was made is there, a configuration is what it was set to, records that
were deleted stay so. Every call ends within its limit, whatever is broken (I24). The ledger is told of a deletion
before it is asked for.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from penstock import AsyncAdmin, TopicPartition
from penstock.client.admin.admin_types import TopicDescription
from penstock.client.cluster.producer_ids import init_producer_id
from penstock.errors import (
    BrokerIdNotRegisteredError,
    InvalidConfigError,
    InvalidPartitionsError,
    PenstockError,
    PolicyViolationError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from tests.simulation.cluster.clients.cordoning import Cordoning
from tests.simulation.cluster.clients.cores import core_of
from tests.simulation.cluster.clients.making import Making
from tests.simulation.cluster.plan import OperatorPlan, Task

if TYPE_CHECKING:
    from tests.simulation.cluster.workload import Clients

T = TypeVar("T")
RETRY_SECONDS = 0.3
LIMITS_MS = (1_000, 4_000, 10_000)
PARTITIONS_MAX = 8
"""A topic gets no more; each costs every step of the invariants something."""
CANCELS_SHARE, FEWER_SHARE = 0.25, 0.15
"""The share of moved partitions whose move is cancelled, and of those that get a replica less, which may be refused."""
LOOKS = 4
"""So often an operator looks whether a broker has replicas left, and asks that it is forgotten."""
THROTTLES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
THROTTLE_RATES = (None, "500", "5000")
"""Most copies are larger than what the lowest lets pass between two moves; it is taken away in the end."""
THROTTLES_SHARE = 0.4
"""The share of throttles among the changes of brokers' configuration, where a replica can be copied to another
broker."""
LATE_MS_MAX = 500
"""After its limit a call has so long to say so."""


class Operator:
    """See the module."""

    def __init__(self, clients: Clients, plan: OperatorPlan) -> None:
        self.clients, self.plan = clients, plan
        self._draw = random.Random(clients.network.scheduler.draw.getrandbits(64))
        self._limit_ms = self._draw.choice(LIMITS_MS)
        (self.topic,) = (topic for topic in clients.plan.topics if topic.name == plan.topic)
        self._partitions: dict[str, int] = {}
        """The most partitions that this operator was told of, by the topic's id: one that is made anew begins again."""
        self._unsure: set[tuple[str, str]] = set()
        """Keys and values that were set with an unknown outcome: they may become so at any time."""
        self._throttled: dict[int | None, None] = {}
        """The brokers that may have a throttle by this operator; None: all."""
        self._cordons = Cordoning(clients, self._draw)
        self._do = {
            Task.ASK: self._ask,
            Task.REMAKE: self._remake,
            Task.TRIM: self._trim,
            Task.ALTER: self._alter,
            Task.ELECT: self._elect,
            Task.IDENTIFY: self._identify,
            Task.GROW: self._grow,
            Task.MOVE: self._move,
            Task.TUNE: self._tune,
            Task.FORGET: self._forget,
            Task.MAKE: Making(clients, self._draw).make,
            Task.CORDON: self._cordons.cordon,
            Task.RELOCATE: self._relocate,
        }

    async def work(self) -> None:
        """Until it is over; then nothing that was begun is left half done."""
        admin = await self._opened()
        async with admin:
            while not self.clients.is_mended:
                await asyncio.sleep(self.plan.pause_s * (0.5 + self._draw.random()))
                try:
                    await self._do[self.plan.task](admin)
                except PenstockError as error:
                    self.clients.refused[type(error).__name__] += 1
            await self._unthrottle(admin)
            await self._cordons.uncordon(admin)

    async def _opened(self) -> AsyncAdmin:
        while True:
            admin = self.clients.admin(self._limit_ms)
            try:
                await admin.start()
                return admin
            except PenstockError:
                await admin.close()
                await asyncio.sleep(RETRY_SECONDS)

    async def _in_time(self, what: str, call: Coroutine[Any, Any, T]) -> T:
        time = self.clients.time
        began_ms = time.now_ms()
        try:
            return await call
        finally:
            took_ms = time.now_ms() - began_ms
            self.clients.calls[what] += 1
            if took_ms > self._limit_ms + LATE_MS_MAX:
                self._report("late-call", f"{what} took {took_ms} ms, its limit is {self._limit_ms} ms")

    def _report(self, kind: str, text: str) -> None:
        self.clients.ledger.report(kind, text)

    # -- tasks ---------------------------------------------------------------------------------------------------------

    async def _ask(self, admin: AsyncAdmin) -> None:
        """Whatever can be asked for."""
        name, partitions = self.topic.name, self.clients.partitions(self.topic.name)
        questions = {
            "list_topics": lambda: admin.list_topics(),
            "describe_topic": lambda: admin.describe_topic(name),
            "describe_topics": lambda: admin.describe_topics(),
            "describe_topic_config": lambda: admin.describe_topic_config(name),
            "describe_broker_config": lambda: admin.describe_broker_config(self.clients.plan.brokers[0]),
            "describe_cluster": lambda: admin.describe_cluster(),
            "describe_quorum": lambda: admin.describe_quorum(),
            "metadata_digests": lambda: self._compare_metadata(admin),
            "cluster_health": lambda: admin.cluster_health(),
            "list_offsets": lambda: admin.list_offsets(partitions),
        }
        what = self._draw.choice(list(questions))
        await self._in_time(what, questions[what]())  # type: ignore[no-untyped-call]

    async def _compare_metadata(self, admin: AsyncAdmin) -> None:
        """By the files of the brokers that answer, while they write and cut them."""
        digests = {digest.sha256 for digest in await admin.metadata_digests() if not digest.error}
        if len(digests) > 1:
            self._report("metadata", f"brokers differ at one offset: {sorted(digests)}")

    async def _identify(self, admin: AsyncAdmin) -> None:
        """Asks a drawn broker first."""
        cluster = core_of(admin).cluster
        brokers = [broker.endpoint for broker in cluster.cache.brokers]
        for endpoint in self._draw.sample(brokers, self._draw.randrange(len(brokers) or 1)):
            cluster.choice.answered(endpoint)
            cluster.choice.turn(brokers)
        await self._in_time("init_producer_id", init_producer_id(cluster, cluster.clock.now_ms() + self._limit_ms))

    async def _remake(self, admin: AsyncAdmin) -> None:
        """Deletes the topic and makes it anew, however long that takes."""
        clients, name = self.clients, self.topic.name
        clients.ledger.begin_delete(clients.logs.pop(name))
        while True:
            try:
                await self._in_time("delete_topic", admin.delete_topic(name))
            except UnknownTopicOrPartitionError:
                pass
            except PenstockError:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            topic_id = await self._made(admin)
            if topic_id != clients.topic_ids[name]:
                break
        clients.topic_ids[name], clients.counts[name] = topic_id, self.topic.partitions
        clients.logs[name] = clients.ledger.created(name)

    async def _made(self, admin: AsyncAdmin) -> str:
        """The id of the topic, when there is one by its name: that of the old one where a broker knew no topic yet."""
        topic = self.topic
        while True:
            try:
                create = admin.create_topic(topic.name, topic.partitions, topic.replication_factor, topic.config)
                return (await self._in_time("create_topic", create)).topic_id
            except TopicExistsError:
                try:
                    return (await self._in_time("describe_topic", admin.describe_topic(topic.name))).topic_id
                except PenstockError:
                    await asyncio.sleep(RETRY_SECONDS)
            except PenstockError:
                await asyncio.sleep(RETRY_SECONDS)

    async def _trim(self, admin: AsyncAdmin) -> None:
        """Deletes the oldest records of a partition.

        The low watermark counts the replicas that live (KIP-107): where brokers go it may fall, when one comes back
        that was down while more was deleted. What it has more never comes back to readers (I80).
        """
        clients = self.clients
        tp = self._draw.choice(clients.partitions(self.topic.name))
        end = (await self._in_time("list_offsets", admin.list_offsets([tp])))[tp].offset
        before, known = int(end * self._draw.random()), clients.deleted.get(tp, 0)
        clients.ledger.may_be_gone(clients.logs[tp.topic], tp.partition, before)
        low = (await self._in_time("delete_records", admin.delete_records({tp: before})))[tp]
        are_down = bool(clients.plan.faults) or any(each.task is Task.MAKE for each in clients.plan.operators)
        least = before if are_down else max(before, known)
        if low < least:
            self._report("undeleted", f"{tp}: the low watermark is {low}, deletion before {least} was acknowledged")
        clients.deleted[tp] = max(low, clients.deleted.get(tp, 0))
        clients.ledger.was_deleted(tp.topic, tp.partition, clients.deleted[tp])

    async def _alter(self, admin: AsyncAdmin) -> None:
        """Sets a key of the topic, and asks for it.

        Not how many replicas must be in sync where a disk is lost: with fewer, the eligible leaders are forgotten.
        """
        values = {
            "min.insync.replicas": [str(n + 1) for n in range(self.topic.replication_factor)],
            "segment.bytes": ["4096", "65536", "1073741824"],
            "index.interval.bytes": ["512", "4096"],
            "segment.ms": ["1000", "604800000"],
        }
        key = self._draw.choice(list(values))
        value = self._draw.choice(values[key])
        if key == "min.insync.replicas" and self.clients.site.lacks_a_disk():
            return
        name = self.topic.name
        self._unsure.add((key, value))
        await self._in_time("alter_topic_config", admin.alter_topic_config(name, {key: value}))
        self._unsure.discard((key, value))
        described = (await self._in_time("describe_topic_config", admin.describe_topic_config(name)))[key].value
        if described != value and (key, described) not in self._unsure:
            self._report("stale-config", f"{name} {key}: {described} was told, {value} was set and acknowledged")

    async def _tune(self, admin: AsyncAdmin) -> None:
        """Sets a key of one broker or of all, or takes it back, and asks for it; or asks for what must be refused."""
        broker = self._draw.choice((None, None, *self.clients.plan.brokers))
        values: dict[str, list[str | None]] = {
            "log.segment.bytes": [None, "16384", "1073741824"],
            "log.index.interval.bytes": [None, "512", "4096"],
            "log.cleaner.backoff.ms": [None, "500", "2000"],
        }
        if broker is None:
            values["min.insync.replicas"] = [None, *(str(n + 1) for n in range(self.topic.replication_factor))]
        if len(self.clients.plan.brokers) > self.topic.replication_factor and self._draw.random() < THROTTLES_SHARE:
            values = {key: list(THROTTLE_RATES) for key in THROTTLES}
        key = self._draw.choice(list(values))
        value = self._draw.choice(values[key])
        if self._draw.random() < 0.2:
            await self._be_refused(admin, broker, {key: value, "num.io.threads": 2})
            return
        if key in THROTTLES:
            self._throttled[broker] = None
            self.clients.calls["throttles changed"] += 1
        name = f"{broker} {key}"
        self._unsure.add((name, str(value)))
        await self._in_time("alter_broker_config", admin.alter_broker_config(broker, {key: value}))
        self._unsure.discard((name, str(value)))
        described = (await self._in_time("describe_broker_config", admin.describe_broker_config(None))).get(key)
        found = described.value if described is not None else None
        if broker is None and found != value and (name, str(found)) not in self._unsure:
            self._report("stale-config", f"all brokers {key}: {found} was told, {value} was set and acknowledged")

    async def _unthrottle(self, admin: AsyncAdmin) -> None:
        """Copies may arrive: the cluster is about to be whole. A broker that was forgotten has no throttle."""
        while self._throttled:
            broker = next(iter(self._throttled))
            try:
                changes: dict[str, Any] = dict.fromkeys(THROTTLES)
                await self._in_time("alter_broker_config", admin.alter_broker_config(broker, changes))
            except BrokerIdNotRegisteredError:
                pass
            except PenstockError:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            del self._throttled[broker]

    async def _be_refused(self, admin: AsyncAdmin, broker: int | None, changes: dict[str, Any]) -> None:
        try:
            await self._in_time("alter_broker_config", admin.alter_broker_config(broker, changes))
        except InvalidConfigError:
            self.clients.calls["configs refused"] += 1
            return
        self._report("half-config", f"{changes} was acknowledged for broker {broker}")

    async def _grow(self, admin: AsyncAdmin) -> None:
        """Adds one or two partitions; or asks for fewer than there are, which must be refused.

        Not where a disk is lost: a replica that is placed there has no log, and nobody says so.
        """
        if self.clients.site.lacks_a_disk():
            return
        name, counts = self.topic.name, self.clients.counts
        before = await self._in_time("describe_topic", admin.describe_topic(name))
        known = self._counted(name, before)
        is_wrong = known > 1 and (known >= PARTITIONS_MAX or self._draw.random() < 0.2)
        total = self._draw.randrange(1, known) if is_wrong else known + self._draw.choice((1, 1, 2))
        by_hand = None
        if not is_wrong and self._draw.random() < 0.3:
            brokers = self.clients.plan.brokers
            by_hand = [self._draw.sample(brokers, self.topic.replication_factor) for _ in range(total - known)]
        try:
            made = await self._in_time("create_partitions", admin.create_partitions(name, total, by_hand))
        except InvalidPartitionsError:  # where it is not wrong: somebody else, or a late attempt, was quicker
            self.clients.calls["partitions refused"] += 1
            return
        if is_wrong and made.topic_id == before.topic_id:
            self._report("shrunk", f"{name} had {known} partitions, and a request for {total} was a success")
        if self._counted(name, made) < total:
            self._report("shrunk", f"{name} got {total} partitions, and has {made.partition_count}")
        if made.topic_id == self.clients.topic_ids[name]:
            counts[name] = max(counts[name], made.partition_count)
        self.clients.calls["partitions added"] += total - known

    def _counted(self, name: str, topic: TopicDescription) -> int:
        """How many partitions the topic has, which is never fewer than this operator was told of before."""
        known = self._partitions.get(topic.topic_id, self.topic.partitions)
        if topic.partition_count < known:
            self._report("shrunk", f"{name} had {known} partitions, and has {topic.partition_count}")
        self._partitions[topic.topic_id] = max(known, topic.partition_count)
        return topic.partition_count

    async def _elect(self, admin: AsyncAdmin) -> None:
        """Gives partitions their preferred leader back."""
        partitions = self.clients.partitions(self.topic.name)
        some = self._draw.choice((None, partitions, [self._draw.choice(partitions)]))
        results = await self._in_time("elect_leaders", admin.elect_leaders(some))
        if some is not None and set(results) != set(some):
            self._report("untold", f"an election was asked for of {some}, and told of {sorted(results)}")
        self.clients.calls["leaders elected"] += sum(result.error is None for result in results.values())

    async def _move(self, admin: AsyncAdmin) -> None:
        """Begins a move of some partitions, whatever moves already, or cancels one.

        To fewer brokers, or back to those before, not where a disk is lost: of those in sync, the lost replica may then
        be the only one left.
        """
        lacks_a_disk = self.clients.site.lacks_a_disk()
        brokers, wanted = self.clients.plan.brokers, dict[TopicPartition, list[int] | None]()
        partitions = self.clients.partitions(self.topic.name)
        for tp in self._draw.sample(partitions, self._draw.randint(1, len(partitions))):
            factor = self.topic.replication_factor
            more = self._draw.choice((0, 0, 1))
            count = min(factor + (1 if lacks_a_disk else more), len(brokers))
            if self._draw.random() < FEWER_SHARE and not lacks_a_disk:
                count = max(factor - 1, 1)
            is_cancelled = self._draw.random() < CANCELS_SHARE and not lacks_a_disk
            wanted[tp] = None if is_cancelled else self._draw.sample(brokers, count)
        results = await self._in_time("alter_partition_reassignments", admin.alter_partition_reassignments(wanted))
        if set(results) != set(wanted):
            self._report("untold", f"moves were asked for of {sorted(wanted)}, and told of {sorted(results)}")
        calls = self.clients.calls
        calls["moves begun"] += sum(results[tp] is None and wanted[tp] is not None for tp in results)
        calls["moves cancelled"] += sum(results[tp] is None and wanted[tp] is None for tp in results)
        await self._in_time("list_partition_reassignments", admin.list_partition_reassignments())

    async def _relocate(self, admin: AsyncAdmin) -> None:
        """Has a broker move some of its replicas to other log dirs; or has it keep them where they are."""
        broker_id = self._draw.choice(self.clients.plan.brokers)
        described = (await self._in_time("describe_log_dirs", admin.describe_log_dirs([broker_id])))[broker_id]
        paths = [log_dir.path for log_dir in described.log_dirs]
        wanted, kept = dict[TopicPartition, str](), set[TopicPartition]()
        for log_dir in described.log_dirs:
            mine = [tp for tp in sorted(log_dir.replicas) if tp.topic == self.topic.name]
            others = [path for path in paths if path != log_dir.path]
            for tp in self._draw.sample(mine, self._draw.randint(0, len(mine))):
                if self._draw.random() < CANCELS_SHARE or not others:
                    kept.add(tp)
                wanted[tp] = log_dir.path if tp in kept else self._draw.choice(others)
        if not wanted or len(paths) < 2:
            return
        asked = admin.alter_replica_log_dirs(broker_id, wanted)
        errors = await self._in_time("alter_replica_log_dirs", asked)
        if set(errors) != set(wanted):
            self._report("untold", f"moves of {sorted(wanted)} were asked for, and told of {sorted(errors)}")
        calls = self.clients.calls
        calls["moves between log dirs begun"] += sum(errors[tp] is None and tp not in kept for tp in wanted)
        calls["moves between log dirs cancelled"] += sum(errors[tp] is None and tp in kept for tp in wanted)
        calls["moves between log dirs refused"] += sum(errors[tp] is not None for tp in wanted)

    async def _forget(self, admin: AsyncAdmin) -> None:
        """Moves the replicas of a broker away, stops it for a while, and asks that it is forgotten."""
        brokers = await self._in_time("describe_brokers", admin.describe_brokers())
        known = [described.broker.node_id for described in brokers]
        broker_id = self._draw.choice(known)
        for _ in range(LOOKS):
            wanted = await self._drained(admin, broker_id, [other for other in known if other != broker_id])
            if not wanted:
                break
            await self._in_time("alter_partition_reassignments", admin.alter_partition_reassignments(wanted))
            await asyncio.sleep(self._draw.random())
        self.clients.site.take_out(broker_id, 1 + 5 * self._draw.random())
        for _ in range(LOOKS):
            await asyncio.sleep(self._draw.random())
            try:
                await self._in_time("unregister_broker", admin.unregister_broker(broker_id))
            except PolicyViolationError:
                self.clients.calls["brokers kept"] += 1
            else:
                self.clients.calls["brokers forgotten"] += 1
                break

    async def _drained(
        self, admin: AsyncAdmin, broker_id: int, others: list[int]
    ) -> dict[TopicPartition, list[int] | None]:
        """The moves that put another broker in the place of this one, in every topic that has a replica there."""
        wanted = dict[TopicPartition, list[int] | None]()
        for topic in await self._in_time("describe_topics", admin.describe_topics()):
            for partition in topic.partitions:
                free = [other for other in others if other not in partition.replicas]
                if broker_id in partition.replicas and free:
                    target = [r for r in partition.replicas if r not in (broker_id, *partition.removing_replicas)]
                    wanted[TopicPartition(topic.name, partition.partition)] = [*target, self._draw.choice(free)]
        return wanted


def require_deleted(clients: Clients, begins: dict[TopicPartition, int]) -> None:
    """Checks that deleted records are not back."""
    for tp, begin in begins.items():
        if begin < clients.deleted.get(tp, 0):
            clients.ledger.report("undeleted", f"{tp} begins at {begin}, and was deleted before {clients.deleted[tp]}")
