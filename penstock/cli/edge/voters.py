"""Voters of the quorum as a user names them: `quorum describe` shows them so, and the other commands take them so.

    4@controller-4.example:9193:JEXY6aqzQY-32P5TStzaFg    id, address of its listener CONTROLLER, directory id
    4:JEXY6aqzQY-32P5TStzaFg                              the same voter, where no address is needed

The directory id is that of its metadata log dir: a voter is a disk, and the same id on another one is another voter.
Not here: which voters there are.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.errors import ConfigError
from penstock.written.numbers import INT32_MAX, parse_number

if TYPE_CHECKING:
    from penstock.messages.quorum import QuorumReplicaInfo

WITH_ADDRESS: Final = "ID@HOST:PORT:DIRECTORY_ID"
WITHOUT_ADDRESS: Final = "ID:DIRECTORY_ID"


class NamedVoter(NamedTuple):
    """A voter on the command line; `address` is "" where none was given."""

    voter_id: int
    directory_id: str
    address: str = ""

    def __str__(self) -> str:
        return f"{self.voter_id}{f'@{self.address}' if self.address else ''}:{self.directory_id}"


def parse_voter(text: str, *, needs_address: bool) -> NamedVoter:
    """The voter that was typed; ConfigError says which part is wrong."""
    form = WITH_ADDRESS if needs_address else WITHOUT_ADDRESS
    front, _, directory_id = text.rpartition(":")
    number, at, address = front.partition("@")
    voter_id = parse_number(number, INT32_MAX)
    if voter_id is None or not directory_id or (needs_address and not at) or (at and ":" not in address):
        raise ConfigError(f"{text!r} is no voter; write {form}, as `penstock quorum describe` shows it")
    return NamedVoter(voter_id, directory_id, address)


def voter_of_config(path: str) -> NamedVoter:
    """The node of this configuration file as a voter, by the file and by its metadata log dir."""
    from penstock.node import node_command

    command = node_command("voter", "--config", path, "--json")
    found = subprocess.run(command, capture_output=True, check=False)
    if found.returncode != 0:
        raise ConfigError(_message_of(found.stderr))
    answer = json.loads(found.stdout)
    return NamedVoter(answer["voter_id"], answer["directory_id"], answer["address"])


def shown_voter(replica: QuorumReplicaInfo) -> str:
    """A replica as it is named here; "-" where its disk is not known."""
    if not replica.directory_id:
        return "-"
    address = str(replica.endpoints[0].endpoint) if replica.endpoints else ""
    return str(NamedVoter(replica.node_id, replica.directory_id, address))


def _message_of(stderr: bytes) -> str:
    """The reason that the node's process gave; all that it wrote, where that is no error of its own."""
    text = stderr.decode(errors="replace").strip()
    try:
        return str(json.loads(text.splitlines()[-1])["error"]["message"])
    except (ValueError, KeyError, IndexError, TypeError):
        return text or "the process that reads the node's configuration failed, and said nothing"
