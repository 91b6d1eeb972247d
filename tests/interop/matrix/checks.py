"""The features of a client, each one check: it returns, or raises what the client said or what was not so.

Records that a client produces are read by the reference client, and those that it reads were produced by the reference
client, so that no client is its own judge.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.interop.matrix.process import ClientError, DriverProcess
from tests.interop.matrix.raw_fetch import codec_of
from tests.interop.matrix.subjects import NODES, Subject

SOME = 40
"""Records of a small check: enough to compress."""
STREAMED, STREAM_S = 600, 3.0
PARTITIONS = 3
MINUTE_MS = 60_000
HEARD_S, RETRY_S = 30.0, 0.1
THEN_MS = 1_700_000_000_000


@dataclass
class Stage:
    """One client in front of one cluster."""

    subject: Subject
    client: DriverProcess
    reference: DriverProcess
    another_client: Callable[[], DriverProcess]
    another_reference: Callable[[], DriverProcess]
    prefix: str
    numbers: Any = field(default_factory=itertools.count)

    def topic(self, partitions: int = 1, **configs: str) -> str:
        """A new topic, made by the reference client."""
        name = f"{self.prefix}-{next(self.numbers)}"
        self.reference.ask("create", topic=name, partitions=partitions, replicas=NODES, configs=configs)
        return name

    def filled(self, count: int = SOME) -> tuple[str, list[dict[str, Any]]]:
        """A topic with records of the reference client, a minute apart, one record a batch every now and then."""
        topic = self.topic()
        records = [
            {"key": f"k{n}", "value": f"value {n}", "headers": [], "timestamp": THEN_MS + n * MINUTE_MS}
            for n in range(count)
        ]
        for some in (records[: count // 2], records[count // 2 :]):
            self.reference.ask(
                "produce", topic=topic, partition=0, records=some, codec="none", acks="all", idempotent=False
            )
        return topic, [{"offset": n, **record} for n, record in enumerate(records)]

    def produce(
        self, records: list[dict[str, Any]], *, codec: str = "none", acks: str = "all", idempotent: bool = False
    ) -> tuple[str, list[int | None], list[dict[str, Any]]]:
        """The client's records in a topic of their own: its name, the offsets it was told, what the reference reads."""
        topic = self.topic()
        if acks == "0":  # a leader that has not heard of it yet would lose the records, as acks=0 allows
            eventually(lambda: self.reference.ask("offsets", topic=topic, partition=0, timestamp=0))
        answer = self.client.ask(
            "produce", topic=topic, partition=0, records=records, codec=codec, acks=acks, idempotent=idempotent
        )
        found = self.reference.ask("consume", topic=topic, partition=0, at="earliest", count=len(records))["records"]
        return topic, answer["offsets"], found


def eventually(check: Callable[[], Any]) -> None:
    """The check holds within a time: every node hears of a change, but not at once."""
    deadline = time.monotonic() + HEARD_S
    while True:
        try:
            check()
            return
        except (AssertionError, ClientError):
            if time.monotonic() > deadline:
                raise
        time.sleep(RETRY_S)


def equal(found: Any, expected: Any) -> None:
    """The first thing that differs, in few words."""
    if isinstance(found, list) and isinstance(expected, list):
        for index, (one, other) in enumerate(zip(found, expected, strict=False)):
            if one != other:
                raise AssertionError(f"[{index}] is {one}, not {other}")
        if len(found) != len(expected):
            raise AssertionError(f"{len(found)} came, not {len(expected)}")
    elif found != expected:
        raise AssertionError(f"{found} came, not {expected}")


def parts(records: list[dict[str, Any]], *names: str) -> list[Any]:
    return [tuple(record[name] for name in names) for record in records]


def some_records(count: int = SOME) -> list[dict[str, Any]]:
    return [{"key": f"k{n}", "value": f"value {n} " + "abcdefgh" * 20} for n in range(count)]


# -- admin -------------------------------------------------------------------------------------------------------------


