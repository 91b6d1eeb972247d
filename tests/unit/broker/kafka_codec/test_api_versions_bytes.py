"""The bytes of ApiVersions, written out: each client's first request, and the answer to it."""

from __future__ import annotations

import pytest

from broker.kafka.schemas.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from broker.kafka_codec.codec import decode, encode
from broker.kafka_codec.headers import response_header

KAFKA_PYTHON = ApiVersionsRequest(client_software_name="kafka-python", client_software_version="3.0")
ANSWER = ApiVersionsResponse(
    api_keys=[
        ApiVersion(api_key=0, min_version=0, max_version=13),
        ApiVersion(api_key=18, min_version=0, max_version=4),
    ],
    throttle_time_ms=7,
)
WITH_FEATURES = ApiVersionsResponse(
    api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)],
    supported_features=[SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)],
    finalized_features_epoch=258,
    finalized_features=[FinalizedFeatureKey(name="kraft.version", max_version_level=1, min_version_level=1)],
)
FEATURE = "6b 72 61 66 74 2e 76 65 72 73 69 6f 6e"


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (0, ""),
        (1, ""),
        (2, ""),
        (3, "0d 6b61666b612d707974686f6e 04 332e30 00"),
        (4, "0d 6b61666b612d707974686f6e 04 332e30 00"),
    ],
)
def test_a_request(version: int, body: str) -> None:
    expected = bytes.fromhex(body)

    assert b"".join(encode(KAFKA_PYTHON, version)) == expected
    assert decode(ApiVersionsRequest, version, memoryview(expected)) == (
        KAFKA_PYTHON if version >= 3 else ApiVersionsRequest(),
        len(expected),
    )


@pytest.mark.parametrize(
    ("answer", "version", "body"),
    [
        (ANSWER, 0, "0000 00000002 0000 0000 000d 0012 0000 0004"),
        (ANSWER, 1, "0000 00000002 0000 0000 000d 0012 0000 0004 00000007"),
        (ANSWER, 2, "0000 00000002 0000 0000 000d 0012 0000 0004 00000007"),
        (ANSWER, 3, "0000 03 0000 0000 000d 00 0012 0000 0004 00 00000007 00"),
        (ANSWER, 4, "0000 03 0000 0000 000d 00 0012 0000 0004 00 00000007 00"),
        (
            WITH_FEATURES,
            3,
            f"0000 02 0012 0000 0004 00 00000000 03 00 14 02 0e {FEATURE} 0000 0001 00"
            f" 01 08 0000000000000102 02 14 02 0e {FEATURE} 0001 0001 00",
        ),
    ],
)
def test_an_answer(answer: ApiVersionsResponse, version: int, body: str) -> None:
    expected = bytes.fromhex(body)

    assert b"".join(encode(answer, version)) == expected
    assert b"".join(encode(decode(ApiVersionsResponse, version, memoryview(expected))[0], version)) == expected


def test_the_answer_to_an_unknown_version_is_a_body_of_version_0_with_error_35_and_the_keys() -> None:
    answer = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)])

    assert b"".join(encode(answer, 0)) == bytes.fromhex("0023 00000001 0012 0000 0004")


@pytest.mark.parametrize("flexible", [False, True])
def test_its_response_header_never_has_tagged_fields(flexible: bool) -> None:
    assert response_header(18, 5, flexible) == bytes.fromhex("00000005")
    assert response_header(3, 5, flexible) == bytes.fromhex("0000000500" if flexible else "00000005")
