"""The flush at the end of a transaction: until nothing of it waits, not even in a caller's hand."""

from __future__ import annotations

import asyncio
from typing import Protocol

from penstock.client.producer.accumulator import Accumulator
from penstock.client.producer.future import when_done

TURN_SECONDS = 0.001
"""The time after which a batch in a caller's hand is looked at again."""


class Wakes(Protocol):
    """The sender."""

    def wake(self) -> None: ...


async def flush_whole(accumulator: Accumulator, sender: Wakes) -> None:
    """Flushes until no batch waits, not even an empty one in a caller's hand: nothing of this transaction may be sent
    in the next one. Runs on the sender's loop."""
    accumulator.barrier()
    with accumulator.flush():
        while not accumulator.partitions.is_idle:
            sender.wake()
            waiting = accumulator.partitions.unfinished()
            for batch in waiting:
                if not batch.done:
                    await when_done(batch)
            if not waiting:
                await asyncio.sleep(TURN_SECONDS)