def cluster(stage: Stage) -> None:
    answer, known = stage.client.ask("cluster"), stage.reference.ask("cluster")
    equal(answer["nodes"], known["nodes"])
    if answer.get("cluster_id") is not None:
        equal(answer["cluster_id"], known["cluster_id"])


def create(stage: Stage) -> None:
    topic = f"{stage.prefix}-created"
    asked = {"topic": topic, "partitions": PARTITIONS, "replicas": NODES, "configs": {"retention.ms": "123456"}}
    stage.client.ask("create", **asked)

    def is_there() -> None:
        found = stage.reference.ask("describe", topic=topic)["partitions"]
        equal([len(partition["replicas"]) for partition in found], [NODES] * PARTITIONS)
        equal(stage.reference.ask("configs", topic=topic)["configs"].get("retention.ms"), "123456")

    eventually(is_there)
    try:
        stage.client.ask("create", **asked)
    except ClientError as error:
        if "exist" not in str(error).lower():
            raise AssertionError(f"a topic that exists is refused with {error}") from None
    else:
        raise AssertionError("a topic that exists is made again")


def describe(stage: Stage) -> None:
    topic = stage.topic(PARTITIONS)

    def agree() -> None:
        known = stage.reference.ask("describe", topic=topic)["partitions"]
        equal(len(known), PARTITIONS)
        equal(stage.client.ask("describe", topic=topic)["partitions"], known)

    eventually(agree)


def configs(stage: Stage) -> None:
    topic = stage.topic(**{"retention.ms": "1000000"})

    def are(by: DriverProcess, retention: str, policy: str) -> None:
        found = by.ask("configs", topic=topic)["configs"]
        equal((found.get("retention.ms"), found.get("cleanup.policy")), (retention, policy))

    eventually(lambda: are(stage.client, "1000000", "delete"))
    changes = {"retention.ms": "2000000", "cleanup.policy": "compact"}
    eventually(lambda: stage.client.ask("alter_configs", topic=topic, configs=changes))
    eventually(lambda: are(stage.reference, "2000000", "compact"))


def add_partitions(stage: Stage) -> None:
    topic = stage.topic()
    stage.client.ask("add_partitions", topic=topic, count=PARTITIONS)
    eventually(lambda: equal(len(stage.reference.ask("describe", topic=topic)["partitions"]), PARTITIONS))


def delete(stage: Stage) -> None:
    topic = stage.topic()
    stage.client.ask("delete", topic=topic)

    def is_gone() -> None:
        try:
            stage.reference.ask("describe", topic=topic)
        except ClientError:
            return
        raise AssertionError("a deleted topic is still described")

    eventually(is_gone)


def delete_records(stage: Stage) -> None:
    topic, _ = stage.filled()
    stage.client.ask("delete_records", topic=topic, partition=0, before=10)
    equal(stage.reference.ask("offsets", topic=topic, partition=0, timestamp=0)["earliest"], 10)


def offsets(stage: Stage) -> None:
    topic, records = stage.filled()
    asked = {"topic": topic, "partition": 0}
    answer = stage.client.ask("offsets", **asked, timestamp=records[7]["timestamp"] - 1)
    equal((answer["earliest"], answer["latest"], answer["at_timestamp"]), (0, SOME, 7))


def operate(stage: Stage) -> None:
    topic = stage.topic()

    def answers() -> None:
        answer = stage.client.ask("operate", topic=topic)
        wrong = [f"{name}: {value}" for name, value in answer.items() if value is not True]
        if wrong:
            raise AssertionError(", ".join(wrong))

    eventually(answers)


# -- producing ---------------------------------------------------------------------------------------------------------


def _produced(stage: Stage, *, codec: str = "none", acks: str = "all", idempotent: bool = False) -> str:
    records = some_records()
    topic, answer, found = stage.produce(records, codec=codec, acks=acks, idempotent=idempotent)
    equal(parts(found, "key", "value"), parts(records, "key", "value"))
    if acks != "0" and None not in answer:
        equal(answer, list(range(SOME)))
    return topic


