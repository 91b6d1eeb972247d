"""The reader and the writer of a message are each other's inverse, and hold to what the declaration says."""

from __future__ import annotations

import pytest

from broker.kafka.schemas.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from broker.kafka.schemas.fetch import FetchableTopicResponse, FetchResponse, FetchResponsePartitionData
from broker.kafka.schemas.metadata import MetadataRequest, MetadataRequestTopic
from broker.kafka.schemas.produce import ProduceRequest
from broker.kafka.schemas.table import MESSAGES, REQUESTS, RESPONSES
from broker.kafka_codec.codec import decode, encode
from broker.kafka_codec.primitives import EncodeError
from broker.kafka_codec.structs import facts_of
from penstock.errors import InvalidRequestError, UnsupportedVersionError


def test_every_api_has_a_request_and_a_response_with_the_same_versions() -> None:
    assert REQUESTS.keys() == RESPONSES.keys()
    for key, request in REQUESTS.items():
        assert facts_of(request).versions == facts_of(RESPONSES[key]).versions
        assert facts_of(request).flexible == facts_of(RESPONSES[key]).flexible


def structs_of(cls: type) -> set[type]:
    """The class and those of its fields, and of theirs."""
    nested = [field.element for _, field in facts_of(cls).fields if isinstance(field.element, type)]
    return {cls}.union(*map(structs_of, nested))


def test_tags_are_declared_in_the_order_in_which_they_are_written_and_only_for_flexible_versions() -> None:
    for message in MESSAGES:
        for struct in structs_of(message):
            tagged = [field for _, field in facts_of(struct).fields if field.tag is not None]
            assert [field.tag for field in tagged] == list(range(len(tagged)))
            for field in tagged:
                assert field.versions.first >= facts_of(message).flexible.first


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_a_message_with_nothing_but_defaults_returns_as_it_was(cls: type) -> None:
    first, last = facts_of(cls).versions
    for version in range(first, last + 1):
        written = b"".join(encode(cls(), version))

        assert decode(cls, version, memoryview(written)) == (cls(), len(written))


def test_records_are_written_as_the_object_that_they_are() -> None:
    class Slice:
        def __len__(self) -> int:
            return 300

    first, second = Slice(), memoryview(b"xyz")
    partitions = [FetchResponsePartitionData(records=first), FetchResponsePartitionData(records=second)]

    parts = encode(FetchResponse(responses=[FetchableTopicResponse(partitions=partitions)]), 12)

    assert [type(part) for part in parts] == [bytes, Slice, bytes, memoryview, bytes]
    assert parts[1] is first and parts[3] is second


def test_a_value_that_the_version_has_no_field_for_is_refused_unless_it_is_ignorable() -> None:
    name = MetadataRequestTopic(name="orders", topic_id="AAAAAAAAAAAAAAAAAAAAAQ")

    encode(MetadataRequest(topics=[name]), 9)
    with pytest.raises(UnsupportedVersionError, match=r"MetadataRequest\.allow_auto_topic_creation"):
        encode(MetadataRequest(topics=[], allow_auto_topic_creation=False), 3)


def test_null_is_refused_where_it_may_not_be() -> None:
    with pytest.raises(EncodeError, match=r"MetadataRequest\.topics may not be null"):
        encode(MetadataRequest(topics=None), 0)
    with pytest.raises(InvalidRequestError, match=r"MetadataRequest\.topics is null"):
        decode(MetadataRequest, 0, memoryview(b"\xff\xff\xff\xff"))


@pytest.mark.parametrize(
    ("message", "version", "sentence"),
    [
        (ProduceRequest(acks=1 << 15), 9, "ProduceRequest of version 9 has no encoding"),
        (ProduceRequest(acks="all"), 9, "ProduceRequest of version 9 has no encoding"),
        (ProduceRequest(transactional_id=7), 9, "ProduceRequest of version 9 has no encoding"),
        (
            MetadataRequest(topics=[MetadataRequestTopic(name="\udc80")]),
            9,
            "MetadataRequest of version 9 has no encoding",
        ),
        (MetadataRequest(topics=["orders"]), 9, "MetadataRequest of version 9 has no encoding"),
        (MetadataRequest(topics=[MetadataRequestTopic(topic_id="short")]), 12, "'short' is no uuid of 22 characters"),
        (MetadataRequest(topics=[MetadataRequestTopic(topic_id="?" * 22)]), 12, "is no uuid of 22 characters"),
        (MetadataRequest(topics=[MetadataRequestTopic(topic_id="ä" * 22)]), 12, "is no uuid of 22 characters"),
        (MetadataRequest(topics=[MetadataRequestTopic(name="a" * 32_768)]), 9, r"Topic\.name has 32768 bytes"),
        (MetadataRequest(topics=[MetadataRequestTopic(name="a" * 32_768)]), 1, r"Topic\.name has 32768 bytes"),
    ],
)
def test_a_message_that_has_no_encoding_is_refused_with_its_name(message: object, version: int, sentence: str) -> None:
    with pytest.raises(EncodeError, match=sentence):
        encode(message, version)


def test_a_string_may_have_as_many_bytes_as_in_kafka() -> None:
    message = MetadataRequest(topics=[MetadataRequestTopic(name="a" * 32_767)])
    for version in (1, 9):
        written = b"".join(encode(message, version))

        assert decode(MetadataRequest, version, memoryview(written)) == (message, len(written))


def test_a_class_that_is_no_struct_of_the_wire_is_refused() -> None:
    with pytest.raises(TypeError, match="str is no struct of the wire"):
        encode("text", 0)


def test_a_version_that_is_not_declared_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError, match="0 to 13, and not 14"):
        decode(ProduceRequest, 14, memoryview(b""))


def test_an_array_beyond_the_limit_of_elements_is_refused_before_it_is_read() -> None:
    written = b"".join(encode(ApiVersionsResponse(api_keys=[ApiVersion(api_key=key) for key in range(9)]), 0))

    with pytest.raises(InvalidRequestError, match="more elements"):
        decode(ApiVersionsResponse, 0, memoryview(written), elements_max=8)
    decode(ApiVersionsResponse, 0, memoryview(written), elements_max=9)


def test_a_length_above_the_rest_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match=r"MetadataRequest\.topics has the length 1000000"):
        decode(MetadataRequest, 4, memoryview(b"\x00\x0f\x42\x40\x00"))


def test_unknown_tagged_fields_are_skipped_and_tags_ascend() -> None:
    body = b"".join(encode(ApiVersionsRequest(client_software_name="kcat", client_software_version="1"), 3))
    tagged = body[:-1] + bytes.fromhex("02 05 01 aa 80 01 00")

    assert decode(ApiVersionsRequest, 3, memoryview(tagged)) == (
        ApiVersionsRequest(client_software_name="kcat", client_software_version="1"),
        len(tagged),
    )
    with pytest.raises(InvalidRequestError, match="tags ascend"):
        decode(ApiVersionsRequest, 3, memoryview(body[:-1] + bytes.fromhex("02 05 01 aa 05 00")))
