"""A voter that is left: which dir is one, and how many lost voters it takes to be a majority with it."""

from __future__ import annotations

import pytest

from broker.node.commands.survivor import METADATA_DIRECTORY, copy_tree, read_survivor, votes_without_memory
from broker.quorum.first_voters import write_first_voters
from broker.quorum.metadata_log import QuorumStateFile
from penstock.errors import ConfigError
from raft.quorum_state import ElectionState
from storage.log_dirs.meta_properties import DYNAMIC_VOTERS, format_directory
from tests.support.losing_fs import LosingFileSystem
from tests.support.voters import disk_of, voters_of, voters_on_disks

CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
LEFT = "/left"


def machine() -> LosingFileSystem:
    """With the metadata log dir of voter 0 of three, which has not heard of a leader yet."""
    fs = LosingFileSystem()
    voters = voters_on_disks(0, 1, 2)
    format_directory(
        fs, LEFT, CLUSTER, 0, disk_of(0), version=DYNAMIC_VOTERS, prepare=lambda: write_first_voters(fs, LEFT, voters)
    )
    fs.mkdir(f"{LEFT}/{METADATA_DIRECTORY}")
    QuorumStateFile(f"{LEFT}/{METADATA_DIRECTORY}", fs).save(ElectionState(epoch=7))
    return fs


@pytest.mark.parametrize(
    ("voters", "lost", "found"),
    [
        ((1, 2, 3), (2, 3), (2,)),
        ((1, 2, 3), (1, 2, 3), (1, 2)),
        ((1, 2, 3, 4, 5), (2, 4, 5), (2,)),
        ((1, 2, 3, 4, 5), (1, 2, 4, 5), (1, 2)),
        ((1, 2, 3), (3,), ()),
    ],
)
def test_as_many_vote_without_memory_as_a_majority_lacks(
    voters: tuple[int, ...], lost: tuple[int, ...], found: tuple[int, ...]
) -> None:
    first = voters_of(*voters)
    assert votes_without_memory(first, lost) == found
    assert len(found) < first.majority or len(lost) == len(voters)


def test_the_voters_are_those_of_the_beginning_until_the_log_names_some() -> None:
    found = read_survivor(machine(), f"{LEFT}/", 1)
    assert (found.directory, found.cluster_id, found.node_id, found.epoch) == (LEFT, CLUSTER, 0, 7)
    assert (found.directory_id, found.voters) == (disk_of(0), voters_on_disks(0, 1, 2))
    assert found.registered_log_dirs == () and not found.hosted


def test_a_directory_that_is_no_controllers_is_named() -> None:
    fs = machine()
    fs.mkdir("/1")
    with pytest.raises(ConfigError, match="--from /1: must be the metadata log dir of a controller that is left"):
        read_survivor(fs, "/1", 1)
    fs.unlink(f"{LEFT}/__cluster_metadata-0/quorum-state")
    with pytest.raises(ConfigError, match="no quorum-state, so it is not a controller's"):
        read_survivor(fs, LEFT, 1)


def test_a_copy_is_whole_or_not_there() -> None:
    fs = machine()
    source, target = f"{LEFT}/{METADATA_DIRECTORY}", "/copy"
    fs.mkdir(f"{target}.part")
    copy_tree(fs, source, target)
    found = fs.after_crash()
    assert found.listdir(target) == fs.listdir(source) and not found.exists(f"{target}.part")
