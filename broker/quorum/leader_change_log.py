"""The log lines of the active controller about elections: partitions that lost their leader, and unclean elections.

A broker that dies may lead thousands of partitions: of each kind the first few are named, the others are counted. An
ordinary change of leader has no line. The lines are made with the decision, because a moment later the same brokers may
be in service again. They are written once the decision is committed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from metadata.controller.state import LeaderChange
from metadata.offline import InService, offline_reason, offline_text

NAMED_MAX = 5


class Line(NamedTuple):
    """One line, and how loud it is."""

    level: int
    text: str


def leader_change_lines(changes: Sequence[LeaderChange], cluster: InService) -> list[Line]:
    """One line for each that a person should know of, up to a limit; `cluster` is as it is after the decision."""
    unclean = [
        Line(
            logging.ERROR,
            f"unclean election: {change.topic}-{change.after.partition} is led by broker {change.after.leader_id},"
            " which was not in sync: acked records may be lost",
        )
        for change in changes
        if change.is_unclean
    ]
    offline = [
        Line(
            logging.WARNING,
            f"{change.topic}-{change.after.partition} has {offline_text(change.after, reason, cluster)}",
        )
        for change in changes
        if (reason := offline_reason(change.after, cluster)) is not None
    ]
    return [*_bounded(unclean, "unclean elections"), *_bounded(offline, "partitions without a leader")]


def _bounded(lines: list[Line], what: str) -> list[Line]:
    more = len(lines) - NAMED_MAX
    return lines if more <= 0 else [*lines[:NAMED_MAX], Line(lines[0].level, f"and {more} more {what}")]
