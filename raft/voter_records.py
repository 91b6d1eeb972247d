"""The record of the log that names the voters: how it is written, and how it is found in batches.

    {"type": "Voters", "version": 0, "voters": [{"voter_id", "directory_id", "endpoints": [{"name", "host", "port"}]}]}

A JSON value among the metadata's, as LeaderChange is, with a beginning of its own, by which a batch without one is told
from the bytes alone. In other values those bytes cannot stand at a value's beginning, and a match elsewhere is decided
by reading the batch. Only the leader writes it (KIP-853: VotersRecord; there a control record).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from penstock.errors import CorruptMessageError, InvariantViolation
from penstock.record.reader import read_columns
from penstock.types import Endpoint, ListenerEndpoint
from raft.voters import VOTERS_MAX, Voter, VoterSet

VOTERS: Final = "Voters"
"""The "type" of the record."""
VOTERS_VERSION: Final = 0
_BEGINNING: Final = b'{"type":"Voters",'


def voters_value(voters: VoterSet) -> bytes:
    """The record's value, for a set whose voters all have a directory id."""
    described = [_described(voter) for voter in voters.voters]
    return _BEGINNING + json.dumps({"version": VOTERS_VERSION, "voters": described}, separators=(",", ":")).encode()[1:]


def has_voters(records: bytes) -> bool:
    """False if no record of these batches names voters; seldom True for another reason."""
    return _BEGINNING in records


def voters_in(records: bytes) -> Iterator[tuple[int, VoterSet]]:
    """The offset and the voters of each such record in these whole batches. CorruptMessageError if one cannot be
    read."""
    if not has_voters(records):
        return
    columns = read_columns(records)
    for offset, value in zip(columns.offsets, columns.values, strict=True):
        if value is not None and value.startswith(_BEGINNING):
            yield offset, voters_of_value(bytes(value))


def voters_of_value(value: bytes) -> VoterSet:
    """The voters that a record's value names. CorruptMessageError if it names no voters, or is of a newer release."""
    try:
        document = json.loads(value)
        version, listed = document["version"], document["voters"]
        if version != VOTERS_VERSION:
            raise CorruptMessageError(
                f"Voters has version {version}, this node knows {VOTERS_VERSION}: upgrade this node"
            )
        if not 1 <= len(listed) <= VOTERS_MAX:
            raise CorruptMessageError(f"Voters names {len(listed)} voters; 1 to {VOTERS_MAX} are possible")
        return VoterSet(tuple(map(_voter, listed)))
    except (ValueError, TypeError, KeyError, AttributeError, InvariantViolation) as error:
        raise CorruptMessageError(f"Voters cannot be read: {error!r}") from error


def _described(voter: Voter) -> dict[str, Any]:
    if voter.directory_id is None:
        raise InvariantViolation(f"voter {voter.voter_id} has no directory id: a static set is not written to the log")
    endpoints = [{"name": at.name, "host": at.endpoint.host, "port": at.endpoint.port} for at in voter.endpoints]
    return {"voter_id": voter.voter_id, "directory_id": voter.directory_id, "endpoints": endpoints}


def _voter(document: Any) -> Voter:
    voter_id, directory_id = document["voter_id"], document["directory_id"]
    if type(voter_id) is not int or not isinstance(directory_id, str) or not directory_id:
        raise ValueError(f"voter {voter_id!r} with directory id {directory_id!r}")
    return Voter(voter_id, directory_id, tuple(map(_endpoint, document["endpoints"])))


def _endpoint(document: Any) -> ListenerEndpoint:
    name, host, port = document["name"], document["host"], document["port"]
    if not isinstance(name, str) or not isinstance(host, str) or type(port) is not int:
        raise ValueError(f"endpoint {name!r} at {host!r}:{port!r}")
    return ListenerEndpoint(name, Endpoint(host, port))
