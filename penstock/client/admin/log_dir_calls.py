"""The calls of Admin about log dirs, as its faces have them. Not here: what is asked (log_dirs.py)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.client.admin import log_dirs
from penstock.client.admin.admin_core import AdminCore
from penstock.client.admin.log_dirs import BrokerLogDirs
from penstock.errors import ApiError
from penstock.types import TopicPartition


class LogDirCalls:
    """The calls about log dirs, over the connections of one admin client."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core

    async def describe_log_dirs(
        self, broker_ids: Iterable[int] | None = None, topics: Iterable[str] = ()
    ) -> dict[int, BrokerLogDirs]:
        """The contents of brokers' log dirs: of these brokers, or of all; of these topics, or of all."""
        wanted, named = log_dirs.checked_choice(broker_ids, topics)
        return await log_dirs.describe_log_dirs(self._core.cluster, wanted, named, await self._core.begin())

    async def alter_replica_log_dirs(
        self, broker_id: int, wanted: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, ApiError | None]:
        """Has a broker move replicas that it has to other log dirs of its own, given by their paths there.

        Each replica's error, or None: its move has begun and goes on by itself, also after a restart of the broker.
        `describe_log_dirs` tells how far it is. A replica that is in that log dir stays; a move of it ends.
        """
        wanted = log_dirs.checked_moves(broker_id, wanted)
        return await log_dirs.alter_replica_log_dirs(self._core.cluster, broker_id, wanted, await self._core.begin())
