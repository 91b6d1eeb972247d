"""Gives raft a segmented log for its records, and a file for its votes: the only place where the two meet.

The metadata log is an ordinary log, `__cluster_metadata-0` in the metadata log dir; its quorum-state file stands in the
same directory. raft knows neither; it asks for the protocols in `raft/protocols.py`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from penstock.errors import CorruptFileError
from penstock.types import METADATA_TOPIC, EpochEntry, TopicPartition
from raft.quorum_state import ElectionState
from storage.atomic_file import read_text, write_atomically
from storage.file_system import FileSystem
from storage.log import Log
from storage.log_config import LogConfig

METADATA_PARTITION = TopicPartition(METADATA_TOPIC, 0)
METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
"""Kafka's well-known id of the metadata topic (KIP-516)."""
METADATA_BATCH_BYTES_MAX = 16 << 20
"""One decision is one batch: fencing a broker that leads every one of 100,000 partitions must fit."""
METADATA_LOG_CONFIG = LogConfig(max_message_bytes=2 * METADATA_BATCH_BYTES_MAX, retention_ms=-1)
QUORUM_STATE_FILE = "quorum-state"
DATA_VERSION = 1


class MetadataLog:
    """`raft.protocols.RaftLog` over a `storage.Log`. Disk errors pass through: they end the raft driver."""

    def __init__(self, log: Log) -> None:
        self._log = log

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def flushed_offset(self) -> int:
        return self._log.flushed_offset

    @property
    def epoch_entries(self) -> Sequence[EpochEntry]:
        return self._log.epoch_entries

    def append_as_leader(self, batch: bytes, epoch: int) -> None:
        self._log.append_as_leader(batch, epoch, time.time_ns() // 1_000_000)

    def append_as_follower(self, records: bytes) -> None:
        self._log.append_as_follower(records)

    def read(self, start_offset: int, max_bytes: int, max_offset: int | None = None) -> bytes:
        return bytes(self._log.read(start_offset, max_bytes, max_offset=max_offset).records)

    def truncate_to(self, offset: int) -> None:
        self._log.truncate_to(offset)

    def flush(self) -> None:
        self._log.flush()

    def __repr__(self) -> str:
        return f"MetadataLog({self._log!r})"


class QuorumStateFile:
    """`raft.protocols.QuorumStateStore`: Kafka's quorum-state, one JSON object, replaced atomically and fsynced."""

    def __init__(self, directory: str, fs: FileSystem) -> None:
        self._path = str(Path(directory) / QUORUM_STATE_FILE)
        self._fs = fs

    def load(self) -> ElectionState | None:
        text = read_text(self._fs, self._path)
        if text is None:
            return None
        try:
            found = json.loads(text)
            if found["data_version"] != DATA_VERSION:
                raise CorruptFileError(self._path, 0, f"data_version {found['data_version']} is not {DATA_VERSION}")
            return ElectionState(int(found["leaderEpoch"]), int(found["leaderId"]), int(found["votedId"]))
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(self._path, 0, f"not a quorum state: {error}") from error

    def save(self, state: ElectionState) -> None:
        content = {
            "leaderId": state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": state.voted_id,
            "data_version": DATA_VERSION,
        }
        write_atomically(self._fs, self._path, json.dumps(content).encode())
