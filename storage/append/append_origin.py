"""The origin of a leader's append: a client, or a coordinator of this broker's own.

It decides which batches a leader takes (header_check.py). A replica's batches come by `LogAppend.as_follower`, which
takes whatever its leader has taken.
"""

from __future__ import annotations

from enum import Enum


class AppendOrigin(Enum):
    PRODUCER = "a client"
    COORDINATOR = "a part of this broker that keeps its state in a log; it may write control batches (KIP-98)"


PRODUCER, COORDINATOR = AppendOrigin.PRODUCER, AppendOrigin.COORDINATOR
