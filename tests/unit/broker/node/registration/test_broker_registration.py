"""A broker's registration: what it tells the controller of its log dirs."""

from __future__ import annotations

from broker.node.registration.broker_registration import hosted_replicas, lost_replicas
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


def test_a_replica_of_which_only_an_unfinished_copy_is_here_was_in_a_log_dir_that_is_given_up() -> None:
    fs = LosingFileSystem()
    manager = open_manager(fs, ("/a", "/b"))
    whole, lost = TopicPartition("t", 0), TopicPartition("t", 1)
    manager.get_or_create(whole, "w" * 22, SMALL, log_dir="/b")
    manager.get_or_create(lost, "l" * 22, SMALL, log_dir="/a")
    manager.futures.create(manager.futures.name(lost, "/b"), "l" * 22)
    manager.removal.stray(whole, "w" * 22)
    manager.get_or_create(whole, "w" * 22, SMALL, log_dir="/b")
    assert lost_replicas(manager, ("a-id",)) == ()
    manager.close(clean=False)
    for _ in range(2):  # the copy is set aside as stray by the first start
        manager = open_manager(fs, ("/b",))
        assert lost_replicas(manager, ("a-id", "typo")) == (("l" * 22, (1,), "a-id"), ("l" * 22, (1,), "typo"))
        assert lost_replicas(manager, ()) == lost_replicas(manager, (manager.directory_id("/b"),)) == ()
        manager.close(clean=False)
