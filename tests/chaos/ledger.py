"""Compares everything that the clients of a cluster under faults were told: the judge, without a cluster.

A record is (producer, sequence), and its value holds both. A *log* is one incarnation of a topic: a topic that is
deleted and made anew has the next log. The ledger is told of every send, ack and read while they happen, and of the
final log, which a new consumer reads from the beginning when the load has ended. The anomalies:

    lost-write     an acked record is not in the final log at the offset of its ack
    R-skip         reader R went past an offset without an error and without that record
    nonmonotonic   a reader got an offset that it had got before
    inconsistent   an offset held two different records at two times
    phantom        a value was never sent, or is damaged
    resurrected    a record that was acked in a deleted log was read from a later one
    duplicates     the log holds more copies of a producer's records than it counts in `possible_duplicates`
    out-of-order   a producer's records stand in a partition in another order than they were sent; a record may, if its
                   producer was told that it failed and may be written all the same (`failed_unknown`). Of an
                   idempotent producer that counts no possible duplicates, none may
    key-disorder   the same of the records of one key, or a key stands in two partitions
    unseen         a reader did not reach the end of the log
    over-deleted   the log begins behind everything that was to be deleted

An ack names no incarnation, so it counts for a log only if the record was sent and acked between that log's creation
and the beginning of its deletion. Memory is bounded: some 30 bytes a record. Not here: clients and faults.
"""

from __future__ import annotations

import threading
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

EXAMPLES_MAX = 5
SEQUENCE_BITS = 40
OFFSET_BITS = 44
NOTHING = (1 << 64) - 1
"""In an array of record ids: nobody has read this offset."""
NOT_ACKED, ACKED_SOMEWHERE = -1, -2
"""In an array of places; the second is an ack that may belong to either of two logs."""
NO_LOG = -1
NO_KEY = -1
GAP_MAX = 1_000_000
"""An offset so far behind the last one is not remembered: a wrong offset must not cost memory."""
VALUE_BYTES = 100


def record_id(producer: int, sequence: int) -> int:
    """One number for one record."""
    return producer << SEQUENCE_BITS | sequence


def shown(identity: int) -> str:
    """A record id in words."""
    if identity == NOTHING:
        return "nothing"
    return f"record {identity >> SEQUENCE_BITS}-{identity & ((1 << SEQUENCE_BITS) - 1)}"


