"""Memory accounts for tests that are about something else."""

from __future__ import annotations

from broker.apis.fetch_sessions.fetch_session import SessionMemory
from broker.network.memory_budget import MemoryBudget

PLENTY_BYTES = 1 << 40


def unlimited() -> SessionMemory:
    """A fetch session's accounts in budgets that are never used up."""
    return SessionMemory(MemoryBudget(PLENTY_BYTES, 1).open("test"), MemoryBudget(PLENTY_BYTES, 1).open("test"))
