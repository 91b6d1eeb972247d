"""What the active controller's log says of elections: partitions that lost their leader and why, and unclean elections.

A broker that dies may take the leaders of thousands of partitions with it: of each kind the first few are named, the
others are counted. An ordinary change of leader is not worth a line.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from metadata.controller.state import LeaderChange
from metadata.offline import offline_reason, offline_text

log = logging.getLogger(__name__)

NAMED_MAX = 5


def say_leader_changes(changes: Sequence[LeaderChange], is_active: Callable[[int], bool]) -> None:
    """One line for each that a person should know of, up to a limit; `is_active` is as it is after them."""
    unclean = [change for change in changes if change.is_unclean]
    for change in unclean[:NAMED_MAX]:
        log.error(
            "unclean election: %s-%d is led by broker %d, which was not in sync: acked records may be lost",
            change.topic,
            change.after.partition,
            change.after.leader_id,
        )
    offline = [change for change in changes if not change.after.has_leader]
    for change in offline[:NAMED_MAX]:
        reason = offline_reason(change.after, is_active)
        if reason is not None:
            log.warning("%s-%d has %s", change.topic, change.after.partition, offline_text(change.after, reason))
    for what, found in (("unclean elections", unclean), ("partitions without a leader", offline)):
        if len(found) > NAMED_MAX:
            log.warning("and %d more %s", len(found) - NAMED_MAX, what)
