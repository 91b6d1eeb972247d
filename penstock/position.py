"""A place in one partition that can be kept, and is refused where it is not true any more: `Position`.

An offset alone is valid in every topic of that name. A topic that was deleted and made anew has other records at the
same offsets, so a kept offset would skip or repeat records without a word. A position names the topic by its id, and
the leader epoch of the record before it, by which a log that was truncated is noticed (KIP-320). Pure.
"""

from __future__ import annotations

from penstock.lazy_dataclass import dataclass
from penstock.types import NO_EPOCH

MAX_OFFSET = 2**63 - 1
MAX_EPOCH = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Position:
    """The place where reading goes on: the record at `offset`, or the first one after it, of the topic with this id.

    `leader_epoch` is that of the record before it, or -1. `str(position)` is a text, `Position.parse(text)` makes the
    same position of it. A position compares with an offset, and their difference is a number of offsets:
    `consumer.position(tp) < end`, `end - consumer.position(tp)`, `int(consumer.position(tp))`.
    """

    topic_id: str
    offset: int
    leader_epoch: int = NO_EPOCH

    def __post_init__(self) -> None:
        if not isinstance(self.topic_id, str) or type(self.offset) is not int or type(self.leader_epoch) is not int:
            raise TypeError(
                f"Position({self.topic_id!r}, {self.offset!r}, {self.leader_epoch!r}): the id is a str, offset and"
                " leader epoch are ints"
            )
        if not 0 <= self.offset <= MAX_OFFSET or not NO_EPOCH <= self.leader_epoch <= MAX_EPOCH:
            raise ValueError(
                f"Position({self.topic_id!r}, {self.offset}, {self.leader_epoch}): the offset must be from 0 to"
                f" {MAX_OFFSET}, the leader epoch from {NO_EPOCH} to {MAX_EPOCH}"
            )

    @classmethod
    def parse(cls, text: str) -> Position:
        """The position of a text that `str(position)` made; ValueError for any other."""
        if not isinstance(text, str):
            raise TypeError(f"a position is parsed of its text, not of {type(text).__name__}")
        topic_id, *numbers = text.rsplit(":", 2)
        try:
            offset, leader_epoch = map(int, numbers)
            found = cls(topic_id, offset, leader_epoch)
        except ValueError:
            found = None
        if found is None or not topic_id or str(found) != text:
            raise ValueError(f"{text!r} is no position; one is written as topic id:offset:leader epoch")
        return found

    def __str__(self) -> str:
        return f"{self.topic_id}:{self.offset}:{self.leader_epoch}"

    def __int__(self) -> int:
        return self.offset

    __index__ = __int__

    def _number(self, other: object) -> int | None:
        """The number to compare with the offset; None where nothing can be compared."""
        if isinstance(other, Position):
            return other.offset if other.topic_id == self.topic_id else None
        return other if isinstance(other, int) else None

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Position):
            return (self.topic_id, self.offset, self.leader_epoch) == (other.topic_id, other.offset, other.leader_epoch)
        return self.offset == other if isinstance(other, int) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.offset)

    def __lt__(self, other: Position | int) -> bool:
        number = self._number(other)
        return NotImplemented if number is None else self.offset < number

    def __le__(self, other: Position | int) -> bool:
        number = self._number(other)
        return NotImplemented if number is None else self.offset <= number

    def __gt__(self, other: Position | int) -> bool:
        number = self._number(other)
        return NotImplemented if number is None else self.offset > number

    def __ge__(self, other: Position | int) -> bool:
        number = self._number(other)
        return NotImplemented if number is None else self.offset >= number

    def __sub__(self, other: Position | int) -> int:
        number = self._number(other)
        return NotImplemented if number is None else self.offset - number

    def __rsub__(self, other: int) -> int:
        return other - self.offset if isinstance(other, int) else NotImplemented
