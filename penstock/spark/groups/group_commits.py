"""Commits where a stream stands to a consumer group, so that tools for lag see it.

The stream goes on by Spark's checkpoint, whatever the group says. So a commit that fails is told in the log, and ends
nothing; the next one comes COMMIT_PAUSE_S later. A micro-batch counts as done when Spark plans the next one, or asks
whether there is one: the last one too, as long as the query lives, and at the query's next start. One commit is under
way at a time. Not here: the calls (log_questions.py).
"""

from __future__ import annotations

import logging
import time
from dataclasses import field

from penstock.errors import PenstockError
from penstock.lazy_dataclass import dataclass
from penstock.spark.log_client import LogClient
from penstock.spark.positions import SourcePositions
from penstock.types import TopicPartition

COMMIT_PAUSE_S = 30.0
"""The pause after a failure, so that a group without a coordinator does not hold up every micro-batch."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class GroupCommits:
    """The commits of one stream; does nothing without a group. Spark pickles it with its reader."""

    group_id: str
    _committed: dict[TopicPartition, int] = field(default_factory=dict)
    _not_before_s: float = 0.0

    def note_done(self, client: LogClient, done: SourcePositions) -> None:
        """Everything before these positions is processed."""
        if not self.group_id or done.initial or time.monotonic() < self._not_before_s:
            return
        places = {tp: position.offset for tp, position in done.items()}
        if places == self._committed:
            return
        try:
            client.commit(self.group_id, done)
        except PenstockError as error:
            self._not_before_s = time.monotonic() + COMMIT_PAUSE_S
            _log.warning("the stream goes on, and its place was not committed to group %s: %s", self.group_id, error)
        else:
            self._committed = places