def with_codec(codec: str) -> Callable[[Stage], None]:
    def check(stage: Stage) -> None:
        topic = _produced(stage, codec=codec)
        leader = stage.reference.ask("describe", topic=topic)["partitions"][0]["leader"]
        equal(codec_of(stage.reference.ask("cluster")["nodes"][str(leader)], topic, 0, stage.subject.login), codec)

    return check


def read_codec(codec: str) -> Callable[[Stage], None]:
    def check(stage: Stage) -> None:
        records, topic = some_records(), stage.topic()
        stage.reference.ask(
            "produce", topic=topic, partition=0, records=records, codec=codec, acks="all", idempotent=False
        )
        found = stage.client.ask("consume", topic=topic, partition=0, at="earliest", count=SOME)["records"]
        equal(parts(found, "key", "value"), parts(records, "key", "value"))

    return check


def acks_0(stage: Stage) -> None:
    _produced(stage, acks="0")


def acks_1(stage: Stage) -> None:
    _produced(stage, acks="1")


def idempotent(stage: Stage) -> None:
    _produced(stage, idempotent=True)


def nulls_and_headers(stage: Stage) -> None:
    headers = [["a", "1"], ["a", "2"], ["b", "3"]]
    records: list[dict[str, Any]] = [
        {"key": None, "value": "no key", "headers": headers},
        {"key": "no value", "value": None, "headers": headers},
    ]
    _distinguished(stage, records)


def empties(stage: Stage) -> None:
    """An empty key or value is not null."""
    _distinguished(
        stage, [{"key": "", "value": "", "headers": [["empty", ""]]}, {"key": "k", "value": "", "headers": []}]
    )


def _distinguished(stage: Stage, records: list[dict[str, Any]]) -> None:
    topic, _, found = stage.produce(records)
    equal(parts(found, "key", "value", "headers"), parts(records, "key", "value", "headers"))
    answer = stage.client.ask("consume", topic=topic, partition=0, at="earliest", count=len(records))["records"]
    equal(parts(answer, "key", "value", "headers"), parts(records, "key", "value", "headers"))


def timestamps(stage: Stage) -> None:
    records = [{**record, "timestamp": THEN_MS + n} for n, record in enumerate(some_records())]
    _, _, found = stage.produce(records)
    equal(parts(found, "timestamp", "value"), parts(records, "timestamp", "value"))


# -- consuming ---------------------------------------------------------------------------------------------------------


