"""A frame's size is within its limit, and a stranger learns which protocol it speaks."""

from __future__ import annotations

import pytest

from broker.kafka.connection.frame_size import SIZE_BYTES, frame_size
from penstock.errors import InvalidRequestError

SIZE_MAX = 100 << 20


@pytest.mark.parametrize("size", [1, 512, SIZE_MAX])
def test_a_size_within_the_limit_is_taken_and_bytes_behind_it_do_not_matter(size: int) -> None:
    head = size.to_bytes(SIZE_BYTES, "big")
    assert frame_size(head, SIZE_MAX) == frame_size(bytearray(head + b"GET "), SIZE_MAX) == size


@pytest.mark.parametrize("size", [0, -1, SIZE_MAX + 1])
def test_a_size_outside_of_the_limit_is_refused_with_the_limit_and_its_key(size: int) -> None:
    with pytest.raises(InvalidRequestError, match=rf"of {size} bytes.* to {SIZE_MAX} \(socket\.request\.max\.bytes\)"):
        frame_size(size.to_bytes(SIZE_BYTES, "big", signed=True), SIZE_MAX)


@pytest.mark.parametrize(
    ("head", "protocol"),
    [
        (b"\x16\x03\x01\x02", "TLS"),
        (b"GET ", "HTTP"),
        (b"OPTIONS ", "HTTP"),
        (b"PRI * HTTP/2.0", "gRPC"),
        (b"SSH-2.0", "SSH"),
    ],
)
def test_another_protocol_is_named_and_is_no_size_that_a_node_takes(head: bytes, protocol: str) -> None:
    assert int.from_bytes(head[:SIZE_BYTES], "big") > 3 * SIZE_MAX
    with pytest.raises(InvalidRequestError, match=f"it speaks {protocol}"):
        frame_size(head, SIZE_MAX)
