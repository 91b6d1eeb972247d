"""Acts by Penstock's own clients while a node is away. Each ends when it is done, or raises why it is not."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import AsyncConsumer, AsyncProducer, TopicPartition
from penstock.client.admin.admin_types import (
    AclBinding,
    AclFilter,
    Operation,
    QuotaEntity,
    ResourceType,
    UserScramCredentialUpsertion,
)
from penstock.client.cluster.producer_ids import init_producer_id
from tests.simulation.cluster.clients.cores import core_of
from tests.support.absence.stage import AWAY, PRESENT, Stage

EVERYBODY = (AWAY, *PRESENT)
RETENTION = "retention.ms"
READ_MS = 500


def _raise(errors: Sequence[Exception | None]) -> None:
    for error in errors:
        if error is not None:
            raise error


async def create_topic(stage: Stage) -> None:
    await stage.admin.create_topic("grpc-three", 4, 3)
    stage.made.add("grpc-three")


async def create_topic_by_default(stage: Stage) -> None:
    await stage.admin.create_topic("grpc-default")
    stage.made.add("grpc-default")


async def create_topic_of_two(stage: Stage) -> None:
    made = await stage.admin.create_topic("grpc-two", 4, 2)
    assert all(set(partition.isr) == set(partition.replicas) for partition in made.partitions)


async def create_topic_by_hand(stage: Stage) -> None:
    await stage.admin.create_topic("grpc-by-hand", assignments=[EVERYBODY])
    stage.made.add("grpc-by-hand")


async def add_partitions(stage: Stage) -> None:
    await stage.admin.create_partitions("before", 3)


async def add_partitions_by_hand(stage: Stage) -> None:
    await stage.admin.create_partitions("before-by-hand", 2, [EVERYBODY])


async def write_and_read(stage: Stage) -> None:
    """A topic that is made now, with min.insync.replicas = 2."""
    await stage.admin.create_topic("grpc-written", 2, stage.factor)
    offset = await _written(stage, "grpc-written")
    cluster = stage.cluster
    async with AsyncConsumer(cluster.bootstrap(), environment=cluster.clients()) as consumer:
        partition = TopicPartition("grpc-written", 0)
        await consumer.assign([partition])
        await consumer.seek(partition, offset)
        while not await consumer.poll(READ_MS):
            continue


async def _written(stage: Stage, topic: str, transactional_id: str | None = None) -> int:
    cluster = stage.cluster
    options = {} if transactional_id is None else {"transactional_id": transactional_id}
    async with AsyncProducer(cluster.bootstrap(), environment=cluster.clients(), linger_ms=0, **options) as producer:
        if transactional_id is not None:
            await producer.begin_transaction()
        sent = await producer.send(topic, b"value", partition=0)
        if transactional_id is not None:
            await producer.commit_transaction()
        return (await sent).offset


async def first_group(stage: Stage) -> None:
    cluster = stage.cluster
    options = {"group_id": "grpc-group", "auto_offset_reset": "earliest"}
    async with AsyncConsumer(cluster.bootstrap(), environment=cluster.clients(), **options) as consumer:
        await consumer.subscribe(["read"])
        while not await consumer.poll(READ_MS):
            continue
        await consumer.commit()
    assert (await stage.admin.group_offsets("grpc-group"))[TopicPartition("read", 0)].offset == 1


async def first_transaction(stage: Stage) -> None:
    await _written(stage, "before", "grpc-transaction")


async def producer_id(stage: Stage) -> None:
    cluster = core_of(stage.admin).cluster
    await init_producer_id(cluster, cluster.clock.now_ms() + 10_000)


async def elect(stage: Stage) -> None:
    elected = TopicPartition("grpc-elected", 0)
    _raise([(await stage.admin.elect_leaders([elected]))[elected].error])


async def move_there_and_cancel(stage: Stage) -> None:
    moved = TopicPartition("two", 0)
    _raise(list((await stage.admin.alter_partition_reassignments({moved: (AWAY, PRESENT[0])})).values()))
    if stage.kind.serves:
        await _over(stage, moved)
    else:
        assert (await stage.admin.list_partition_reassignments())[moved].adding_replicas == (AWAY,)
    back = PRESENT if stage.kind.serves else None
    _raise(list((await stage.admin.alter_partition_reassignments({moved: back})).values()))
    await _over(stage, moved)


async def move_away(stage: Stage) -> None:
    moved = TopicPartition("grpc-left", 0)
    _raise(list((await stage.admin.alter_partition_reassignments({moved: PRESENT})).values()))
    await _over(stage, moved)
    assert set((await stage.admin.describe_topic("grpc-left")).partitions[0].isr) == set(PRESENT)


async def _over(stage: Stage, moved: TopicPartition) -> None:
    while moved in await stage.admin.list_partition_reassignments():
        await stage.pause()


async def alter_topic(stage: Stage) -> None:
    await stage.admin.alter_topic_config("before", {RETENTION: 1_000_000})
    assert (await stage.admin.describe_topic_config("before"))[RETENTION].value == "1000000"


async def alter_all_brokers(stage: Stage) -> None:
    await stage.admin.alter_broker_config(None, {"log.retention.ms": 2_000_000})
    assert (await stage.admin.describe_broker_config(None))["log.retention.ms"].value == "2000000"


async def alter_present_broker(stage: Stage) -> None:
    await stage.admin.alter_broker_config(0, {"log.retention.ms": 3_000_000})
    assert (await stage.admin.describe_broker_config(0))["log.retention.ms"].value == "3000000"


async def alter_absent_broker(stage: Stage) -> None:
    await stage.admin.alter_broker_config(AWAY, {"log.retention.ms": 4_000_000})


async def set_user(stage: Stage) -> None:
    _raise(list((await stage.admin.alter_user_scram_credentials([UserScramCredentialUpsertion("g", "pw")])).values()))
    assert "g" in await stage.admin.describe_user_scram_credentials()


async def set_acl(stage: Stage) -> None:
    acl = AclBinding(ResourceType.TOPIC, "before", "User:g", Operation.READ)
    _raise(list((await stage.admin.create_acls([acl])).values()))
    assert acl in await stage.admin.describe_acls()
    assert await stage.admin.delete_acls([AclFilter(principal="User:g")]) == (acl,)


async def set_quota(stage: Stage) -> None:
    entity = QuotaEntity(user="g")
    _raise(list((await stage.admin.alter_client_quotas({entity: {"producer_byte_rate": 1e6}})).values()))
    assert (await stage.admin.describe_client_quotas())[entity] == {"producer_byte_rate": 1e6}


async def raise_level(stage: Stage) -> None:
    await stage.admin.upgrade_features({"metadata.version": 2})


async def delete_records(stage: Stage) -> None:
    partition = TopicPartition("grpc-trimmed", 0)
    assert await stage.admin.delete_records({partition: 1}) == {partition: 1}


async def delete_group(stage: Stage) -> None:
    _raise(list((await stage.admin.delete_groups(["grpc-group"])).values()))


async def delete_topic(stage: Stage) -> None:
    await stage.admin.delete_topic("grpc-deleted")
    assert "grpc-deleted" not in await stage.admin.list_topics()


async def look(stage: Stage) -> None:
    admin = stage.admin
    assert {broker.node_id for broker in (await admin.describe_cluster()).brokers} >= set(PRESENT)
    await admin.describe_quorum()
    await admin.cluster_health()
    await admin.describe_topics()
    assert await admin.describe_metadata() and await admin.describe_brokers()


async def log_dirs(stage: Stage) -> None:
    found = await stage.admin.describe_log_dirs(list(PRESENT))
    assert set(found) == set(PRESENT)


async def move_log_dir(stage: Stage) -> None:
    """To the last log dir of a node, which may have no other."""
    node, partition = PRESENT[0], TopicPartition("before", 0)
    log_dir = stage.cluster.config(node).log_dirs[-1]
    _raise(list((await stage.admin.alter_replica_log_dirs(node, {partition: log_dir})).values()))
    while stage.log_dir_of(node, partition) != log_dir:
        await stage.pause()


async def unregister(stage: Stage) -> None:
    await stage.admin.unregister_broker(AWAY)


async def configuration_of_the_absent(stage: Stage) -> None:
    await stage.admin.describe_broker_config(AWAY)
