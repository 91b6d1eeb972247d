"""Memory accounts for tests that are about something else."""

from __future__ import annotations

from broker.network.memory_budget import MemoryBudget
from broker.replication.fetch_session import SessionMemory

PLENTY_BYTES = 1 << 40


def unlimited() -> SessionMemory:
    """A fetch session's accounts in budgets that are never used up."""
    return SessionMemory(MemoryBudget(PLENTY_BYTES, 1).open("test"), MemoryBudget(PLENTY_BYTES, 1).open("test"))
