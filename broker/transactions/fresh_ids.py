"""Producer ids that nobody has: a core that needs one says so, and gets the same request again with one.

    ticket ◄── NEEDS_PRODUCER_ID          the core has decided nothing yet
    shard  ◄── WithProducerId(request, a producer id that was never given)

A new transactional id needs one, and a producer whose epochs are used up (InitProducerId, and EndTxn of transaction
version 2). An id that turns out to be needless the second time is lost, as any that was not used. A driver may
hand one in at once. Not here: the ids (broker/producer_ids/).
"""

from __future__ import annotations

from typing import Any, Final

from penstock.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class NeedsProducerId:
    """The answer to a request that must be submitted again, as `WithProducerId`."""


NEEDS_PRODUCER_ID: Final = NeedsProducerId()


@dataclass(frozen=True, slots=True)
class WithProducerId:
    """A request, and a fresh id for it."""

    request: Any
    producer_id: int
