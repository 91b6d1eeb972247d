"""Image and delta: what changes, what is shared, and what publishers are told."""

from __future__ import annotations

import pytest

from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, MetadataImage, image_records
from metadata.records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    Record,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from penstock.errors import InvariantViolation
from penstock.messages.configs import ConfigResource


def image_of(*records: Record, on: MetadataImage = EMPTY_IMAGE) -> MetadataImage:
    delta = MetadataDelta(on)
    for record in records:
        delta.replay(record)
    return delta.apply(on.offset + len(records), 1)


def topic(name: str, partitions: int) -> list[Record]:
    made = (PartitionRecord(f"id-{name}", partition, (1, 2), (1, 2), 1) for partition in range(partitions))
    return [TopicRecord(name, f"id-{name}"), *made]


BROKER = RegisterBrokerRecord(1, "process", 0, "host", 9192)
BASE = image_of(BROKER, *topic("a", 2), *topic("b", 2), ConfigRecord("topic", "a", "retention.ms", "1"))


def test_naming_a_leader_raises_its_epoch_and_every_change_the_partition_epoch() -> None:
    def epochs(*changes: Record) -> tuple[int, int, int]:
        partition = image_of(*changes, on=BASE).topics_by_name["a"].partitions[0]
        return partition.leader_id, partition.leader_epoch, partition.partition_epoch

    assert epochs(PartitionChangeRecord("id-a", 0, isr=(1,))) == (1, 0, 1)
    assert epochs(PartitionChangeRecord("id-a", 0, leader_id=2)) == (2, 1, 1)
    assert epochs(PartitionChangeRecord("id-a", 0, leader_id=1)) == (1, 1, 1)
    assert epochs(PartitionChangeRecord("id-a", 0, leader_id=-1), PartitionChangeRecord("id-a", 0)) == (-1, 1, 2)


def test_one_change_in_5000_partitions_shares_everything_else() -> None:
    large = image_of(BROKER, *(record for number in range(50) for record in topic(f"t{number}", 100)))
    after = image_of(PartitionChangeRecord("id-t7", 3, isr=(1,)), on=large)
    assert large.partition_count == after.partition_count == 5000
    assert after.brokers is large.brokers
    assert after.configs is large.configs
    for name, before in large.topics_by_name.items():
        assert (after.topics_by_name[name] is before) == (name != "t7")
        assert after.topics_by_id[before.topic_id] is after.topics_by_name[name]
    changed, before = after.topics_by_name["t7"].partitions, large.topics_by_name["t7"].partitions
    assert [number for number in changed if changed[number] is not before[number]] == [3]
    assert before[3].isr == (1, 2)


def test_image_below_never_changes() -> None:
    digest = BASE.digest()
    image_of(
        PartitionChangeRecord("id-a", 0, leader_id=2),
        ConfigRecord("topic", "a", "retention.ms", "2"),
        ConfigRecord("topic", "b", "retention.ms", "2"),
        RemoveTopicRecord("id-b"),
        BrokerRegistrationChangeRecord(1, 0, fenced=False),
        *topic("c", 1),
        on=BASE,
    )
    assert BASE.digest() == digest


def test_delta_tells_what_changed() -> None:
    delta = MetadataDelta(BASE)
    assert delta.is_empty
    for record in (
        PartitionChangeRecord("id-a", 1, isr=(1,)),
        *topic("c", 3),
        RemoveTopicRecord("id-b"),
        BrokerRegistrationChangeRecord(1, 0, fenced=False),
        ConfigRecord("topic", "c", "retention.ms", "5"),
    ):
        delta.replay(record)
    assert delta.changed_topics == {"id-a": {1}, "id-c": {0, 1, 2}}
    assert delta.created_topic_ids == {"id-c"}
    assert delta.deleted_topic_ids == {"id-b"}
    assert delta.changed_brokers == {1}
    assert delta.changed_configs == {ConfigResource("topic", "c")}
    assert not delta.is_empty
    assert "deleted=1" in repr(delta)


def test_nothing_gives_the_same_tables_under_the_next_offset() -> None:
    after = image_of(NoOpRecord(), on=BASE)
    assert after.offset == BASE.offset + 1
    assert after.topics_by_id is BASE.topics_by_id
    assert after.digest() == BASE.digest()


def test_deleted_topic_takes_its_partitions_and_configuration_with_it() -> None:
    delta = MetadataDelta(BASE)
    delta.replay(RemoveTopicRecord("id-a"))
    after = delta.apply(BASE.offset + 1, 1)
    assert after.topic("a") is None
    assert after.partition("a", 0) is None
    assert after.topic_name("id-a") is None
    assert after.topic_config("a") == {}
    assert after.configs == {}
    assert delta.changed_configs == {ConfigResource("topic", "a")}


def test_topic_deleted_and_made_again_at_once_is_another_topic() -> None:
    delta = MetadataDelta(BASE)
    delta.replay(RemoveTopicRecord("id-a"))
    delta.replay(TopicRecord("a", "id-new"))
    delta.replay(PartitionRecord("id-new", 0, (1,), (1,), 1))
    assert delta.deleted_topic_ids == {"id-a"}
    assert delta.created_topic_ids == {"id-new"}
    after = delta.apply(BASE.offset + 3, 1)
    assert after.topics_by_name["a"].topic_id == "id-new"
    assert list(after.topics_by_name["a"].partitions) == [0]
    assert after.topic_config("a") == {}


