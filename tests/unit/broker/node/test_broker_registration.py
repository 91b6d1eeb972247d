"""What a broker tells the controller of its log dirs when it registers."""

from __future__ import annotations

from broker.node.broker_registration import hosted_replicas
from broker.quorum.metadata_log import METADATA_PARTITION, METADATA_TOPIC_ID
from penstock.types import TopicPartition
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import SMALL, open_manager


def test_every_replica_is_named_with_the_id_of_its_log_dir_and_the_metadata_log_is_not() -> None:
    manager = open_manager(LosingFileSystem(), ("/a", "/b"))
    manager.get_or_create(METADATA_PARTITION, METADATA_TOPIC_ID, SMALL)
    for number in range(3):
        manager.get_or_create(TopicPartition("t", number), "t-id", SMALL)
    held = {tuple(replicas) for replicas in hosted_replicas(manager)}
    a, b = manager.directory_id("/a"), manager.directory_id("/b")
    assert held == {("t-id", (1,), a), ("t-id", (0, 2), b)}
