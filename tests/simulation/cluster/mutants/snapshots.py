"""Mistakes with snapshots of the metadata: what stands for the log's beginning is wrong, gone, or used twice."""

from __future__ import annotations

from broker.quorum import metadata_log_opening, metadata_log_start
from broker.quorum.metadata_loader import MetadataLoader
from broker.quorum.metadata_log import MetadataLog
from broker.quorum.metadata_snapshots import MetadataSnapshots
from metadata import image, snapshot
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.plan import Kind

CRASHES = (Kind.KILL, Kind.POWER, Kind.POWER_ALL)
BEHIND = (Kind.ISOLATE, Kind.PAUSE, Kind.REPLACE_DISK, Kind.RESTORE_COPY)

SNAPSHOTS = (
    Mutant(
        "a start does not load the snapshot",
        "I9",
        (
            Edit(
                metadata_log_start.find_beginning,
                "LogBeginning(tuple(kept), loaded, tuple(_voter_sets(log, loaded)))",
                "LogBeginning(tuple(kept))",
            ),
        ),
        CRASHES,
        is_replicated=None,
    ),
    Mutant(
        "a log that starts inside an epoch is cut",
        "this project's own",
        (Edit(metadata_log_opening._goes_on, "return any(", "return False and any("),),
        CRASHES,
        is_replicated=None,
    ),
    Mutant(
        "a snapshot is not synced before its log is cut",
        "Raft's own: what is cut must be durable elsewhere",
        (
            Edit(
                MetadataSnapshots.write,
                "write_atomically(self._fs, self.path(snapshot_id), data)",
                "fd = self._fs.open(self.path(snapshot_id), create=True);"
                " self._fs.pwritev(fd, [data], 0); self._fs.close(fd)",
            ),
        ),
        (Kind.POWER, Kind.POWER_ALL),
        is_replicated=None,
    ),
    Mutant(
        "a snapshot leaves out the producer ids",
        "I9",
        (Edit(image.image_records, "yield ProducerIdsRecord", "if False: yield ProducerIdsRecord"),),
        is_replicated=None,
    ),
    Mutant(
        "a snapshot has the newest offset and the records of before",
        "I9",
        (Edit(snapshot.snapshot_id_of, "image.offset + 1", "image.offset + 2"),),
        is_replicated=None,
    ),
    Mutant(
        "an installed snapshot leaves the old log in its place",
        "Raft's own: snapshot over a newer log",
        (
            Edit(
                MetadataLog.begin_after,
                "self._log.truncate_fully_and_start_at(snapshot.snapshot_id.end_offset)",
                "pass",
            ),
        ),
        BEHIND,
        is_replicated=None,
    ),
    Mutant(
        "publishers do not hear of an installed snapshot",
        "I8",
        (
            Edit(
                MetadataLoader.on_snapshot,
                "self._publish(MetadataDelta.between(self.image, image), image)",
                "self.image = image",
            ),
        ),
        (*BEHIND, *CRASHES),
        is_replicated=None,
    ),
    Mutant(
        "a log is cut behind the end of its oldest snapshot",
        "Raft's own: what is cut must be durable elsewhere",
        (
            Edit(
                MetadataLog.cut_prefix, "self._log.advance_log_start(offset)", "self._log.advance_log_start(offset + 1)"
            ),
        ),
        CRASHES,
        is_replicated=None,
    ),
)
