"""Promises of the memory of a coordinator: its refusals name the party, the limit and the remedy."""

from __future__ import annotations

import re

from broker.coordination.memory_shares import CoordinatorMemory, MemoryWords
from penstock.errors import GroupMaxSizeReachedError, ResourceExhaustedError

WORDS = MemoryWords(
    "the groups", "some.key", GroupMaxSizeReachedError, "delete some", ResourceExhaustedError, "send it again"
)


def test_a_refusal_says_the_fact_and_the_remedy_and_is_counted() -> None:
    memory = CoordinatorMemory(1_000, WORDS)
    memory.lasting.changed("User:a", 500)
    lasting, passing = memory.refusal_of("User:a", 1), memory.passing_refusal_of("User:b", 501)
    assert isinstance(lasting, GroupMaxSizeReachedError) and isinstance(passing, ResourceExhaustedError)
    assert re.search(r"User:a holds about 500 bytes .*some\.key.* delete some", str(lasting))
    assert re.search(r"User:b holds about 0 bytes .* send it again", str(passing))
    assert memory.passing_refusal_of("User:a", 400) is None
    assert memory.refusals == 2 and memory.used == 500
