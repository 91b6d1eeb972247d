"""Promises of the counts by topic: no row takes over another one's past, and there are never more rows than a limit."""

from __future__ import annotations

from broker.replication.topic_traffic import OTHERS, TOPICS_MAX, TrafficByTopic
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE
from metadata.records import RemoveTopicRecord, TopicRecord


def test_a_topic_beyond_the_limit_is_counted_with_the_others() -> None:
    traffic = TrafficByTopic()
    for number in range(TOPICS_MAX + 3):
        traffic.of(f"t-{number}").bytes_in += 1
    found = traffic.statistics()
    assert len(found) == TOPICS_MAX + 1
    assert found["t-0"].bytes_in == 1 and found[OTHERS].bytes_in == 3


def test_a_deleted_topic_leaves_its_row_to_another_and_no_count_rises_by_what_it_had() -> None:
    traffic = TrafficByTopic()
    created = MetadataDelta(EMPTY_IMAGE)
    for number in range(TOPICS_MAX):
        created.replay(TopicRecord(f"t-{number}", f"id-{number}"))
        traffic.of(f"t-{number}").messages_in += 2
    image = created.apply(TOPICS_MAX - 1, 1)
    deleted = MetadataDelta(image)
    deleted.replay(RemoveTopicRecord("id-7"))
    traffic.published(deleted, deleted.apply(TOPICS_MAX, 1))
    traffic.of("new").messages_in += 1
    found = traffic.statistics()
    assert "t-7" not in found and found["new"].messages_in == 1
    assert found[OTHERS].messages_in == 0
    assert traffic.of("t-7") is not found["new"] and traffic.of("t-7").messages_in == 0, "made anew, it begins at 0"
