"""The consequences of an answer to a fetch: positions.py decides them, fetcher.py performs them, reader.py hands them
over."""

from __future__ import annotations

from penstock.client.consumer.origin import NO_ORIGIN, Origin
from penstock.errors import PenstockError
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Deliver:
    """Whole batches that hold the records from `from_offset` to before `next_offset`; they may begin below and end
    above, where the cleaner has stretched a batch: decode exactly from `from_offset`."""

    topic_partition: TopicPartition
    generation: int
    records: bytes
    from_offset: int
    next_offset: int
    origin: Origin = NO_ORIGIN


@dataclass(frozen=True, slots=True)
class ReportError:
    """An error that the next poll raises."""

    topic_partition: TopicPartition
    generation: int
    error: PenstockError


@dataclass(frozen=True, slots=True)
class FindLeader:
    """The metadata may be wrong. `hinted`: the answer itself named the leader, so asking is not needed."""

    hinted: bool


@dataclass(frozen=True, slots=True)
class LookUpReset:
    """The partition's position is to be looked up; `why` is for the log."""

    topic_partition: TopicPartition
    why: str


@dataclass(frozen=True, slots=True)
class ReadElsewhere:
    """The partition is read at another node from now on: at a follower, or at its leader again."""

    topic_partition: TopicPartition
    is_at_follower: bool


Effect = Deliver | ReportError | FindLeader | LookUpReset | ReadElsewhere
