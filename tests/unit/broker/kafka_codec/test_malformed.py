"""Each way in which bytes are no message has its sentence, and no exception but the typed one."""

from __future__ import annotations

import pytest

from broker.kafka.schemas.api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker.kafka.schemas.fetch import FetchRequest, FetchResponse
from broker.kafka.schemas.groups.classic import SyncGroupResponse
from broker.kafka.schemas.metadata import DescribeTopicPartitionsRequest, MetadataRequest
from broker.kafka_codec.codec import decode, decode_counted
from broker.kafka_codec.primitives import TooManyElementsError
from penstock.errors import InvalidRequestError

TOO_LONG_VARINT = "80 80 80 80 80 01"


@pytest.mark.parametrize(
    ("cls", "version", "body", "sentence"),
    [
        (MetadataRequest, 1, "ff ff ff fe", "MetadataRequest.topics has the length -2"),
        (MetadataRequest, 1, "00 00 00 01 ff fe", "MetadataRequestTopic.name has the length -2"),
        (SyncGroupResponse, 0, "00 00 ff ff ff fe", "SyncGroupResponse.assignment has the length -2"),
        (
            MetadataRequest,
            1,
            "7f ff ff ff 00 00",
            "MetadataRequest.topics has the length 2147483647, and 2 bytes are left",
        ),
        (MetadataRequest, 9, "ff ff ff ff 0f 00 00", "has the length 4294967294, and 2 bytes are left"),
        (
            MetadataRequest,
            1,
            "00 00 00 01 00 09 61",
            "MetadataRequestTopic.name has the length 9, and 1 bytes are left",
        ),
        (SyncGroupResponse, 0, "00 00 00 00 00 02 61", "SyncGroupResponse.assignment has the length 2, and 1"),
        (MetadataRequest, 1, "00 00 00 01 00 02 c3 28", "MetadataRequest of version 1 has a string that is not UTF-8"),
        (ApiVersionsRequest, 3, "03 ff fe 01 00", "ApiVersionsRequest of version 3 has a string that is not UTF-8"),
        (MetadataRequest, 1, "", "MetadataRequest of version 1 ends before its last field"),
        (MetadataRequest, 4, "00 00 00 00", "MetadataRequest of version 4 ends before its last field"),
        (ApiVersionsRequest, 3, "01 01", "ApiVersionsRequest of version 3 ends before its last field"),
        (MetadataRequest, 9, TOO_LONG_VARINT, "a varint has more than 5 bytes"),
        (MetadataRequest, 9, "ff ff ff ff 1f 00", "a varint is above 32 bits"),
        (ApiVersionsRequest, 3, "01 01 " + TOO_LONG_VARINT, "a section has more than 127 tagged fields"),
        (ApiVersionsRequest, 3, "01 01 02 03 00 03 00", "the tagged field 3 comes after 3"),
        (ApiVersionsRequest, 3, "01 01 02 03 00 02 00", "the tagged field 2 comes after 3"),
        (ApiVersionsRequest, 3, "01 01 01 03 09 00", "the tagged field 3 has 9 bytes, and 1 are left"),
        (ApiVersionsRequest, 3, "01 01 80 01 03 00", "a section has more than 127 tagged fields"),
        (ApiVersionsResponse, 3, "00 00 01 00 00 00 00 02 00 01 01 00 01 01", "the tagged field 0 comes after 0"),
        (ApiVersionsResponse, 3, "00 00 01 00 00 00 00 01 01 07" + "00" * 8, "has the length|is 1 bytes longer"),
        (ApiVersionsResponse, 3, "00 00 01 00 00 00 00 01 01 09" + "00" * 9, "is 1 bytes shorter than its tag says"),
        (MetadataRequest, 0, "ff ff ff ff", "MetadataRequest.topics is null, and may not be"),
        (MetadataRequest, 9, "02 00 01 00 00 00", "MetadataRequestTopic.name is null, and may not be"),
        (SyncGroupResponse, 0, "00 00 ff ff ff ff", "SyncGroupResponse.assignment is null, and may not be"),
        (ApiVersionsRequest, 3, "81 80 02 " + "61" * 40_000, "has 32768 bytes, and a string has at most 32767"),
        (DescribeTopicPartitionsRequest, 0, "01 00 00 07 d0 02 00", "cursor begins with 2, and not with -1"),
        (
            FetchRequest,
            4,
            "ff ff ff ff" + "00" * 12 + "00 7f ff ff ff",
            "FetchRequest.topics has the length 2147483647",
        ),
        (FetchResponse, 4, "00 00 00 00 00 00 00 03" + "00" * 17, "FetchResponse.responses has the length 3"),
    ],
)
def test_bytes_that_are_no_message_are_refused_with_what_is_wrong(
    cls: type, version: int, body: str, sentence: str
) -> None:
    with pytest.raises(InvalidRequestError, match=sentence):
        decode(cls, version, memoryview(bytes.fromhex(body)))


def test_a_count_that_the_rest_cannot_hold_is_refused_by_the_size_of_its_elements() -> None:
    """Six bytes at least for a topic in FetchResponse: 17 bytes hold two of them, and not three."""
    three, two = bytes.fromhex("00000000 00000003") + bytes(17), bytes.fromhex("00000000 00000002") + bytes(12)

    with pytest.raises(InvalidRequestError, match=r"FetchResponse\.responses has the length 3, and 17 bytes are left"):
        decode(FetchResponse, 4, memoryview(three))
    assert len(decode(FetchResponse, 4, memoryview(two))[0].responses) == 2


def test_a_varint_may_have_bytes_that_say_nothing() -> None:
    """As in Kafka: `80 00` is a zero in two bytes."""
    assert decode(ApiVersionsRequest, 3, memoryview(bytes.fromhex("81 00 01 00"))) == (ApiVersionsRequest(), 4)


def test_unknown_tagged_fields_count_as_elements() -> None:
    """A struct of an array may have tags of its own, and each of them costs as much as an element."""
    element = bytes.fromhex("02 61 02 02 00 03 00")  # a name, and the tagged fields 2 and 3, without values
    body = bytes([11]) + 10 * element + bytes.fromhex("01 00 00 00")
    _, _, elements = decode_counted(MetadataRequest, 9, memoryview(body), 0, 30)
    assert elements == 30
    with pytest.raises(TooManyElementsError):
        decode_counted(MetadataRequest, 9, memoryview(body), 0, 29)


@pytest.mark.parametrize(("length", "counted"), [(1_023, 0), (1_024, 4), (30_000, 117)])
def test_a_long_string_counts_as_elements(length: int, counted: int) -> None:
    """A frame of a few names of 30 kB costs as much as one of hundreds of names: it must not pass for a small one."""
    name = length.to_bytes(2, "big") + bytes(length)
    body = (2).to_bytes(4, "big") + name + name
    message, end, elements = decode_counted(MetadataRequest, 1, memoryview(body), 0, 1_000)
    assert (len(message.topics), end, elements) == (2, len(body), 2 + 2 * counted)
    if counted:
        with pytest.raises(TooManyElementsError) as raised:
            decode_counted(MetadataRequest, 1, memoryview(body), 0, 2 + counted)
        assert raised.value.missing == counted
