"""The transactional ids that may be: not empty, not too long, and of a producer only if they are not reserved."""

from __future__ import annotations

from typing import Final

from broker.coordination.partition_of import partition_of
from penstock.errors import InvalidRequestError
from penstock.messages.transactions.atomic_batches import BATCH_PREFIX

TRANSACTIONAL_ID_CHARACTERS_MAX: Final = 255
"""Kafka takes up to 32,767 bytes. An id is in the key of every record of its transactions, and kept for days."""


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
    if transactional_id.startswith(BATCH_PREFIX):
        raise InvalidRequestError(
            f"transactional ids that begin with {BATCH_PREFIX} belong to writers of atomic batches, which begin and end"
            " with a version of their application; give the producer another"
        )


def partition_of_transactional_id(transactional_id: str, partitions: int) -> int:
    """The partition of `__transaction_state` that has it. A writer of an atomic batch is where its application is."""
    if transactional_id.startswith(BATCH_PREFIX):
        transactional_id = transactional_id.rpartition("#")[0] or transactional_id
    return partition_of(transactional_id, partitions)