def test_topic_made_and_deleted_within_one_delta_never_was() -> None:
    delta = MetadataDelta(BASE)
    for record in (*topic("c", 1), ConfigRecord("topic", "c", "retention.ms", "5"), RemoveTopicRecord("id-c")):
        delta.replay(record)
    assert not delta.created_topic_ids and not delta.deleted_topic_ids and not delta.changed_topics
    assert delta.apply(BASE.offset + 4, 1).digest() == BASE.digest()


def test_digest_depends_on_content_and_not_on_the_way_there() -> None:
    one = image_of(BROKER, *topic("a", 2), *topic("b", 2))
    other = image_of(*topic("b", 2), *topic("a", 2), BROKER, *topic("c", 1), RemoveTopicRecord("id-c"))
    assert one.digest() == other.digest()
    assert one.digest() != image_of(PartitionChangeRecord("id-a", 0), on=one).digest()


def test_snapshot_records_make_the_same_image() -> None:
    again = image_of(*image_records(BASE))
    assert again.digest() == BASE.digest()
    assert again.topics_by_name == BASE.topics_by_name
    assert again.brokers == BASE.brokers


def test_config_that_is_deleted_is_gone() -> None:
    after = image_of(ConfigRecord("topic", "a", "retention.ms"), on=BASE)
    assert after.configs == {}


def test_unregistered_broker_is_forgotten() -> None:
    assert image_of(UnregisterBrokerRecord(1, 0), on=BASE).brokers == {}


def test_active_brokers_are_those_that_neither_are_fenced_nor_shut_down() -> None:
    brokers = [RegisterBrokerRecord(number, "p", number, "host", 9192, fenced=False) for number in (3, 1, 2)]
    image = image_of(*brokers, BrokerRegistrationChangeRecord(2, 2, in_controlled_shutdown=True))
    assert [broker.broker_id for broker in image.active_brokers()] == [1, 3]
    assert image.brokers[1].endpoint == ("host", 9192)


def test_brokers_find_a_broker_at_its_own_listener_and_one_of_an_older_record_where_clients_do() -> None:
    apart = RegisterBrokerRecord(2, "p", 1, "host", 9192, inter_broker_host="inside", inter_broker_port=9194)
    image = image_of(RegisterBrokerRecord(1, "p", 0, "host", 9192), apart)
    assert image.brokers[1].inter_broker_endpoint == ("host", 9192)
    assert (image.brokers[2].endpoint, image.brokers[2].inter_broker_endpoint) == (("host", 9192), ("inside", 9194))
    assert image.brokers[2].to_record() == apart


@pytest.mark.parametrize(
    "record",
    [
        PartitionRecord("id-x", 0, (1,), (1,), 1),
        PartitionChangeRecord("id-x", 0),
        PartitionChangeRecord("id-a", 9),
        TopicRecord("a", "id-new"),
        TopicRecord("new", "id-a"),
        RemoveTopicRecord("id-x"),
        BrokerRegistrationChangeRecord(9, 0),
        BrokerRegistrationChangeRecord(1, 7),
        UnregisterBrokerRecord(9, 0),
        PartitionChangeRecord("id-a", 0, isr=()),
        PartitionChangeRecord("id-a", 0, isr=(1, 3)),
        PartitionChangeRecord("id-a", 0, isr=(2,)),
        PartitionChangeRecord("id-a", 0, leader_id=3),
        PartitionRecord("id-a", 7, (1,), (), -1),
    ],
    ids=repr,
)
def test_record_that_contradicts_the_image_is_refused(record: Record) -> None:
    with pytest.raises(InvariantViolation):
        image_of(record, on=BASE)


def test_record_of_a_topic_that_the_same_delta_deleted_is_refused() -> None:
    for late in (
        PartitionRecord("id-a", 0, (1,), (1,), 1),
        PartitionChangeRecord("id-a", 0),
        RemoveTopicRecord("id-a"),
    ):
        with pytest.raises(InvariantViolation):
            image_of(RemoveTopicRecord("id-a"), late, on=BASE)


def test_delta_is_used_once_and_never_goes_back() -> None:
    delta = MetadataDelta(BASE)
    delta.apply(BASE.offset, BASE.epoch)
    with pytest.raises(InvariantViolation):
        delta.replay(NoOpRecord())
    with pytest.raises(InvariantViolation):
        MetadataDelta(BASE).apply(BASE.offset - 1, BASE.epoch)
    with pytest.raises(InvariantViolation):
        MetadataDelta(BASE).apply(BASE.offset, BASE.epoch - 1)


def test_image_says_what_it_is() -> None:
    assert repr(BASE) == "MetadataImage(offset=7, epoch=1, brokers=1, topics=2, partitions=4)"
    assert BASE.topics_by_name["a"].replication_factor == 2
