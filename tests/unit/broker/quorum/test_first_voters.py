"""The voters with which a dynamic quorum begins are read as they were written, and never guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.quorum.first_voters import beginning_of, read_first_voters, write_first_voters
from penstock.errors import CorruptFileError, InvariantViolation
from penstock.types import Endpoint, ListenerEndpoint
from raft.voters import NO_VOTERS, Voter, VoterSet
from storage.disk.file_names import FIRST_VOTERS
from storage.disk.file_system import OsFileSystem
from storage.disk.sealed_text import seal_json
from tests.support.voters import voters_at

FS = OsFileSystem()
AT = (ListenerEndpoint("CONTROLLER", Endpoint("::1", 9193)),)
VOTERS = VoterSet((Voter(1, "one-one-one-one-one-oA", AT), Voter(7, "two-two-two-two-two-tA", AT)))


def test_the_first_voters_are_read_as_they_were_written(tmp_path: Path) -> None:
    write_first_voters(FS, str(tmp_path), VOTERS)
    assert read_first_voters(FS, str(tmp_path)) == VOTERS
    assert beginning_of(FS, str(tmp_path), voters_at(1)) == VOTERS, "what the file of the node names does not count"


def test_a_node_that_joins_begins_without_voters_whatever_its_configuration_names(tmp_path: Path) -> None:
    write_first_voters(FS, str(tmp_path), NO_VOTERS)
    assert read_first_voters(FS, str(tmp_path)) == NO_VOTERS
    assert beginning_of(FS, str(tmp_path), voters_at(1, 2)) == NO_VOTERS


def test_a_dir_of_a_static_quorum_has_no_such_file_and_begins_with_the_configured_voters(tmp_path: Path) -> None:
    assert read_first_voters(FS, str(tmp_path)) is None
    assert beginning_of(FS, str(tmp_path), voters_at(1, 2)) == voters_at(1, 2)


def test_a_voter_without_directory_id_is_never_written(tmp_path: Path) -> None:
    with pytest.raises(InvariantViolation, match="voter 1 has no directory id"):
        write_first_voters(FS, str(tmp_path), voters_at(1))
    assert read_first_voters(FS, str(tmp_path)) is None


@pytest.mark.parametrize(
    "content",
    [
        b"\xff",
        b"{",
        b'{"records": [], "data_version": 1}\n',
        seal_json({"records": [], "data_version": 2}),
        seal_json({"records": {}, "data_version": 1}),
        seal_json({"records": ["{}"], "data_version": 1}),
        seal_json({"records": [7], "data_version": 1}),
        seal_json({"records": ['{"type":"Voters","version":0,"voters":[]}'], "data_version": 1}),
        seal_json({"records": ['{"type":"Voters","version":1,"voters":[]}'], "data_version": 1}),
        seal_json({"records": ["{}", "{}"], "data_version": 1}),
    ],
    ids=str,
)
def test_a_damaged_file_is_refused_by_its_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FIRST_VOTERS).write_bytes(content)
    with pytest.raises(CorruptFileError, match=f"{FIRST_VOTERS}.*format the dir anew with --join"):
        read_first_voters(FS, str(tmp_path))


def test_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    write_first_voters(FS, str(tmp_path), VOTERS)
    path = tmp_path / FIRST_VOTERS
    whole = path.read_bytes()
    for at in range(len(whole) - 1):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(CorruptFileError):
            read_first_voters(FS, str(tmp_path))
