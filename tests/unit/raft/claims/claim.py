"""The claims of a paper or a KIP about the quorum, and the tests that prove them here.

One table for each source: figure_2.py, kip_595.py, kip_996.py. The words of a claim are ours and use Kafka's
vocabulary: epoch for term, record for entry, offset for index. A claim that does not hold here by design says in
`instead` what holds; its tests prove that.
"""

from __future__ import annotations

from dataclasses import dataclass

ELECTION = "tests/unit/raft/test_election.py"
STATES = "tests/unit/raft/test_quorum_state.py"
REPLICATION = "tests/unit/raft/test_replication.py"
VALIDATION = "tests/unit/raft/test_validation.py"
REJOINING = "tests/unit/raft/test_rejoining.py"
DRIVER = "tests/unit/raft/driver/test_driver.py"
ORDER = "tests/unit/raft/driver/test_driver_order.py"
EPOCHS = "tests/unit/penstock/test_epochs.py"
TRACES = "tests/trace/raft/test_traces.py"
PAPER = "tests/trace/raft/test_paper.py"
FIGURE_2 = "tests/unit/raft/claims/test_figure_2.py"
KIP_595 = "tests/unit/raft/claims/test_kip_595.py"
KIP_996 = "tests/unit/raft/claims/test_kip_996.py"


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim: where it stands, what it says, and the tests, each as `file::function`."""

    place: str
    says: str
    tests: tuple[str, ...]
    instead: str = ""


def figure(name: str) -> str:
    """The transcript of a figure of the paper, as a test."""
    return f"{PAPER}::test_transcript_is_as_reviewed[{name}]"


def scene(name: str) -> str:
    """The transcript of this name, as a test."""
    return f"{TRACES}::test_transcript_is_as_reviewed[{name}]"
