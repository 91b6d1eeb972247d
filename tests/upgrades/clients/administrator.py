"""One round of an administrator, as a process: administrator.py BOOTSTRAP PREFIX TOPIC.

It runs with the tree of either release on the path, so it imports nothing but `penstock`, and uses only what both have.
It prints one object: what everybody who asks has to be told. An error that it does not expect ends it with a traceback.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.errors import ApiError, PenstockError

WAIT_S = 60.0
RECORDS = 40


def administer(bootstrap: str, prefix: str, load: str) -> None:
    """Makes, changes, looks at and deletes topics, and asks for everything that can be asked."""
    with Admin(bootstrap, default_api_timeout_ms=60_000) as admin:
        report = {
            "topics": _topics(admin, f"{prefix}-a"),
            "configs": _configs(admin, f"{prefix}-a"),
            "records": _records(admin, bootstrap, f"{prefix}-a"),
            "replicas": _replicas(admin, f"{prefix}-b"),
            "cluster": _cluster(admin, load),
            "refusals": _refusals(admin, f"{prefix}-a"),
        }
        for name in (f"{prefix}-a", f"{prefix}-b"):
            admin.delete_topic(name)
        report["left"] = [name for name in admin.list_topics() if name.startswith(prefix)]
    print(json.dumps(report))


def _topics(admin: Admin, name: str) -> Any:
    made = admin.create_topic(name, 2, 3, {"min.insync.replicas": 2, "retention.ms": 86_400_000})
    checked = admin.create_partitions(name, 5, validate_only=True)
    grown = admin.create_partitions(name, 4, [[2, 0, 1], [0, 1, 2]])
    seen = admin.describe_topic(name)
    assert made.topic_id == grown.topic_id == seen.topic_id, (made, grown, seen)
    (among_all,) = [one for one in admin.describe_topics() if one.name == name]
    assert (among_all.topic_id, among_all.partition_count) == (seen.topic_id, 4), among_all
    return {
        "partitions": [made.partition_count, checked.partition_count, grown.partition_count, seen.partition_count],
        "replicas": [sorted(p.replicas) for p in seen.partitions],
        "by_hand": [list(p.replicas) for p in seen.partitions[2:]],
        "isr": [sorted(p.isr) for p in seen.partitions],
        "config": dict(seen.config),
    }


def _configs(admin: Admin, name: str) -> Any:
    admin.alter_topic_config(name, {"retention.ms": 3_600_000, "max.message.bytes": 500_000})
    admin.alter_topic_config(name, {"retention.ms": None}, append={"cleanup.policy": "compact"})
    admin.alter_topic_config(name, {"segment.bytes": 1 << 20}, validate_only=True)
    admin.alter_topic_config(name, {}, subtract={"cleanup.policy": "compact"})
    admin.alter_broker_config(None, {"log.retention.ms": 77_000_000})
    admin.alter_broker_config(1, {"log.retention.ms": 78_000_000})
    keys = "cleanup.policy", "max.message.bytes", "retention.ms", "segment.bytes"
    of_topic = admin.describe_topic_config(name)
    of_brokers = [admin.describe_broker_config(node)["log.retention.ms"] for node in (0, 1, None)]
    admin.alter_broker_config(1, {"log.retention.ms": None})
    admin.alter_broker_config(None, {"log.retention.ms": None})
    entries = [*(of_topic[key] for key in keys), *of_brokers]
    return [[e.name, e.value, str(e.source), e.type, e.is_read_only] for e in entries]


def _records(admin: Admin, bootstrap: str, name: str) -> Any:
    with Producer(bootstrap) as producer:
        sent = [producer.send(name, b"%d" % number, partition=number % 4) for number in range(RECORDS)]
        offsets = [future.result(60).offset for future in sent]
    partitions = [TopicPartition(name, partition) for partition in range(4)]
    before = admin.list_offsets(partitions)
    low = admin.delete_records({partitions[0]: 3, partitions[1]: -1})
    asked: list[dict[TopicPartition, Any]] = [dict.fromkeys(partitions, s) for s in ("earliest", "latest", 0)]
    after = [admin.list_offsets(one) for one in asked]
    newest = admin.list_offsets(dict.fromkeys(partitions[2:], "max-timestamp"))
    with Consumer(bootstrap) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        read: list[int] = []
        deadline = time.monotonic() + WAIT_S
        while len(read) < RECORDS - 13 and time.monotonic() < deadline:
            read += [int(record.value or b"") for record in consumer.poll(timeout_ms=100)]
    return {
        "acked": offsets,
        "before": [before[tp].offset for tp in partitions],
        "low": sorted(low.values()),
        "after": [[answer[tp].offset for tp in partitions] for answer in after],
        "newest": all(answer.offset >= 0 for answer in newest.values()),
        "read": sorted(read),
    }


def _replicas(admin: Admin, name: str) -> Any:
    admin.create_topic(name, assignments=[[0, 1], [1, 2], [2, 0]])
    first = TopicPartition(name, 0)
    # The replicas stay in their order: for another one a controller writes a record that an older release may not know.
    begun = admin.alter_partition_reassignments({first: [0, 2]})
    admin.reassignment_progress()
    _until(lambda: not any(tp.topic == name for tp in admin.list_partition_reassignments()))
    moved = admin.describe_topic(name).partitions[0]
    cancelled = admin.alter_partition_reassignments({first: None})
    admin.elect_leaders()
    elected = admin.elect_leaders([first])
    unclean = admin.elect_leaders([first], unclean=True)
    dirs = admin.describe_log_dirs(topics=[name])
    assert all(one.error is None for one in dirs.values()), dirs
    path = dirs[1].log_dirs[0].path
    stays = admin.alter_replica_log_dirs(1, {first: path})
    assigned = admin.describe_topic(name).partitions[1].log_dirs
    ids = {d.directory_id for one in dirs.values() for d in one.log_dirs}
    return {
        "moved": [list(moved.replicas), sorted(moved.isr)],
        "errors": [_name(one) for answer in (begun, cancelled, stays) for one in answer.values()],
        "elected": [[one.leader_id, _name(one.error)] for answer in (elected, unclean) for one in answer.values()],
        "dirs": {node: sorted(tp.partition for d in one.log_dirs for tp in d.replicas) for node, one in dirs.items()},
        "dirs_are_known": [directory in ids for directory in assigned],
    }


def _cluster(admin: Admin, load: str) -> Any:
    cluster, quorum = admin.describe_cluster(), admin.describe_quorum()
    _until(lambda: {one.error for one in admin.metadata_digests()} == {""})
    digests = admin.metadata_digests()
    assert len({(one.offset, one.epoch, one.records, one.sha256) for one in digests}) == 1, digests
    content = admin.describe_metadata(digests[0].offset, 2)
    assert content.digest.sha256 == digests[0].sha256, (content.digest, digests)
    _until(lambda: admin.cluster_health().status == "healthy")
    return {
        "id": cluster.cluster_id,
        "brokers": sorted(one.broker.node_id for one in admin.describe_brokers()),
        "quorum": [quorum.leader_id, quorum.leader_epoch, sorted(one.node_id for one in quorum.voters)],
        "own_view": quorum.only_own_view,
        "digests": [one.node_id for one in digests],
        "load": admin.describe_topic(load).topic_id,
    }


def _refusals(admin: Admin, name: str) -> Any:
    """The errors that a mistake has to meet."""
    gone = TopicPartition(f"{name}-gone", 0)
    mistakes: list[Callable[[], Any]] = [
        lambda: admin.create_topic(name, 1),
        lambda: admin.create_topic("a/b", 1),
        lambda: admin.create_topic(f"{name}-x", 1, 9),
        lambda: admin.create_topic(f"{name}-x", 1, config={"retention.ms": "soon"}),
        lambda: admin.create_partitions(name, 2),
        lambda: admin.delete_topic(gone.topic),
        lambda: admin.describe_topic(gone.topic),
        lambda: admin.alter_topic_config(name, {"no.such.key": 1}),
        lambda: admin.alter_broker_config(9, {"log.retention.ms": 1}),
        lambda: admin.delete_records({TopicPartition(name, 0): 10**9}),
        lambda: admin.unregister_broker(1),
        lambda: admin.unregister_broker(9),
    ]
    answers = [_refusal(mistake) for mistake in mistakes]
    election = admin.elect_leaders([gone])[gone].error
    move = admin.alter_partition_reassignments({TopicPartition(name, 0): [9]})
    return [*answers, _name(election), *(_name(one) for one in move.values())]


def _refusal(mistake: Callable[[], Any]) -> str | None:
    try:
        mistake()
    except PenstockError as error:
        return _name(error)
    return None


def _name(error: ApiError | PenstockError | None) -> str | None:
    return None if error is None else type(error).__name__ if isinstance(error, Exception) else str(error)


def _until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not true within {WAIT_S:g} s: {is_true}")
        time.sleep(0.05)


if __name__ == "__main__":
    administer(*sys.argv[1:])
