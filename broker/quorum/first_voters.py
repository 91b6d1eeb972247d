"""The voters with which a dynamic quorum begins, beside the metadata log of each controller that was formatted for one.

    first-voters    {"records": ["{\\"type\\":\\"Voters\\",…}"], "data_version": 1, "crc32c": …}

Written once, by `penstock node format`: `--standalone` names this node alone, `--initial-controllers` those of its
list. `--join` writes no record: the node belongs to a quorum whose voters it learns from the metadata log. The set
counts until the log names voters (raft/voter_records.py). From then on the file means only that this disk was never one
of a static quorum, so `controller.quorum.voters` in the configuration does not count on it.

Not here: how the options of the command are read (broker/node/commands/format.py), and which promises a
voter has lost (voter_memory.py).
"""

from __future__ import annotations

from typing import Final

from penstock.errors import CorruptFileError, CorruptMessageError
from raft.voter_records import voters_of_value, voters_value
from raft.voters import NO_VOTERS, VoterSet
from storage.disk.atomic_file import read_text, write_atomically
from storage.disk.file_names import FIRST_VOTERS
from storage.disk.file_system import FileSystem
from storage.disk.sealed_text import seal_json, unseal_json
from storage.log_dirs.meta_properties import DYNAMIC_VOTERS

VERSION: Final = 1


def write_first_voters(fs: FileSystem, metadata_log_dir: str, voters: VoterSet) -> None:
    """Every voter has its directory id; no voter: this node joins a quorum that there is."""
    records = [voters_value(voters).decode()] if voters.voters else []
    content = seal_json({"records": records, "data_version": VERSION})
    write_atomically(fs, f"{metadata_log_dir}/{FIRST_VOTERS}", content)


def read_first_voters(fs: FileSystem, metadata_log_dir: str) -> VoterSet | None:
    """The set that was written, which has no voter on a node that joins; None without the file: the quorum was static
    when the dir was formatted, or the node is no controller. CorruptFileError for a damaged file."""
    path = f"{metadata_log_dir}/{FIRST_VOTERS}"
    try:
        text = read_text(fs, path)
        return None if text is None else _voters(path, text)
    except CorruptFileError as damage:
        raise CorruptFileError(path, damage.position, f"{damage.why}; {_REMEDY}") from damage


def _voters(path: str, text: str) -> VoterSet:
    found, is_sealed = unseal_json(path, text)
    records = found.get("records")
    if not is_sealed or found.get("data_version") != VERSION or not isinstance(records, list) or len(records) > 1:
        raise CorruptFileError(path, 0, f"not of data_version {VERSION}, or without its checksum")
    try:
        return voters_of_value(str(records[0]).encode()) if records else NO_VOTERS
    except CorruptMessageError as error:
        raise CorruptFileError(path, 0, str(error)) from error


def beginning_of(
    fs: FileSystem, metadata_log_dir: str, configured: VoterSet, version: int = DYNAMIC_VOTERS
) -> VoterSet:
    """The voters at the beginning of a controller's log: those of the file where the dir was formatted for a dynamic
    quorum, or else those of the configuration. A record of the log, or a snapshot, goes before both. A dir of a lower
    `version` has no such file, and nothing is read."""
    written = read_first_voters(fs, metadata_log_dir) if version >= DYNAMIC_VOTERS else None
    return configured if written is None else written


_REMEDY: Final = (
    "restore the file from a backup, or, where other voters are a majority, format the dir anew with --join"
)
