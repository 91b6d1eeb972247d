"""Promises of the topics as groups see them: facts of the newest image, and news only of what concerns a group."""

from __future__ import annotations

from broker.coordination.image_topics import ImageTopics, TopicNews
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.records import (
    PartitionChangeRecord,
    PartitionRecord,
    Record,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)

ID, OTHER_ID = "A" * 22, "B" * 22
NONE = TopicNews(frozenset(), frozenset())


class Metadata:
    """An image that grows, and what each step was said to change."""

    def __init__(self, *records: Record) -> None:
        self.image: MetadataImage = EMPTY_IMAGE
        self.topics = ImageTopics(lambda: self.image)
        self.publish(*records)

    def publish(self, *records: Record) -> TopicNews:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.apply(self.image.offset + len(records), 1)
        return self.topics.published(delta, self.image)

    def rack(self, broker_id: int, rack: str) -> TopicNews:
        """The broker registers anew, in that rack."""
        offset = self.image.offset + 1
        return self.publish(RegisterBrokerRecord(broker_id, f"p-{offset}", offset, "h", 1, rack, fenced=False))


def topic(name: str, topic_id: str, partitions: int = 2) -> tuple[Record, ...]:
    made = (PartitionRecord(topic_id, number, (1, 2), (1, 2), 1) for number in range(partitions))
    return TopicRecord(name, topic_id), *made


def changed(*names: str) -> TopicNews:
    return TopicNews(frozenset(names), frozenset())


def test_facts_are_those_of_the_newest_image() -> None:
    metadata = Metadata(*topic("t", ID))
    facts = metadata.topics.by_name("t")
    assert facts is not None and facts == metadata.topics.by_id(ID) and facts is metadata.topics.by_name("t")
    assert (facts.topic_id, facts.name, facts.partitions) == (ID, "t", 2)
    assert list(facts.racks) == [frozenset(), frozenset()]
    metadata.publish(PartitionRecord(ID, 2, (2,), (2,), 2))
    facts = metadata.topics.by_name("t")
    assert facts is not None and facts.partitions == 3
    metadata.rack(1, "north")
    metadata.rack(2, "south")
    facts = metadata.topics.by_name("t")
    assert facts is not None and list(facts.racks) == [{"north", "south"}, {"north", "south"}, {"south"}]
    metadata.publish(RemoveTopicRecord(ID))
    assert metadata.topics.by_name("t") is None is metadata.topics.by_id(ID)


def test_names_are_sorted_and_without_the_clusters_own() -> None:
    metadata = Metadata(*topic("t", ID), *topic("__consumer_offsets", OTHER_ID), *topic("a", "C" * 22))
    assert list(metadata.topics.names()) == ["a", "t"]
    assert metadata.topics.names() is metadata.topics.names()


def test_a_new_topic_more_partitions_and_other_replicas_are_news_and_a_new_leader_is_none() -> None:
    metadata = Metadata()
    assert metadata.publish(*topic("t", ID)) == changed("t")
    assert metadata.publish(PartitionChangeRecord(ID, 0, leader_id=2)) == NONE
    assert metadata.publish(PartitionChangeRecord(ID, 0, isr=(2,))) == NONE
    assert metadata.publish(PartitionRecord(ID, 2, (1,), (1,), 1)) == changed("t")
    assert metadata.publish(PartitionChangeRecord(ID, 2, isr=(2,), leader_id=2, replicas=(2,))) == changed("t")
    assert metadata.publish(*topic("__consumer_offsets", OTHER_ID)) == NONE


def test_a_deleted_topic_is_news_and_one_that_was_made_anew_in_the_same_image_is_both() -> None:
    metadata = Metadata(*topic("t", ID), *topic("u", "C" * 22))
    assert metadata.publish(RemoveTopicRecord("C" * 22)) == TopicNews(frozenset({"u"}), frozenset({"u"}))
    news = metadata.publish(RemoveTopicRecord(ID), *topic("t", OTHER_ID))
    assert news == TopicNews(frozenset({"t"}), frozenset({"t"})) and news


def test_a_broker_in_another_rack_concerns_every_topic_and_one_that_only_restarts_none() -> None:
    metadata = Metadata(*topic("t", ID), *topic("u", OTHER_ID))
    assert metadata.rack(1, "") == NONE
    assert metadata.rack(1, "north") == changed("t", "u")
    assert metadata.rack(1, "north") == NONE
