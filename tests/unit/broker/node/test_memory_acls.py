"""Three nodes with the authorizer, and clients of several principals: each does what it was allowed to, and no more."""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import Any

import pytest

from broker.authorization.authorizer import Rights
from broker.authorization.request_authorizer import RequestAuthorizer
from broker.network.request_channel import Caller
from penstock import AsyncAdmin, AsyncConsumer, AsyncProducer, TopicPartition
from penstock.client.admin.admin_types import (
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from penstock.client.admin.security.acls import checked_acls, checked_filters
from penstock.errors import (
    AuthorizationFailedError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    InvalidRequestError,
    SecurityDisabledError,
    TopicAuthorizationFailedError,
)
from tests.support.memory_cluster import MemoryCluster, run_in_memory

SECURED = {"authorizer.class.name": "StandardAuthorizer", "super.users": "User:admin"}
ADMIN, ANNA, BOB = "User:admin", "User:anna", "User:bob"
ORDERS = TopicPartition("orders", 0)


class Who:
    """The principal that every client has now: nobody proves one here."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = ADMIN

        def rights(request_authorizer: RequestAuthorizer, caller: Caller) -> Rights:
            return request_authorizer._authorizer.rights_of(self.now, caller.peer.host)

        monkeypatch.setattr(RequestAuthorizer, "_rights", rights)


@pytest.fixture
def who(monkeypatch: pytest.MonkeyPatch) -> Who:
    return Who(monkeypatch)


def acl(
    principal: str,
    operation: Operation,
    name: str = "orders",
    kind: ResourceType = ResourceType.TOPIC,
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
) -> AclBinding:
    return AclBinding(kind, name, principal, operation, permission, "*", pattern)


async def refused(call: Coroutine[Any, Any, Any], kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        await call
    return str(caught.value)


async def made(cluster: MemoryCluster) -> AsyncAdmin:
    cluster.format()
    await cluster.start()
    admin = AsyncAdmin(cluster.bootstrap(), environment=cluster.clients())
    for name in ("orders", "secret"):
        await admin.create_topic(name, 1)
    return admin


def test_each_principal_does_what_it_may(who: Who, caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: MemoryCluster) -> None:
        async with await made(cluster) as admin:
            wanted = [
                acl(ANNA, Operation.WRITE),
                acl(ANNA, Operation.READ, "readers", ResourceType.GROUP),
                acl(BOB, Operation.READ),
            ]
            assert await admin.create_acls(wanted) == dict.fromkeys(wanted)
            assert await admin.create_acls(wanted) == dict.fromkeys(wanted)
            assert set(await admin.describe_acls()) == set(wanted)
            assert [len(node.loader.image.acls) for node in cluster.nodes] == [3] * 3

            who.now = ANNA
            assert await admin.list_topics() == ["orders"]
            text = await refused(admin.create_topic("more", 1), TopicAuthorizationFailedError)
            assert "User:anna may not Create on topic 'more'" in text
            await refused(admin.describe_topic("secret"), TopicAuthorizationFailedError)
            await refused(admin.describe_topic("no-such-topic"), TopicAuthorizationFailedError)
            await refused(admin.create_acls([acl(ANNA, Operation.ALL)]), ClusterAuthorizationFailedError)
            await refused(admin.describe_acls(), ClusterAuthorizationFailedError)
            await refused(admin.describe_quorum(), ClusterAuthorizationFailedError)
            await produced(cluster, "orders", b"a")
            await refused(produced(cluster, "secret", b"b"), TopicAuthorizationFailedError)
            await refused(read(cluster, ORDERS), TopicAuthorizationFailedError)

            who.now = BOB
            assert await read(cluster, ORDERS) == [b"a"]
            await refused(produced(cluster, "orders", b"c"), AuthorizationFailedError)
            await refused(admin.group_offsets("readers"), GroupAuthorizationFailedError)

            who.now = ADMIN
            gone = await admin.delete_acls([AclFilter(principal=BOB)])
            assert gone == (acl(BOB, Operation.READ),)
            who.now = BOB
            await refused(read(cluster, ORDERS), TopicAuthorizationFailedError)
            assert await admin.list_topics() == []
        await cluster.stop()
        await cluster.start()
        assert [len(node.loader.image.acls) for node in cluster.nodes] == [2] * 3
        assert cluster.nodes[0].broker.requests.request_authorizer is not None
        statistics = cluster.nodes[0].broker.requests.request_authorizer.statistics()
        assert statistics.acls == 2

    with caplog.at_level(logging.WARNING, "penstock.audit"):
        run_in_memory(1, story, config=SECURED)
    lines = [record.getMessage() for record in caplog.records if record.name == "penstock.audit"]
    assert any('"api":"Metadata","operation":"Describe","resource":"topic","name":"secret"' in line for line in lines)


def test_a_user_without_rights_sees_part_of_the_health_and_learns_which_right_is_missing(who: Who) -> None:
    async def story(cluster: MemoryCluster) -> None:
        async with await made(cluster) as admin:
            whole = {check.name: check for check in (await admin.cluster_health()).checks}
            assert whole["rights"].status == whole["quorum"].status == "ok"
            assert whole["settings"].summary.startswith("those of every broker that answers are equal")
            who.now = ANNA
            part = {check.name: check for check in (await admin.cluster_health()).checks}
            assert part.keys() == whole.keys() and part["rights"].status == "warning"
            assert part["brokers"].summary == whole["brokers"].summary
            assert "not seen" in part["quorum"].summary and "not seen" in part["settings"].summary
            who.now = ADMIN
            least = acl(ANNA, Operation.DESCRIBE, "kafka-cluster", ResourceType.CLUSTER)
            assert await admin.create_acls([least]) == {least: None}
            who.now = ANNA
            seen = {check.name: check.summary for check in (await admin.cluster_health()).checks}
            assert seen["rights"] == "this user sees every check" and "not seen" not in str(seen)

    run_in_memory(1, story, config=SECURED)


async def produced(cluster: MemoryCluster, topic: str, value: bytes, codec: str = "none") -> None:
    environment, bootstrap = cluster.clients(), cluster.bootstrap()
    async with AsyncProducer(bootstrap, environment=environment, linger_ms=0, compression_type=codec) as producer:
        await (await producer.send(topic, value, partition=0))


async def read(cluster: MemoryCluster, partition: TopicPartition) -> list[bytes | None]:
    environment = cluster.clients()
    async with AsyncConsumer(cluster.bootstrap(), environment=environment, auto_offset_reset="earliest") as consumer:
        await consumer.assign([partition])
        for _ in range(20):
            if found := [record.value for record in await consumer.poll(500)]:
                return found
        raise AssertionError("nothing was read")


def test_a_denial_outweighs_and_counts_for_an_open_stream(who: Who) -> None:
    async def story(cluster: MemoryCluster) -> None:
        async with await made(cluster) as admin:
            await admin.create_acls([acl(ANNA, Operation.ALL, "*")])
            environment = cluster.clients()
            who.now = ANNA
            async with AsyncProducer(cluster.bootstrap(), environment=environment, linger_ms=0) as producer:
                await (await producer.send("orders", b"1", partition=0))
                who.now = ADMIN
                denial = acl(ANNA, Operation.WRITE, "ord", permission=Permission.DENY, pattern=PatternType.PREFIXED)
                await admin.create_acls([denial])
                who.now = ANNA
                with pytest.raises(TopicAuthorizationFailedError):
                    await (await producer.send("orders", b"2", partition=0))
            assert await read(cluster, ORDERS) == [b"1"]

    run_in_memory(2, story, config=SECURED)


def test_an_acl_that_would_never_count_is_refused_with_the_remedy(who: Who) -> None:
    async def story(cluster: MemoryCluster) -> None:
        async with await made(cluster) as admin:
            bad = [
                acl("anna", Operation.READ),
                acl(ANNA, Operation.READ, "kafka-cluster", ResourceType.CLUSTER),
                acl(ANNA, Operation.ALTER, "cluster", ResourceType.CLUSTER),
                acl(ANNA, Operation.READ, ""),
                AclBinding(ResourceType.TOPIC, "t", ANNA, Operation.READ, Permission.ALLOW, "host"),
                AclBinding(ResourceType.TOPIC, "t", ANNA, Operation.READ, Permission.ALLOW, "*", PatternType.MATCH),
            ]
            good = acl(ANNA, Operation.READ)
            results = await admin.create_acls([*bad, good])
            assert [type(results[one]) for one in bad] == [InvalidRequestError] * len(bad) and results[good] is None
            assert await admin.describe_acls(AclFilter(ResourceType.TOPIC, "orders", PatternType.MATCH)) == (good,)
            assert await admin.delete_acls([AclFilter(principal=BOB)]) == ()

    run_in_memory(3, story, config=SECURED)


def test_without_an_authorizer_acls_are_off() -> None:
    async def story(cluster: MemoryCluster) -> None:
        async with await made(cluster) as admin:
            for call in (
                admin.create_acls([acl(ANNA, Operation.READ)]),
                admin.delete_acls([AclFilter()]),
                admin.describe_acls(),
            ):
                assert "authorizer.class.name" in await refused(call, SecurityDisabledError)
            assert cluster.nodes[0].broker.requests.request_authorizer is None

    run_in_memory(4, story)


def test_everybody_may_use_what_no_acl_is_about_if_the_cluster_says_so(who: Who) -> None:
    async def story(cluster: MemoryCluster) -> None:
        async with await made(cluster) as admin:
            await admin.create_acls([acl(ANNA, Operation.READ, "secret")])
            who.now = BOB
            assert await admin.list_topics() == ["orders"]
            await produced(cluster, "orders", b"a")
            await refused(admin.describe_topic("secret"), TopicAuthorizationFailedError)

    run_in_memory(5, story, config={**SECURED, "allow.everyone.if.no.acl.found": True})


BAD = [
    (lambda: checked_acls([]), ValueError),
    (lambda: checked_acls("acl"), TypeError),
    (lambda: checked_acls([AclFilter()]), TypeError),
    (lambda: checked_filters([acl(ANNA, Operation.READ)]), TypeError),
    (lambda: checked_filters({AclFilter(): 1}), TypeError),
]


@pytest.mark.parametrize(("check", "error"), BAD)
def test_what_is_no_acl_is_refused_before_anybody_asks(check: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        check()


def test_no_time_is_spent_on_the_records_of_who_may_not_write(who: Who) -> None:
    """They would be compressed anew for a topic of another codec before anything refuses them."""

    async def story(cluster: MemoryCluster) -> None:
        async with await made(cluster) as admin:
            await admin.create_topic("packed", 1, config={"compression.type": "gzip"})
            of_cluster = acl(BOB, Operation.IDEMPOTENT_WRITE, "kafka-cluster", ResourceType.CLUSTER)
            of_bob = [of_cluster, acl(BOB, Operation.DESCRIBE, "packed")]
            await admin.create_acls([acl(ANNA, Operation.WRITE, "packed"), *of_bob])

            def converted() -> int:
                return sum(node.broker.requests.converter.statistics().requests for node in cluster.nodes)

            who.now = BOB
            text = await refused(produced(cluster, "packed", b"x" * 1_000, "zstd"), TopicAuthorizationFailedError)
            assert "Write" in text and converted() == 0
            who.now = ANNA
            await produced(cluster, "packed", b"x" * 1_000, "zstd")
            assert converted() == 1

    run_in_memory(1, story, config=SECURED)


def test_a_pattern_reads_what_its_member_may_describe_and_follows_its_rights(who: Who) -> None:
    async def story(cluster: MemoryCluster) -> None:
        async with await made(cluster) as admin:
            of_group = acl(ANNA, Operation.READ, "readers", ResourceType.GROUP)
            await admin.create_acls([acl(ANNA, Operation.READ), of_group])
            who.now = ANNA
            environment = cluster.clients()
            async with AsyncConsumer(cluster.bootstrap(), environment=environment, group_id="readers") as consumer:
                await consumer.subscribe(pattern="orders|secret")
                for _ in range(60):
                    await consumer.poll(500)
                    if consumer.assignment():
                        break
                assert consumer.assignment() == [ORDERS]
                who.now = ADMIN
                (one,) = (await admin.describe_group("readers")).members
                assert one.assignment == one.target_assignment == (ORDERS,)
                await admin.create_acls([acl(ANNA, Operation.READ, "secret")])
                who.now = ANNA
                for _ in range(60):
                    await consumer.poll(500)
                    if len(consumer.assignment()) == 2:
                        break
                assert consumer.assignment() == [ORDERS, TopicPartition("secret", 0)]

    run_in_memory(1, story, config=SECURED)
