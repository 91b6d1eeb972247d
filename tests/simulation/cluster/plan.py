"""The plan of one seed: a cluster, its clients, and the faults that meet them.

A plan is data: it can be printed, cut down (fewer faults, fewer clients, fewer nodes), and run again. Not here: how it
is drawn (drawn_plan.py), and what a fault does (faults.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tests.simulation.cluster.calendars.calendar_plan import CalendarPlan
from tests.simulation.cluster.flood_plan import FloodPlan
from tests.simulation.cluster.levels.level_plan import LevelPlan
from tests.simulation.cluster.network import Weather
from tests.simulation.cluster.racks.rack_plan import RackPlan
from tests.simulation.cluster.voters.voter_plan import VoterPlan


class Kind(StrEnum):
    """The faults, each with a beginning and, where `seconds` counts, an end."""

    KILL = "kill -9, then a start"
    STOP = "an ordered stop, then a start"
    PAUSE = "SIGSTOP, then SIGCONT"
    POWER = "a power cut of one machine, then a start"
    POWER_ALL = "a power cut of every machine, then a start of all"
    CUT = "a link cut in both directions"
    CUT_ONE_WAY = "a link cut in one direction"
    ISOLATE = "a machine cut off from every other"
    BREAK = "every exchange between two machines broken"
    STORM = "slow messages everywhere"
    SLOW_DISK = "a slow log dir"
    HUNG_DISK = "a log dir that hangs"
    FULL_DISK = "a full log dir"
    DEAD_DISK = "a log dir that fails, until the node was stopped and its disk answers again"
    FAIL_CALL = "one call to a disk that fails"
    STRIKE_CALL = "a machine that loses its power, or a process killed, at a call to its disk"
    LATE_MESSAGE = "a message of a kind that comes late"
    COLD = "a page cache that holds nothing"
    WALL_JUMP = "a calendar that jumps"
    LOSE_DIR = "a log dir lost for good, and replaced"
    REPLACE_DISK = "every log dir of a node lost for good, and replaced"
    LOSE_IN_CUT = "a power cut of every machine, after which one has lost its log dirs for good"
    SWAP_DIRS = "a log dir of each of two nodes in the other, until they are put back"
    TEAR_METADATA = "a batch of a voter's metadata log damaged while the node is down"
    RESTORE_COPY = "a copy of a node's log dirs made, and put back later while the node is out of every ISR and ELR"
    ROT = "a bit of a replica changed while its node is down, until its disk corrects it"
    ROLL = "a restart of every node in order, one after the other"
    MOMENT = "a leader struck in the middle of something"
    HALF_TURN = "a coordinator struck when half of a decision, or its markers, have left it"


class Aim(StrEnum):
    """Whom a fault meets."""

    NODE = "its target"
    LEADER = "the leader of a partition"
    FOLLOWER = "a follower in an ISR"
    CONTROLLER = "the active controller"


@dataclass(frozen=True, slots=True)
class Fault:
    """`at_s` is counted from the time when the cluster was whole; `target` and `other` are positions of nodes.

    It waits up to `waits_s` for a cluster that works, and what comes behind it comes so much later. `aim` finds another
    target when it begins.
    """

    at_s: float
    kind: Kind
    target: int
    other: int
    seconds: float
    amount: float
    aim: Aim = Aim.NODE
    waits_s: float = 0.0

    def __str__(self) -> str:
        return f"{self.kind}: node-{self.target} (node-{self.other}), at {self.at_s:.2f} s for {self.seconds:.2f} s"


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node."""

    is_broker: bool
    is_voter: bool
    log_dirs: int
    clock_rate: float


class TopicKind(StrEnum):
    """The fate of a topic's records."""

    PLAIN = "everything stays"
    REMADE = "it is deleted and made anew"
    TRIMMED = "its oldest records are deleted on demand"
    RETAINED = "its oldest segments are deleted by size or age"
    COMPACTED = "of each key the newest record stays"
    LOSSY = "an unclean election may lose its newest records, and then its readers are told"
    TRANSACTED = "its records are parts of transactions, or stand beside them; no key is there twice"


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """One topic."""

    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, object]
    kind: TopicKind = TopicKind.PLAIN

    @property
    def is_compacted(self) -> bool:
        return self.config.get("cleanup.policy") == "compact"


