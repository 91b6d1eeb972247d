"""The ids that a group may have."""

from __future__ import annotations

from typing import Final

from penstock.errors import InvalidGroupIdError

GROUP_ID_CHARACTERS_MAX: Final = 255
"""Kafka takes up to 32,767 bytes. An id is in the key of every record of its group, and in memory for each of them."""


def check_group_id(group_id: str) -> None:
    """InvalidGroupIdError if no group can have this id."""
    if not group_id:
        raise InvalidGroupIdError("the group id is empty; give the group a name")
    if len(group_id) > GROUP_ID_CHARACTERS_MAX:
        raise InvalidGroupIdError(
            f"the group id has {len(group_id)} characters, the limit is {GROUP_ID_CHARACTERS_MAX}; give the group a"
            " shorter name"
        )
