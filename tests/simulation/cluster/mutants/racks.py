"""Mistakes about consumers that read at followers (KIP-392): of leaders, of followers, and of readers (I95, I96)."""

from __future__ import annotations

from broker.apis.fetch_sessions.session_reads import SessionReads
from broker.replication.partition import Partition
from broker.replication.read_replicas import ReadReplicas
from penstock.client.consumer.fetching.fetcher import Fetcher
from penstock.client.consumer.fetching.partition_state import PartitionState
from penstock.client.consumer.fetching.positions import Positions
from penstock.client.consumer.fetching.read_place import ReadPlace
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.stories import LATE_WEATHER, directed, with_parts
from tests.simulation.cluster.mutants.transactions import transacted
from tests.simulation.cluster.plan import Aim, Fault, Kind, ReaderPlan
from tests.simulation.cluster.racks.rack_plan import RackPlan

RACKS = RackPlan(("", "rack-1", "rack-2", "rack-3"), (False, True, True, True), ("rack-1", "rack-2", "rack-3"))
"""A controller, and a broker in each rack."""
READERS = (ReaderPlan("topic-0", 0.01),) * 6
CALM = with_parts(directed(readers=READERS, sync_seconds=0.02), racks=RACKS)
SLOW = with_parts(
    directed(
        *(Fault(0.8 + 1.1 * n, Kind.SLOW_DISK, 1 + n % 3, 0, 1.5, 0.9, Aim.FOLLOWER) for n in range(4)),
        readers=READERS,
    ),
    racks=RACKS,
)
"""Followers fall behind and leave the ISR, but go on fetching."""
CUT = with_parts(
    directed(
        *(Fault(1.0 + 1.5 * n, Kind.CUT, 1 + n % 3, 1 + (n + 1) % 3, 1.0, 0.5) for n in range(3)),
        readers=READERS,
        replica_lag_time_max_ms=300,
    ),
    racks=RACKS,
)
"""Followers cannot reach their leader, and their clients reach both."""
HANGS = with_parts(
    directed(Fault(1.5, Kind.PAUSE, 1, 0, 9.0, 0.5, Aim.FOLLOWER), readers=READERS, seconds=9.0),
    racks=RACKS,
)
"""A follower stands still for long."""
LATE = with_parts(directed(readers=READERS, weather=LATE_WEATHER, seconds=8.0, tellings=8), racks=RACKS)
"""Messages come late: also what a follower hears of its leader's high watermark, and what its readers hear of it."""
TRANSACTIONS = with_parts(transacted(), racks=RACKS)

FOLLOWER_READS = (
    Mutant(
        "a follower serves beyond its high watermark",
        "KIP-392",
        (
            Edit(
                Partition.read,
                "bound = readable_end(self.log, self.high_watermark,",
                "bound = readable_end(self.log, self.high_watermark if self.leading else self.log.log_end_offset,",
            ),
        ),
        (Kind.PAUSE, Kind.CUT),
        stories=CALM + CUT,
    ),
    Mutant(
        "a replica that has left the ISR is named",
        "KIP-392, KAFKA-9731",
        (Edit(ReadReplicas._views, "for member in leading.certain_isr:", "for member in leading.followers:"),),
        (Kind.SLOW_DISK, Kind.HUNG_DISK),
        stories=SLOW + CUT,
    ),
    Mutant(
        "a follower that has left the ISR goes on serving",
        "own fault list",
        (Edit(Partition.must_be_in_sync, "if self.broker_id not in self.state.isr:", "if False:"),),
        (Kind.SLOW_DISK, Kind.CUT),
        stories=CUT + SLOW,
    ),
    Mutant(
        "a reader stays at a follower that hangs",
        "own fault list",
        (
            Edit(Fetcher.on_silent, "self._leave_follower(node_id)", "pass"),
            Edit(
                Positions._check_follower, "if follower is not None and", "if True:\n        return []\n    if"
            ),  # metadata, too
        ),
        (Kind.PAUSE,),
        stories=HANGS,
    ),
    Mutant(
        "a reader is not told to go back to a follower that is named again when its time was over",
        "own attack: it stood still after metadata_max_age_ms",
        (Edit(ReadPlace.named, "there is not None and there.until_ms > now_ms and", "there is not None and"),),
        stories=CALM,
    ),
    Mutant(
        "a follower does not tell of aborted transactions",
        "KIP-392: read_committed",
        (Edit(SessionReads.read, "if size and self.read_committed:", "if size and leading and self.read_committed:"),),
        stories=TRANSACTIONS,
    ),
    Mutant(
        "a reader is shown what its follower knows",
        "KIP-392: a follower's high watermark is behind its leader's",
        (Edit(PartitionState.note_end, "if self.asked_epoch > self.readable_end_epoch", "if True"),),
        (Kind.STORM, Kind.CUT),
        stories=LATE,
    ),
)
