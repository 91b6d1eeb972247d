"""The bytes of topics that are kept for Metadata: made once, of the newest view, and bounded."""

from __future__ import annotations

from collections.abc import Callable

from broker.kafka.apis.encoded_topics import EncodedTopics, Form
from broker.kafka.apis.topic_structs import topic_struct
from broker.kafka.schemas.metadata import MetadataResponse, MetadataResponseTopic
from broker.kafka_codec.codec import encode, encode_element
from penstock.errors import UnknownTopicOrPartitionError
from penstock.messages.metadata import PartitionInfo, TopicInfo

NOT_ASKED = -(2**31)
V12 = Form("KAFKA", 12, NOT_ASKED)


def view(name: str, partitions: int = 1) -> TopicInfo:
    return TopicInfo(name, f"id-of-{name}".ljust(21, "A") + "A", tuple(
        PartitionInfo(number, 1, 0, 0, (1, 2, 3), (1, 2)) for number in range(partitions)
    ))  # fmt: skip


class Made:
    """Counts the structs that are made."""

    def __init__(self) -> None:
        self.count = 0

    def of(self, topic: TopicInfo, form: Form = V12) -> Callable[[], MetadataResponseTopic]:
        def make() -> MetadataResponseTopic:
            self.count += 1
            return topic_struct(topic, form.version, form.operations, ())

        return make


def test_bytes_of_a_topic_stand_in_an_answer_as_the_struct_would() -> None:
    topics = [view("a", 3), view("b", 0), view("c", 200)]
    for version in range(1, 14):
        structs = [topic_struct(topic, version, NOT_ASKED, ()) for topic in topics]
        given: list[MetadataResponseTopic] = list(structs)
        given[0], given[2] = (encode_element(structs[at], MetadataResponse, version) for at in (0, 2))  # type: ignore[call-overload]
        assert encode(MetadataResponse(topics=given), version) == encode(MetadataResponse(topics=structs), version)


def test_a_topic_is_encoded_once_for_each_form_and_again_when_its_view_is_another() -> None:
    kept, made, first = EncodedTopics(), Made(), view("a")
    forms = (V12, V12._replace(version=4), V12._replace(listener="OUTSIDE"), V12._replace(operations=3576))
    for _ in range(3):
        for form in forms:
            kept.form(form, {first.topic_id: 0})(first, made.of(first, form))
    assert made.count == len(forms)
    larger = view("a", 2)
    encoded = kept.form(V12, {first.topic_id: 0})
    assert encoded(larger, made.of(larger)) == encode_element(
        topic_struct(larger, 12, NOT_ASKED, ()), MetadataResponse, 12
    )
    assert encoded(larger, made.of(larger)) and made.count == len(forms) + 1


def test_an_unknown_topic_is_not_kept() -> None:
    kept, made = EncodedTopics(), Made()
    unknown = TopicInfo("x", error=UnknownTopicOrPartitionError())
    for _ in range(2):
        kept.form(V12, {})(unknown, made.of(unknown))
    assert (made.count, kept.size_bytes) == (2, 0)


def test_topics_that_are_gone_are_forgotten() -> None:
    kept, made = EncodedTopics(), Made()
    for number in range(50):
        topic = view(f"t{number}")
        kept.form(V12, {topic.topic_id: 0})(topic, made.of(topic))
    assert kept.size_bytes == len(kept.form(V12, {topic.topic_id: 0})(topic, made.of(topic))) and made.count == 50


def test_the_form_that_was_asked_for_longest_ago_goes_first_when_there_is_no_room() -> None:
    topics = [view(str(number), 10) for number in range(10)]
    ids = {topic.topic_id: 0 for topic in topics}
    size = sum(len(encode_element(topic_struct(t, 12, NOT_ASKED, ()), MetadataResponse, 12)) for t in topics)
    kept, made = EncodedTopics(2 * size), Made()

    def ask(listener: str) -> int:
        """How many topics had to be encoded."""
        before = made.count
        encoded = kept.form(V12._replace(listener=listener), ids)
        for topic in topics:
            encoded(topic, made.of(topic))
        assert kept.size_bytes <= 2 * size
        return made.count - before

    assert [ask(name) for name in ("A", "B", "A", "C", "A", "B")] == [10, 10, 0, 10, 0, 10]
    small = EncodedTopics(size // 2)
    for topic in topics:
        small.form(V12, ids)(topic, made.of(topic))
        assert small.size_bytes <= size // 2