def encode_value(producer: int, sequence: int) -> bytes:
    """The value of a record: its names, and bytes that follow from them, so that damage shows."""
    head = b"%d-%d-" % (producer, sequence)
    filler = b"%08x" % ((sequence * 2_654_435_761 + producer) & 0xFFFF_FFFF)
    return (head + filler * (VALUE_BYTES // len(filler)))[:VALUE_BYTES]


@lru_cache(maxsize=1 << 14)  # each is read by several readers, and in the end once more
def decode_value(value: bytes | None) -> int | None:
    """The record id; None for a value that no producer of this run has made."""
    parts = (value or b"").split(b"-", 2)
    if len(parts) != 3 or not (parts[0].isdigit() and parts[1].isdigit()):
        return None
    producer, sequence = int(parts[0]), int(parts[1])
    return record_id(producer, sequence) if encode_value(producer, sequence) == value else None


@dataclass(slots=True)
class _Log:
    """One incarnation of a topic; arrays are by offset."""

    topic: str
    is_open: bool = True
    may_lose: bool = False
    read: dict[int, array[int]] = field(default_factory=dict)
    final: dict[int, array[int]] = field(default_factory=dict)


@dataclass(slots=True)
class _Sent:
    """One producer's records; arrays are by sequence. `logs` is where each was sent, `places` where it was acked."""

    topic: str
    logs: array[int] = field(default_factory=lambda: array("h"))
    keys: array[int] = field(default_factory=lambda: array("h"))
    places: array[int] = field(default_factory=lambda: array("q"))
    may_be_late: set[int] = field(default_factory=set)
    """Records that failed with their outcome unknown: they may be written behind later ones."""
    is_idempotent: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result. `anomalies` is empty when all is well; `examples` says some of them in words."""

    sent: int
    acked: int
    read: int
    duplicates: int
    anomalies: Mapping[str, int]
    examples: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.anomalies


class Ledger:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logs: list[_Log] = []
        self._current: dict[str, int] = {}
        self._sent: dict[int, _Sent] = {}
        self._expected: dict[tuple[str, int, int], int] = {}
        self._floors: dict[tuple[int, int], int] = {}
        self._begins: dict[tuple[int, int], int] = {}
        """Where a partition begins in the end."""
        self._anomalies: Counter[str] = Counter()
        self._examples: list[str] = []
        self._read = 0

    # -- topics --------------------------------------------------------------------------------------------------------

    def created(self, topic: str) -> int:
        """The topic exists from now on: the number of its log."""
        with self._lock:
            self._logs.append(_Log(topic))
            self._current[topic] = len(self._logs) - 1
            return len(self._logs) - 1

    def begin_delete(self, log: int) -> None:
        """From now on nothing of this log is promised any more."""
        with self._lock:
            self._logs[log].is_open = False
            self._current.pop(self._logs[log].topic, None)

    def may_be_gone(self, log: int, partition: int, before: int) -> None:
        """A deletion of what is below this offset is about to be asked for."""
        with self._lock:
            self._floors[log, partition] = max(before, self.floor(log, partition))

    def may_lose(self, log: int) -> None:
        """Its newest records may be lost, acked or not, and others take their offsets; their readers are told."""
        with self._lock:
            self._logs[log].may_lose = True

    def floor(self, log: int, partition: int) -> int:
        """Nothing from this offset on may be deleted."""
        return self._floors.get((log, partition), 0)

    # -- producers -----------------------------------------------------------------------------------------------------

    def send(self, producer: int, topic: str, count: int = 1, key: int = NO_KEY) -> int:
        """The next `count` records of a producer, with this key, are about to be sent: the first sequence."""
        with self._lock:
            sent = self._sent.setdefault(producer, _Sent(topic))
            first, log = len(sent.logs), self._current.get(topic, NO_LOG)
            sent.logs.extend([log] * count)
            sent.keys.extend([key] * count)
            sent.places.extend([NOT_ACKED] * count)
            return first

    def ack(self, producer: int, first: int, partition: int, offset: int, count: int = 1) -> None:
        """`count` records were acked at offsets that follow each other."""
        with self._lock:
            sent = self._sent[producer]
            current = self._current.get(sent.topic, NO_LOG)
            for n in range(count):
                is_certain = current != NO_LOG and sent.logs[first + n] == current
                place = partition << OFFSET_BITS | (offset + n)
                sent.places[first + n] = place if is_certain else ACKED_SOMEWHERE

    def acked_somewhere(self, producer: int, first: int, count: int) -> None:
        """`count` records were acked, in a topic that was deleted before."""
        with self._lock:
            self._sent[producer].places[first : first + count] = array("q", [ACKED_SOMEWHERE]) * count

    def failed_unknown(self, producer: int, first: int, count: int = 1) -> None:
        """A producer without idempotence was told that `count` records failed, and may be written all the same."""
        with self._lock:
            self._sent[producer].may_be_late.update(range(first, first + count))

    def is_idempotent(self, producer: int, topic: str) -> None:
        """Nothing of this producer stands twice or out of order, also behind records that are deleted, unless it counts
        possible duplicates. It may not have sent anything yet."""
        with self._lock:
            self._sent.setdefault(producer, _Sent(topic)).is_idempotent = True

    # -- readers -------------------------------------------------------------------------------------------------------

    def begin_range(self, reader: str, log: int, partition: int, offset: int) -> None:
        """The next record that `reader` gets from this partition must be the one at `offset`."""
        with self._lock:
            self._expected[reader, log, partition] = offset

    def begin_behind_deleted(self, reader: str, log: int, partition: int, offset: int) -> None:
        """The reader was at or below the beginning of the log, was told that this is `offset`, and goes on there."""
        with self._lock:
            self._require_deleted(reader, log, partition, offset)
            self._expected[reader, log, partition] = offset

    def begins(self, log: int, partition: int, offset: int) -> None:
        """The final log begins there; `read_final` goes on behind what it has told, or there."""
        with self._lock:
            self._require_deleted("final", log, partition, offset)
            self._begins[log, partition] = offset
            key = "final", log, partition
            self._expected[key] = max(offset, self._expected.get(key, 0))

    def read(
        self, reader: str, log: int, partition: int, offsets: Sequence[int], values: Sequence[bytes | None]
    ) -> None:
        """Takes records that a reader was given, in its order."""
        with self._lock:
            known = self._logs[log].read.setdefault(partition, array("Q"))
            self._take(reader, log, partition, offsets, values, known)

    def read_final(self, log: int, partition: int, offsets: Sequence[int], values: Sequence[bytes | None]) -> None:
        """The log as it is in the end, from its beginning; in as many calls as it takes."""
        with self._lock:
            known = self._logs[log].final.setdefault(partition, array("Q"))
            self._take("final", log, partition, offsets, values, known)

    def end_range(self, reader: str, log: int, partition: int, end: int, *, reached: bool = True) -> None:
        """The reader has nothing more to get below `end`; not `reached`: it gave up."""
        with self._lock:
            expected = self._expected.get((reader, log, partition), 0)
            if expected < end:
                kind = f"{reader}-skip" if reached else "unseen"
                self._wrong(
                    kind, f"{reader} of {self._at(log, partition)} ended at {expected}, not {end}", end - expected
                )
                self._expected[reader, log, partition] = end

    def next_offset(self, reader: str, log: int, partition: int) -> int:
        """The offset behind the last record that the reader was given."""
        with self._lock:
            return self._expected.get((reader, log, partition), 0)

    def report(self, kind: str, text: str) -> None:
        """An anomaly that somebody else has seen."""
        with self._lock:
            self._wrong(kind, text)

    # -- the end -------------------------------------------------------------------------------------------------------

    def judge(self, possible_duplicates: Mapping[int, int]) -> Verdict:
        """Compares everything; `possible_duplicates` is what each producer says of itself. Call it once."""
        with self._lock:
            for log in range(len(self._logs)):
                self._judge_reads(log)
            self._judge_acks()
            duplicates = self._judge_final(possible_duplicates)
            sent = sum(len(sent.logs) for sent in self._sent.values())
            acked = sum(place != NOT_ACKED for sent in self._sent.values() for place in sent.places)
            return Verdict(sent, acked, self._read, duplicates, dict(self._anomalies), tuple(self._examples))

    # -- inside --------------------------------------------------------------------------------------------------------

    def _require_deleted(self, reader: str, log: int, partition: int, begin: int) -> None:
        if begin > self.floor(log, partition):
            self._wrong("over-deleted", f"{self._at(log, partition)} begins at {begin} for {reader}")

    def _take(
        self,
        reader: str,
        log: int,
        partition: int,
        offsets: Sequence[int],
        values: Sequence[bytes | None],
        known: array[int],
    ) -> None:
        key, place = (reader, log, partition), self._at(log, partition)
        expected = self._expected.get(key, 0)
        for offset, value in zip(offsets, values, strict=True):
            where = f"{place} offset {offset}"
            if offset > expected:
                self._wrong(f"{reader}-skip", f"{reader} got {where}, but {expected} was next", offset - expected)
            elif offset < expected:
                self._wrong("nonmonotonic", f"{reader} got {where} again; {expected} was next")
            expected = max(expected, offset + 1)
            self._read += 1
            identity = self._identify(log, value, where)
            if identity is None or offset - len(known) > GAP_MAX:  # a gap is an anomaly already
                continue
            if len(known) <= offset:
                known.extend([NOTHING] * (offset + 1 - len(known)))
            if known[offset] == NOTHING:
                known[offset] = identity
            elif known[offset] != identity and not self._logs[log].may_lose:
                self._wrong("inconsistent", f"{where} was {shown(known[offset])} and is {shown(identity)} to {reader}")
        self._expected[key] = expected

    def _identify(self, log: int, value: bytes | None, where: str) -> int | None:
        """The record of a value, unless nobody sent it."""
        identity = decode_value(value)
        producer, sequence = divmod(identity, 1 << SEQUENCE_BITS) if identity is not None else (-1, -1)
        sent = self._sent.get(producer)
        if identity is None or sent is None or sequence >= len(sent.logs) or sent.topic != self._logs[log].topic:
            self._wrong("phantom", f"{where} holds {value!r:.80}, which nobody sent")
            return None
        if sent.places[sequence] >= 0 and sent.logs[sequence] < log:
            old = self._at(sent.logs[sequence], sent.places[sequence] >> OFFSET_BITS)
            self._wrong("resurrected", f"{where} holds {shown(identity)}, which was acked in {old}")
        return identity

    def _judge_reads(self, log: int) -> None:
        """Compares what readers saw with the final log of a topic that still exists."""
        if not self._logs[log].is_open or self._logs[log].may_lose:
            return
        for partition, known in self._logs[log].read.items():
            final = self._logs[log].final.get(partition, array("Q"))
            begin = self._begins.get((log, partition), 0)
            for offset, identity in enumerate(known):
                if offset < begin:
                    continue
                now = final[offset] if offset < len(final) else NOTHING
                if identity not in (NOTHING, now):
                    where = f"{self._at(log, partition)} offset {offset}"
                    self._wrong("inconsistent", f"{where} was {shown(identity)} and is {shown(now)} in the end")

    def _judge_acks(self) -> None:
        for producer, sent in self._sent.items():
            for sequence, place in enumerate(sent.places):
                if place < 0:
                    continue
                partition, offset = divmod(place, 1 << OFFSET_BITS)
                log, identity = sent.logs[sequence], record_id(producer, sequence)
                is_open = self._logs[log].is_open
                if self._logs[log].may_lose:
                    continue
                if is_open and offset < self._begins.get((log, partition), 0):
                    continue
                held = (self._logs[log].final if is_open else self._logs[log].read).get(partition, ())
                found = held[offset] if offset < len(held) else NOTHING
                where = f"{self._at(log, partition)} offset {offset}"
                if found != identity and is_open:
                    self._wrong("lost-write", f"{shown(identity)} was acked at {where}, which holds {shown(found)}")
                elif found not in (identity, NOTHING):
                    self._wrong("inconsistent", f"{where} was acked as {shown(identity)} and read as {shown(found)}")

    def _judge_final(self, possible_duplicates: Mapping[int, int]) -> int:
        """Order and duplicates in every final log; the number of records that stand there more than once."""
        twice: dict[int, set[int]] = {}
        copies: Counter[int] = Counter()
        met = {producer: bytearray(len(sent.logs)) for producer, sent in self._sent.items()}
        for log, found in enumerate(self._logs):
            of_keys: dict[tuple[int, int], tuple[int, int]] = {}
            for partition, identities in found.final.items():
                last: dict[int, int] = {}
                is_cut = self._begins.get((log, partition), 0) > 0
                first: dict[int, int] = {}  # what is below may be the copy of a record that was deleted
                for offset, identity in enumerate(identities):
                    producer, sequence = divmod(identity, 1 << SEQUENCE_BITS)
                    if identity == NOTHING:
                        continue
                    if met[producer][sequence]:
                        twice.setdefault(producer, set()).add(sequence)
                        copies[producer] += 1
                        continue
                    met[producer][sequence] = 1
                    is_sure = self._sent[producer].is_idempotent and not possible_duplicates.get(producer)
                    is_copy = is_cut and sequence < first.setdefault(producer, sequence) and not is_sure
                    is_copy = is_copy or sequence in self._sent[producer].may_be_late
                    if sequence < last.get(producer, -1) and not is_copy:
                        where = f"{self._at(log, partition)} offset {offset}"
                        self._wrong("out-of-order", f"{where} holds {shown(identity)} after {last[producer]}")
                    last[producer] = max(sequence, last.get(producer, -1))
                    if not is_copy:
                        self._judge_key(log, partition, identity, of_keys)
        for producer, number in copies.items():
            counted = possible_duplicates.get(producer, 0)
            if number > counted:
                text = f"producer {producer}: {number} copies of its records, possible_duplicates is {counted}"
                self._wrong("duplicates", text, number - counted)
        return sum(map(len, twice.values()))

    def _judge_key(self, log: int, partition: int, identity: int, last: dict[tuple[int, int], tuple[int, int]]) -> None:
        """`last` has the partition and the sequence of a producer's last record with a key."""
        producer, sequence = divmod(identity, 1 << SEQUENCE_BITS)
        key = self._sent[producer].keys[sequence]
        its_partition, before = last.get((producer, key), (partition, -1))
        if key != NO_KEY and (partition != its_partition or sequence < before):
            where = f"{self._at(log, partition)} holds {shown(identity)} of key {key}"
            self._wrong("key-disorder", f"{where} after {before} in partition {its_partition}")
        last[producer, key] = partition, max(sequence, before)

    def _at(self, log: int, partition: int) -> str:
        return f"{self._logs[log].topic}#{log}-{partition}"

    def _wrong(self, kind: str, text: str, count: int = 1) -> None:
        self._anomalies[kind] += count
        if sum(example.startswith(f"{kind}: ") for example in self._examples) < EXAMPLES_MAX:
            self._examples.append(f"{kind}: {text}")