class Task(StrEnum):
    """The operator's task, done again and again."""

    ASK = "describes topics, configurations and the cluster"
    ALTER = "alters the configuration of a topic"
    ELECT = "gives partitions their preferred leader back"
    REMAKE = "deletes a topic and makes it anew"
    TRIM = "deletes the oldest records of a partition"
    IDENTIFY = "gets producer ids of all brokers"
    GROW = "adds partitions to a topic"
    TUNE = "alters the configuration of brokers that run"
    MOVE = "moves the replicas of partitions to other brokers, and cancels some moves"
    RELOCATE = "moves replicas to other log dirs of their brokers, and cancels some moves"
    FORGET = "moves everything away from a broker, takes it out of service for a while, and forgets it"
    CORDON = "cordons brokers and log dirs, and makes topics meanwhile"
    MAKE = "takes a broker out of service, and makes topics and partitions meanwhile"


@dataclass(frozen=True, slots=True)
class OperatorPlan:
    """A person, or a program, who works on a topic about each `pause_s`."""

    task: Task
    topic: str
    pause_s: float


BATCH_BYTES = 512 * 1024
"""A batch is full then: the default of producers."""
DELIVERY_TIMEOUT_MS = 20_000


@dataclass(frozen=True, slots=True)
class WriterPlan:
    """A producer of a topic. Each `pause_s` it sends `records` records, one by one or `in_bulk`. `is_idempotent`
    says nothing about one with acks other than all, which is not. With small batches many are on their way at a time.
    """

    topic: str
    linger_ms: int
    pause_s: float
    records: int
    is_keyed: bool
    acks: str = "all"
    in_bulk: bool = False
    is_idempotent: bool = True
    batch_bytes: int = BATCH_BYTES
    is_dated: bool = False
    """Its records have times of their own, an hour ago."""


class ReaderKind(StrEnum):
    """How a reader reads."""

    FOLLOW = "by polls from the beginning"
    RESTART = "by polls from the beginning, and now and then again from a little before"
    RANGES = "by raw ranges of offsets"
    SHORT = "by polls from the beginning, some of which fail for want of memory"
    CHECKPOINT = "by micro-batches, as Spark does; it often begins anew with nothing but its checkpoint"


@dataclass(frozen=True, slots=True)
class ReaderPlan:
    """A consumer of a topic."""

    topic: str
    pause_s: float
    kind: ReaderKind = ReaderKind.FOLLOW


@dataclass(frozen=True, slots=True)
class KafkaWriterPlan:
    """A producer in Kafka's protocol. Each `pause_s` it makes a batch of up to `records` records for one partition; up
    to `in_flight` batches of a partition are on their way at a time. An idempotent one has acks=all (-1)."""

    topic: str
    pause_s: float
    records: int
    acks: int = -1
    is_idempotent: bool = True
    in_flight: int = 5
    version: int = 9
    """The version of its produce requests; from 13 on by topic id."""


@dataclass(frozen=True, slots=True)
class KafkaReaderPlan:
    """A consumer in Kafka's protocol. `version` is that of its fetch requests; from 13 on by topic id."""

    topic: str
    pause_s: float
    version: int = 12
    has_session: bool = True


class MemberKind(StrEnum):
    """The client of a member, and the protocol of its group."""

    CONSUMER = "a small client of Kafka's protocol, by the consumer protocol (KIP-848)"
    CLASSIC = "a small client of Kafka's protocol, by the classic protocol"
    OURS = "AsyncConsumer"
    BOOKKEEPER = "none: it keeps offsets in a group without members"


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """A member of a group. A static one has an instance id. `by_name`: its offsets may come by the topics' names."""

    kind: MemberKind
    pause_s: float
    is_static: bool = False
    assignor: str | None = None
    """The coordinator's: uniform, range or its default."""
    by_name: bool = True


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A group that reads the topics from their beginnings. `strategy` is that of classic members."""

    name: str
    topics: tuple[str, ...]
    members: tuple[MemberPlan, ...]
    strategy: str = "range"

    @property
    def is_even(self) -> bool:
        """True if the shares of its members differ by one partition at most: `range` deals out topic by topic."""
        return len(self.topics) == 1 or all(each.kind is MemberKind.CLASSIC for each in self.members)


class TransactorKind(StrEnum):
    """The client of a writer of transactions."""

    OURS = "AsyncProducer with a transactional id (transaction version 2)"
    KAFKA = "a small client of Kafka's protocol (transaction version 1)"
    PLAIN = "AsyncProducer without one: each record stands for itself"


@dataclass(frozen=True, slots=True)
class TransactorPlan:
    """A writer of transactions, in one process after the other. About each `pause_s` it begins one, with up to
    `records` records for partitions of its topics. It commits most, and also aborts, stands still, dies and is
    replaced."""

    kind: TransactorKind
    topics: tuple[str, ...]
    pause_s: float
    records: int
    timeout_ms: int = 2_000
    """The longest time that a transaction of it may take."""
    is_troubled: bool = True
    """It stands still, dies and is replaced now and then."""
    left_share: float = 0.03
    """A client of Kafka's protocol does not wait for the answer to so many of its batches, and aborts."""


