"""The names that a topic may have: exactly Kafka's rule, because a name becomes the name of a directory on every
replica.

`.` and `_` are both allowed but collide: metric names turn dots into underscores, so `a.b` and `a_b` could not be told
apart (Kafka, `Topic.hasCollision`). The names of the cluster's own topics are here, because no pattern means them, at
a broker or in a client; what each is for is in `metadata/internal_topics.py`. The quorum's log is no topic, so its name
is refused: a client does not ask for it.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import InvalidTopicError
from penstock.types import METADATA_TOPIC

MAX_NAME_LENGTH: Final = 249
"""Kafka's. With a dash and a number of up to five digits, a partition's directory has at most 255 bytes: a file
system's limit. The names of directories that are set aside are cut (`set_aside_directory` in storage)."""
CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
INTERNAL_NAMES: Final = frozenset((METADATA_TOPIC, CONSUMER_OFFSETS, TRANSACTION_STATE))
"""A subscription to a pattern leaves them out, as Kafka's consumers do. Read by name they are topics like others."""
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")
_SHOWN_CHARACTERS: Final = 64


def validate_topic_name(name: str) -> None:
    """Raises InvalidTopicError with the rule that the name breaks."""
    why = _fault(name)
    if why is not None:
        shown = name if len(name) <= _SHOWN_CHARACTERS else name[:_SHOWN_CHARACTERS] + "…"
        raise InvalidTopicError(f"topic name {shown!r} {why}")


def reading_order(name: str) -> tuple[bool, str]:
    """A key to sort topics by where only the first of many are named: the cluster's own ones come last."""
    return name in INTERNAL_NAMES, name


def collision_key(name: str) -> str:
    """Two different names with the same key cannot both exist."""
    return name.replace(".", "_")


def _fault(name: str) -> str | None:
    if not name:
        return "is empty"
    if name in (".", ".."):
        return "is the name of a directory"
    if len(name) > MAX_NAME_LENGTH:
        return f"has {len(name)} characters; at most {MAX_NAME_LENGTH} are allowed"
    if not _LEGAL.fullmatch(name):
        return "has other characters than ASCII letters and digits, '.', '_' and '-'"
    if name == METADATA_TOPIC:
        return "is reserved for the quorum's own log"
    return None
