"""The transactional ids that may be: not empty, not too long, and of a producer only if they are not reserved."""

from __future__ import annotations

from typing import Final

from penstock.errors import InvalidRequestError

TRANSACTIONAL_ID_CHARACTERS_MAX: Final = 255
"""Kafka takes up to 32,767 bytes. An id is in the key of every record of its transactions, and kept for days."""
RESERVED_PREFIX: Final = "penstock.batch:"
"""Ids of atomic batches: the coordinator makes them, and their producers."""


def check_transactional_id(transactional_id: str) -> None:
    """InvalidRequestError if no transaction can have this id."""
    if not transactional_id:
        raise InvalidRequestError("the transactional id is empty; give the producer a name that it keeps")
    if len(transactional_id) > TRANSACTIONAL_ID_CHARACTERS_MAX:
        raise InvalidRequestError(
            f"the transactional id has {len(transactional_id)} characters, the limit is"
            f" {TRANSACTIONAL_ID_CHARACTERS_MAX}; give the producer a shorter name"
        )


def check_not_reserved(transactional_id: str) -> None:
    """InvalidRequestError if no producer of a client may have this id."""
    if transactional_id.startswith(RESERVED_PREFIX):
        raise InvalidRequestError(
            f"transactional ids that begin with {RESERVED_PREFIX} belong to atomic batches; give the producer another"
        )
