"""Three nodes with the authorizer: a tenant that makes topics without end fills its share, by whatever listener, and no
other principal notices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from broker.authorization.authorizer import Rights
from broker.authorization.request_authorizer import RequestAuthorizer
from broker.kafka.schemas import topics
from broker.network.request_channel import Caller
from broker.node.parts import consensus
from metadata.controller.config import ControllerConfig
from metadata.image import MetadataImage
from metadata.records import OWNER_KEY, TOPIC_OWNER_RESOURCE
from penstock import AsyncAdmin
from penstock.client.admin.admin_types import AclBinding, Operation, PatternType, Permission, ResourceType
from penstock.errors import PolicyViolationError
from tests.support.absence.kafka_calls import KafkaCalls, Refused
from tests.support.absence.stage import BothProtocolsCluster

ADMIN, ANNA, BOB = "User:admin", "User:anna", "User:bob"
PARTITIONS_MAX = 40
RIGHTS = (Operation.CREATE, Operation.ALTER, Operation.DELETE, Operation.DESCRIBE)


class Story:
    """The cluster, its listeners, and the principal that every client has now: nobody proves one here."""

    def __init__(self, cluster: BothProtocolsCluster, admin: AsyncAdmin) -> None:
        self.cluster, self.admin, self.now = cluster, admin, ADMIN
        self.kafka = KafkaCalls(cluster.network, cluster.memory.process, cluster.kafka_endpoint)

    async def by_kafka(self, name: str, node: int = 0) -> None:
        topic = topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        await self.kafka.ask(topics.CreateTopicsRequest(topics=[topic], timeout_ms=30_000), node=node)

    async def fill(self) -> int:
        """Makes topics of 2 partitions until one is refused; how many there are."""
        count = 0
        with pytest.raises(PolicyViolationError, match="its share is"):
            while True:
                await self.admin.create_topic(f"{self.now.removeprefix('User:')}-{count}", 2, replication_factor=1)
                count += 1
        return count


def owners(image: MetadataImage) -> Counter[str]:
    """How many topics each principal has."""
    return Counter(one[OWNER_KEY] for of, one in image.configs.items() if of.resource_type == TOPIC_OWNER_RESOURCE)


def run(monkeypatch: pytest.MonkeyPatch, story: Callable[[Story], Awaitable[None]]) -> None:
    monkeypatch.setattr(consensus, "ControllerConfig", partial(ControllerConfig, max_partitions=PARTITIONS_MAX))
    cluster = BothProtocolsCluster(1, {"super.users": ADMIN, "min.insync.replicas": 1})

    async def main() -> None:
        cluster.format()
        await cluster.start()
        async with AsyncAdmin(cluster.bootstrap(), environment=cluster.clients()) as admin:
            story_of = Story(cluster, admin)

            def rights(request_authorizer: RequestAuthorizer, caller: Caller) -> Rights:
                return request_authorizer._authorizer.rights_of(story_of.now, caller.peer.host)

            monkeypatch.setattr(RequestAuthorizer, "_rights", rights)
            kind = ResourceType.TOPIC
            acls = [
                AclBinding(kind, f"{name}-", f"User:{name}", right, Permission.ALLOW, "*", PatternType.PREFIXED)
                for name in ("anna", "bob")
                for right in RIGHTS
            ]
            assert set((await admin.create_acls(acls)).values()) == {None}
            await story(story_of)
        await cluster.stop()

    cluster.memory.run(main())


def test_a_tenant_that_makes_topics_without_end_fills_its_share_and_others_make_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(story_of: Story) -> None:
        story_of.now = ANNA
        assert await story_of.fill() == PARTITIONS_MAX // 4, "half of all partitions, two a topic"
        for node in range(3):
            with pytest.raises(Refused, match="POLICY_VIOLATION: the topics of User:anna would have 21 partitions"):
                await story_of.by_kafka("anna-more", node)
        with pytest.raises(Refused, match="POLICY_VIOLATION"):
            await story_of.kafka.topic("anna-on-demand", may_be_made=True)
        with pytest.raises(PolicyViolationError, match="would have 21 partitions with those of topic anna-0"):
            await story_of.admin.create_partitions("anna-0", 3)

        story_of.now = BOB
        await story_of.by_kafka("bob-first")
        await story_of.kafka.topic("bob-on-demand", may_be_made=True)
        assert await story_of.fill() == 4
        story_of.now = ADMIN
        await story_of.admin.create_topic("of-the-administrator", 3, replication_factor=1)

        story_of.now = ANNA
        await story_of.admin.delete_topic("anna-0")
        assert [owners(node.loader.image) for node in story_of.cluster.nodes] == [{ANNA: 9, BOB: 6}] * 3

    run(monkeypatch, story)


def test_shares_outlive_the_active_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(story_of: Story) -> None:
        story_of.now = ANNA
        await story_of.fill()
        active = next(index for index, node in enumerate(story_of.cluster.nodes) if node.controller.is_active)
        await story_of.cluster.nodes[active].stop()
        with pytest.raises(PolicyViolationError, match="its share is 20"):
            await story_of.admin.create_topic("anna-more", 1, replication_factor=1)
        story_of.now = BOB
        await story_of.admin.create_topic("bob-first", 1, replication_factor=1)

    run(monkeypatch, story)
