"""The settings of one node of the quorum: its id, the first voters, time-outs and limits.

Every key has Kafka's name where Kafka has one (`controller.quorum.*`). Values are checked here, once, so that the core
never meets a time-out of zero or an empty set of voters. Here is only the set with which a quorum begins: the quorum's
state owns the present one (`voters.py`), and nothing else reads this one while the core runs.
"""

from __future__ import annotations

from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from raft.voters import VOTERS_MAX, VoterSet

BATCH_MAX_BYTES = 1 << 20
"""The default of `batch_max_bytes`; the log under the quorum is configured by it."""


@dataclass(frozen=True, slots=True)
class RaftConfig:
    """Identity, first voters, time-outs (ms) and limits (bytes) of one node."""

    cluster_id: str
    node_id: int
    first_voters: VoterSet
    directory_id: str = ""
    """The id of this node's metadata log dir: in a dynamic set of voters a voter is this disk. "" in a static one."""
    bootstrap_ids: tuple[int, ...] = ()
    """The nodes that an observer asks for the leader besides the voters that it knows, by the transport's names for
    their addresses (`controller.quorum.bootstrap.servers`)."""
    incarnation_id: str = ""
    """Names this process to the leader from which it fetches; a process registers its broker by the same id."""
    supports: str = ""
    """The features that this node supports, as text. Each fetch tells it to the leader, which keeps it for those above
    the quorum."""
    election_timeout_ms: int = 1_000
    """A voter without a leader waits this long, times a random 1 to 2, before it asks for pre-votes."""
    fetch_timeout_ms: int = 2_000
    """A follower that could not fetch for this long looks for another leader; a leader resigns after 1.5 times this."""
    fetch_max_wait_ms: int = 500
    """A fetch without news stays parked on the leader this long; see `fetch_wait_ms`."""
    request_timeout_ms: int = 2_000
    """How long the driver waits for an answer, on top of the time that a fetch asks to be parked."""
    retry_backoff_ms: int = 50
    retry_backoff_max_ms: int = 1_000
    fetch_max_bytes: int = 1 << 20
    """Bytes in one fetch answer; below the 4 MiB that gRPC takes as one message. One batch is always sent."""
    batch_max_bytes: int = BATCH_MAX_BYTES
    """The largest batch one `propose` may make; the log under the quorum must accept it."""
    uncommitted_max_bytes: int = 16 << 20
    """Proposals beyond this are refused at once, so that a leader without followers stays small."""

    def __post_init__(self) -> None:
        if not self.cluster_id:
            raise ConfigError("cluster.id is empty; format the log dirs first")
        if self.node_id < 0:
            raise ConfigError(f"node.id is {self.node_id}; it must be 0 or more")
        count = len(self.first_voters)
        joins = self.directory_id and self.bootstrap_ids
        if not (0 if joins else 1) <= count <= VOTERS_MAX:
            raise ConfigError(f"controller.quorum.voters has {count} voters; 1 to {VOTERS_MAX} are possible")
        for key in _POSITIVE:
            if getattr(self, key) <= 0:
                raise ConfigError(f"{key} is {getattr(self, key)}; it must be above 0")
        if self.retry_backoff_max_ms < self.retry_backoff_ms:
            raise ConfigError("retry_backoff_max_ms is below retry_backoff_ms")

    @property
    def fetch_wait_ms(self) -> int:
        """How long this node asks to be parked: always well inside the fetch time-out, whatever was configured."""
        return max(1, min(self.fetch_max_wait_ms, self.fetch_timeout_ms // 3))

    @property
    def check_quorum_timeout_ms(self) -> int:
        """A leader resigns without fetches of a majority for this long. The factor 1.5 is Kafka's: followers wait for
        1.0, so they have given up on this leader by then, and it disturbs none of them."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_quorum_epoch_interval_ms(self) -> int:
        """A voter that has not fetched for this time is told again which node leads."""
        return max(1, self.fetch_timeout_ms // 2)


_POSITIVE = (
    "election_timeout_ms",
    "fetch_timeout_ms",
    "fetch_max_wait_ms",
    "request_timeout_ms",
    "retry_backoff_ms",
    "fetch_max_bytes",
    "batch_max_bytes",
    "uncommitted_max_bytes",
)