@dataclass(frozen=True, slots=True)
class StableReaderPlan:
    """A reader of transactions' topics, of committed records or of all."""

    topic: str
    pause_s: float
    is_committed: bool = True
    by_ranges: bool = False
    """By raw ranges of offsets; otherwise by polls."""


@dataclass(frozen=True, slots=True)
class ProcessingPlan:
    """A group whose members read topics, and write what they make of each record to a topic of transactions, in
    transactions of up to `records` records with their offsets. Its topics stay, and have a record at each offset."""

    name: str
    topics: tuple[str, ...]
    output: str
    members: int
    pause_s: float
    records: int
    timeout_ms: int = 4_000
    """The longest time that a transaction may take."""
    is_troubled: bool = True
    """Members die, stand still and are replaced now and then."""


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """An application of atomic batches: a driver, and `tasks` tasks for each version, with up to `records` rows each,
    about each `pause_s`."""

    name: str
    output: str
    tasks: int
    pause_s: float
    records: int
    timeout_ms: int = 2_000
    """The longest time that a version may be open."""
    is_troubled: bool = True
    """Drivers and tasks die, and drivers are replaced, now and then."""


@dataclass(frozen=True, slots=True)
class SecurityPlan:
    """Clients log in, nodes show certificates, and ACLs say who may do what (security/). Rights and passwords of
    guests change about each `pause_s`; so often each guest tries something."""

    guests: int
    pause_s: float
    session_ms: int = 0
    """A log-in counts for so long; 0: as long as its connection."""
    forges: bool = True
    """Somebody with the certificate of a node speaks as others."""


@dataclass(frozen=True, slots=True)
class Plan:
    """See the module."""

    seed: int
    seconds: float
    nodes: tuple[NodePlan, ...]
    config: Mapping[str, object]
    topics: tuple[TopicPlan, ...]
    writers: tuple[WriterPlan, ...]
    readers: tuple[ReaderPlan, ...]
    faults: tuple[Fault, ...]
    weather: Weather
    cold_share: float
    operators: tuple[OperatorPlan, ...] = ()
    sync_seconds: float = 0.0015
    """A sync of a healthy disk takes up to so long."""
    delivery_timeout_ms: int = DELIVERY_TIMEOUT_MS
    """The time limit of every producer: a record that is not acked by then fails, and is not sent again."""
    outside: bool = False
    """Each broker has a listener OUTSIDE besides, and clients may go to no other."""
    kafka_writers: tuple[KafkaWriterPlan, ...] = ()
    kafka_readers: tuple[KafkaReaderPlan, ...] = ()
    groups: tuple[GroupPlan, ...] = ()
    """With any of these three, or with floods, each broker has a listener KAFKA."""
    transactors: tuple[TransactorPlan, ...] = ()
    stable_readers: tuple[StableReaderPlan, ...] = ()
    processings: tuple[ProcessingPlan, ...] = ()
    sinks: tuple[SinkPlan, ...] = ()
    byte_rate: int | None = None
    """The quota of each client id, at each broker: bytes a second that it may produce, and fetch."""
    security: SecurityPlan | None = None
    floods: tuple[FloodPlan, ...] = ()
    calendars: CalendarPlan | None = None
    """Whose calendars are wrong; None: nobody's by more than a fault makes it."""
    voter_changes: VoterPlan | None = None
    """None: the voters are all controllers, and stay so."""
    levels: LevelPlan | None = None
    """None: all nodes are of this release, and their levels are those of release 0.2.0."""
    racks: RackPlan | None = None
    """The racks of nodes and consumers; None: nobody has one, and consumers read from leaders alone."""

    @property
    def brokers(self) -> tuple[int, ...]:
        return tuple(index for index, node in enumerate(self.nodes) if node.is_broker)

    @property
    def has_kafka(self) -> bool:
        has_transactors = any(each.kind is TransactorKind.KAFKA for each in self.transactors)
        return bool(self.kafka_writers or self.kafka_readers or self.groups or self.floods or has_transactors)

    @property
    def voters(self) -> tuple[int, ...]:
        """The controllers, of which others may vote as time goes on (`voter_changes`)."""
        return tuple(index for index, node in enumerate(self.nodes) if node.is_voter)
