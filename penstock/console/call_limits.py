"""The time limits of the console's clients, those of its users and the one that watches, in ms.

A request is so much shorter than a call that a call which meets a broker that hangs asks another one in time.
"""

from __future__ import annotations

from typing import Final

CALL_MS: Final = 8_000
"""Limit for one call of a client: a person waits."""
REQUEST_MS: Final = 2_500
"""Limit for one request of it."""
