"""A replica whose segment can take no more refuses appends until its disk answers, and goes on by itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.errors import KafkaStorageError
from storage.log import segment_roll
from tests.support.storage import NOW_MS, batch
from tests.support.two_log_dirs import OLD, ORDERS, OTHER, OTHERS, WAIT_S, hangs, run, started


def test_a_refused_append_has_the_segment_rolled_though_nothing_is_to_be_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            partition = broker.replicas.get(ORDERS, OLD)
            monkeypatch.setattr(partition.log._writer, "_rolls_when_flushed", True)
            await broker.produce(ORDERS, OLD)
            monkeypatch.setattr(segment_roll, "MAX_RELATIVE_OFFSET", 1)
            monkeypatch.setattr(segment_roll, "ROOM_OFFSETS", 0)
            with hangs(broker.fs, "fsync_dir", "/a"):
                for _ in range(3):
                    with pytest.raises(KafkaStorageError, match="the broker goes on by itself"):
                        partition.append_as_leader(batch(b"late"), 1, 0, NOW_MS)
                await broker.produce(OTHER, OTHERS)
                assert broker.replicas.refused.statistics().partitions == 1 and partition.offline is None
            async with asyncio.timeout(WAIT_S):
                while partition.log.awaits_roll:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
            partition.append_as_leader(batch(b"late"), 1, 0, NOW_MS)
            assert [segment.base_offset for segment in partition.log.segments] == [0, 1]

    run(scenario)