def _consumed(stage: Stage, at: Any, first: int) -> None:
    topic, records = stage.filled()
    if isinstance(at, dict):
        at = {"timestamp": records[first]["timestamp"] - MINUTE_MS // 2}
    found = stage.client.ask("consume", topic=topic, partition=0, at=at, count=SOME - first)["records"]
    names = ("offset", "timestamp", "key", "value")
    equal(parts(found, *names), parts(records[first:], *names))


def assign(stage: Stage) -> None:
    _consumed(stage, "earliest", 0)


def by_offset(stage: Stage) -> None:
    _consumed(stage, 25, 25)


def by_time(stage: Stage) -> None:
    _consumed(stage, {}, 7)


def seek(stage: Stage) -> None:
    topic, records = stage.filled()
    found = stage.client.ask("seek", topic=topic, partition=0, first=30, to=5, count=20)["records"]
    equal(parts(found, "offset", "value"), parts(records[5:25], "offset", "value"))


def tail(stage: Stage) -> None:
    topic, _ = stage.filled()
    stage.client.begin("tail", topic=topic, partition=0, count=SOME)
    stage.client.answer()  # it is ready
    more = some_records()
    stage.reference.ask("produce", topic=topic, partition=0, records=more, codec="none", acks="all", idempotent=False)
    found = stage.client.answer()["records"]
    equal(parts(found, "offset", "value"), [(SOME + n, record["value"]) for n, record in enumerate(more)])


# -- faults ------------------------------------------------------------------------------------------------------------


def leader_killed(*, idempotent: bool) -> Callable[[Stage], None]:
    """A leader is killed with SIGKILL while the client produces and another process of it consumes."""

    def check(stage: Stage) -> None:
        topic = stage.topic(PARTITIONS, **{"min.insync.replicas": "2"})
        with stage.another_client() as follower:
            follower.begin("follow", topic=topic, partitions=PARTITIONS, count=STREAMED)
            stage.client.begin(
                "stream",
                topic=topic,
                partitions=PARTITIONS,
                count=STREAMED,
                seconds=STREAM_S,
                idempotent=idempotent,
            )
            stage.client.answer()  # a third is acked
            with stage.subject.down(stage.reference.ask("describe", topic=topic)["partitions"][0]["leader"]):
                answer = stage.client.answer()
                followed = follower.answer()["records"]
        log: list[tuple[int, int, str]] = []
        with stage.another_reference() as reader:  # one that was there before may hold on to what it knew of leaders
            for partition in range(PARTITIONS):
                log += _whole(reader, topic, partition)
        _judge(answer, [tuple(record) for record in followed], log, idempotent)

    return check


def _whole(reader: DriverProcess, topic: str, partition: int) -> list[tuple[int, int, str]]:
    """Every record of a partition, once its leader answers."""
    ends: list[int] = []
    asked = {"topic": topic, "partition": partition}
    eventually(lambda: ends.append(reader.ask("offsets", **asked, timestamp=0)["latest"]))
    answer = reader.ask("consume", **asked, at="earliest", count=ends[0])["records"]
    return [(partition, record["offset"], record["value"]) for record in answer]


def _judge(
    answer: dict[str, Any], followed: list[tuple[int, int, str]], log: list[tuple[int, int, str]], idempotent: bool
) -> None:
    if answer["failed"]:
        raise AssertionError(f"{len(answer['failed'])} records failed: {answer['failed'][0]}")
    values = [value for _, _, value in log]
    lost = {value for _, _, value in answer["acked"]} - set(values)
    if lost:
        raise AssertionError(f"{len(lost)} acked records are lost")
    elsewhere = [tuple(at) for at in answer["acked"] if at[1] is not None and tuple(at) not in set(log)]
    if elsewhere and idempotent:
        raise AssertionError(f"{len(elsewhere)} records are not where their ack said: {elsewhere[0]}")
    equal(len(answer["acked"]), STREAMED)
    unseen = [record for record in followed if record not in set(log)]
    if unseen:
        raise AssertionError(f"the consumer saw {unseen[0]}, which is not in the log")
    _ascending("the consumer's offsets", [(p, offset) for p, offset, _ in followed])
    missed = sorted(set(log) - set(followed))
    if missed:
        raise AssertionError(f"the consumer missed {len(missed)}: {missed[:5]}")
    if idempotent:
        equal(len(values), len(set(values)))
        _ascending("the values", [(p, int(value)) for p, _, value in log])


def _ascending(what: str, pairs: list[tuple[int, int]]) -> None:
    for partition in {p for p, _ in pairs}:
        numbers = [number for p, number in pairs if p == partition]
        for before, after in itertools.pairwise(numbers):
            if after <= before:
                raise AssertionError(f"{what} of partition {partition} go from {before} to {after}")


SINGLE: dict[str, Callable[[Stage], None]] = {
    "cluster": cluster,
    "create": create,
    "describe": describe,
    "configs": configs,
    "partitions": add_partitions,
    "delete": delete,
    "delete-records": delete_records,
    "offsets": offsets,
    "operate": operate,
    **{f"produce-{codec}": with_codec(codec) for codec in ("none", "gzip", "snappy", "lz4", "zstd")},
    "acks-0": acks_0,
    "acks-1": acks_1,
    "idempotent": idempotent,
    "nulls-headers": nulls_and_headers,
    "empties": empties,
    "timestamps": timestamps,
    "consume": assign,
    **{f"consume-{codec}": read_codec(codec) for codec in ("gzip", "snappy", "lz4", "zstd")},
    "from-offset": by_offset,
    "from-time": by_time,
    "seek": seek,
    "tail": tail,
    "kill": leader_killed(idempotent=False),
    "kill-idempotent": leader_killed(idempotent=True),
}
"""The features of clients without groups, in the order of the rows."""
