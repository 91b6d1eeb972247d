"""A guarantee that an error gives beyond its class reaches the client; without it, its code says what is guaranteed."""

from __future__ import annotations

import pytest

from penstock.errors import ApiError, InvalidRequestError, KafkaStorageError
from penstock.wire.error_message import error_in_message, error_to_message


@pytest.mark.parametrize(
    ("error", "given", "crosses", "expected"),
    [
        (KafkaStorageError("broken"), False, False, False),
        (KafkaStorageError("full"), True, True, True),
        (InvalidRequestError("no"), True, False, True),
    ],
)
def test_that_nothing_was_written_crosses_where_the_code_does_not_say_it(
    error: ApiError, given: bool, crosses: bool, expected: bool
) -> None:
    if given:
        error.nothing_written = True
    sent = error_to_message(error)
    assert sent is not None
    found = error_in_message(sent)
    assert sent.nothing_written is crosses
    assert type(found) is type(error) and found is not None and found.nothing_written is expected
    assert not KafkaStorageError.nothing_written, "the class is as it was"
