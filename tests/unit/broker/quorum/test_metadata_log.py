"""The quorum-state file: a vote is never read back as another one."""

from __future__ import annotations

import json

import pytest

from broker.quorum.metadata_log import QuorumStateFile
from penstock.errors import CorruptFileError
from raft.quorum_state import EPOCH_JUMP_MAX, EPOCH_MAX, ElectionState
from tests.support.losing_fs import LosingFileSystem

STATE = ElectionState(7, 1, 2)
PATH = "/d/quorum-state"


@pytest.fixture
def fs() -> LosingFileSystem:
    fs = LosingFileSystem()
    fs.mkdir("/d")
    return fs


def put(fs: LosingFileSystem, content: bytes) -> None:
    fd = fs.open(PATH, create=not fs.exists(PATH))
    fs.truncate(fd, 0)
    fs.pwritev(fd, [content], 0)
    fs.close(fd)


def test_what_was_saved_is_loaded_also_after_a_crash(fs: LosingFileSystem) -> None:
    assert QuorumStateFile("/d", fs).load() is None
    fs.fsync_dir("/")
    QuorumStateFile("/d", fs).save(STATE)

    assert QuorumStateFile("/d", fs.after_crash()).load() == STATE


def test_the_disk_that_got_the_vote_is_remembered(fs: LosingFileSystem) -> None:
    voted = ElectionState(7, -1, 2, voted_directory_id="disk-b")
    QuorumStateFile("/d", fs).save(voted)
    assert QuorumStateFile("/d", fs).load() == voted


def test_a_file_of_an_older_release_is_loaded(fs: LosingFileSystem) -> None:
    put(fs, b'{"leaderId": 1, "leaderEpoch": 7, "votedId": 2, "data_version": 1}')

    assert QuorumStateFile("/d", fs).load() == STATE


def test_no_flipped_bit_and_no_cut_changes_a_vote(fs: LosingFileSystem) -> None:
    QuorumStateFile("/d", fs).save(STATE)
    content = fs.read_file(PATH)
    damaged = [content[:size] for size in range(len(content) - 1)]
    damaged += [
        content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
        for at in range(len(content) - 1)
        for bit in range(8)
    ]
    for raw in damaged:
        put(fs, raw)
        with pytest.raises(CorruptFileError, match=rf"{PATH}.*where other voters are a majority, move it away"):
            QuorumStateFile("/d", fs).load()

    assert len(damaged) == 9 * (len(content) - 1)


def test_epochs_that_are_used_up_are_refused_with_the_remedy(fs: LosingFileSystem) -> None:
    QuorumStateFile("/d", fs).save(ElectionState(EPOCH_MAX - EPOCH_JUMP_MAX))
    assert QuorumStateFile("/d", fs).load() is not None
    QuorumStateFile("/d", fs).save(ElectionState(2**31 - 3))
    with pytest.raises(CorruptFileError, match=r"quorum-state: .*no room for elections; see `Epochs that are used up`"):
        QuorumStateFile("/d", fs).load()


@pytest.mark.parametrize(
    "fields",
    [
        {"leaderId": 1, "leaderEpoch": 7, "votedId": 2},
        {"leaderId": 1, "leaderEpoch": "7", "votedId": 2, "data_version": 1},
        {"leaderId": 1, "leaderEpoch": 7, "votedId": 2, "data_version": 2},
        {"leaderId": 1, "leaderEpoch": 7, "votedId": 2, "data_version": 1, "more": 1},
        [],
    ],
)
def test_what_is_no_quorum_state_is_refused(fs: LosingFileSystem, fields: object) -> None:
    put(fs, json.dumps(fields).encode())

    with pytest.raises(CorruptFileError, match=PATH):
        QuorumStateFile("/d", fs).load()
