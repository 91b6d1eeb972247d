"""Promises of a member whose group begins at the ends of its topics. In virtual time.

`process` tells its user what is skipped so. Not here: that warning (test_record_processor.py).
"""

from __future__ import annotations

from typing import Any

from penstock import TopicPartition
from tests.support.group_stage import GroupStage, played

T = [TopicPartition("t", number) for number in range(4)]


def test_a_member_knows_where_its_group_has_skipped_what_is_there() -> None:
    """`process` warns of such partitions: its user may have forgotten the option."""

    async def story(stage: GroupStage) -> None:
        def skipping(member: Any) -> list[TopicPartition]:
            return [tp for tp, state in member._core.positions.states.items() if state.skips_what_is_there]

        first = await stage.member(auto_offset_reset="latest", enable_auto_commit=False)
        assert skipping(first) == []
        assert await stage.settle(first) == [0]
        assert sorted(skipping(first)) == T
        await first.seek(T[1], 0)
        assert T[1] not in skipping(first), "the user has said where"
        await first.commit()
        await first.close()
        second = await stage.member(auto_offset_reset="latest", enable_auto_commit=False)
        await stage.settle(second)
        assert len(second.assignment()) == 4 and skipping(second) == []
        await second.close()
        third = await stage.member(group_id="other")
        await stage.settle(third)
        assert skipping(third) == [], "it reads from the first record on"

    played(story)
