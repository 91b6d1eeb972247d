"""The fetching half of a node: follows the leader's log, truncates a divergent tail, appends fetched batches.

A node whose log ends below the leader's log start, or differs there, fetches a snapshot of the leader first, chunk by
chunk, and its log begins anew behind that (KIP-630).

One fetch is in flight at a time. The next one is made in the same step as the append it acknowledges, and the Ready's
order sends it only after the fsync, so that "fetch at N" is never a lie. Observers without a leader use the same
request to find one. Which answers lead to another epoch or leader is decided in core.py before they come here.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import CorruptMessageError
from penstock.lazy_dataclass import dataclass
from penstock.record.batch import iter_headers, verify_crc
from penstock.types import NO_EPOCH, NO_LEADER, EpochEndOffset
from raft.messages import (
    SNAPSHOT_BYTES_MAX,
    FetchMetadataRequest,
    FetchMetadataResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    SnapshotTaken,
)
from raft.ready import FollowerAppend, SnapshotChunk
from raft.shared import NEVER_MS, Shared
from raft.voter_records import voters_in
from raft.voters import VoterSet


@dataclass(slots=True)
class FetchedSnapshot:
    """A snapshot of the leader, as far as it is here."""

    snapshot_id: EpochEndOffset
    position: int = 0
    size_bytes: int | None = None


class Following:
    """The fetches from one leader, from one `attach` to the next."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._fetch_at_ms: int | None = None  # None: a fetch is in flight, or none is wanted
        self._failures = 0
        self._asked = NO_LEADER
        self.deadline_ms = 0
        self.has_fetched = False
        self.last_fetch_ms: int | None = None
        self._heard_ms = 0
        """The time that the leader named in its newest answer in this epoch."""
        self._snapshot: FetchedSnapshot | None = None
        self.is_installing = False
        """All of a snapshot is here, and it is being checked. It counts whichever node leads by then: it is
        committed."""

    def __repr__(self) -> str:
        return f"Following(next fetch {self._fetch_at_ms}, deadline {self.deadline_ms}, {self._failures} failures)"

    def attach(self, now_ms: int) -> None:
        """A new leader: nothing has been heard from it yet, and the fetch time-out runs."""
        self._asked = self._shared.quorum.leader_id
        self.has_fetched, self._heard_ms = False, 0
        self.deadline_ms = now_ms + self._shared.config.fetch_timeout_ms
        self._failures = 0
        self._fetch_at_ms = now_ms
        self.maybe_fetch(now_ms)

    def detach(self) -> None:
        self.has_fetched, self._heard_ms = False, 0
        self._fetch_at_ms = None
        self._snapshot = None

    def ask_around(self) -> None:
        """Asks another voter or bootstrap server who leads: for a voter that waits for votes, and whose log may name
        only voters that are gone."""
        if (asked := self._another_node()) != NO_LEADER:
            self._shared.outbox.ask(asked, self._request(0))

    def search(self, now_ms: int) -> None:
        """An observer without a leader asks a random voter who leads."""
        self.has_fetched = False
        self._failures = max(self._failures, 1)
        self._fetch_at_ms = now_ms + self._shared.backoff_ms(self._failures)

    def maybe_fetch(self, now_ms: int) -> None:
        """Send the next fetch if it is time."""
        if self._fetch_at_ms is None or now_ms < self._fetch_at_ms or self.is_installing:
            return
        config, quorum = self._shared.config, self._shared.quorum
        self._fetch_at_ms = None
        if (part := self._snapshot) is not None:
            place = (
                part.snapshot_id,
                part.position,
                config.fetch_max_bytes,
                config.incarnation_id,
                config.directory_id,
            )
            self._shared.outbox.ask(
                quorum.leader_id, FetchSnapshotRequest(config.cluster_id, config.node_id, quorum.epoch, *place)
            )
            return
        # The first fetch, and one after a failure, does not wait: the leader cannot know that this node has not heard
        # of its high watermark.
        request = self._request(0 if self._failures or not self.has_fetched else config.fetch_wait_ms)
        asked = quorum.leader_id if quorum.leader_id != NO_LEADER else self._another_node()
        if asked == NO_LEADER:
            self.on_failure(now_ms)
            return
        self._shared.outbox.ask(asked, request)

    def _request(self, wait_ms: int) -> FetchMetadataRequest:
        config, quorum, log = self._shared.config, self._shared.quorum, self._shared.log
        return FetchMetadataRequest(
            config.cluster_id,
            config.node_id,
            quorum.epoch,
            log.log_end_offset,
            log.last_epoch,
            wait_ms,
            config.fetch_max_bytes,
            config.incarnation_id,
            self._heard_ms,
            config.directory_id,
            config.supports,
        )

    def on_failure(self, now_ms: int) -> None:
        """No answer, or a useless one: try again after the back-off. The fetch time-out goes on running."""
        self._failures += 1
        self._fetch_at_ms = now_ms + self._shared.backoff_ms(self._failures)

    def on_success(self, request: FetchMetadataRequest, response: FetchMetadataResponse, now_ms: int) -> bool:
        """An answer of the leader to the present question; whether it made sense."""
        if not self._apply(request, response):
            self._shared.counters.answers_malformed += 1
            self.on_failure(now_ms)
            return False
        self.has_fetched = True
        self._heard_ms = max(self._heard_ms, response.leader_time_ms)
        self._on_contact(now_ms)
        return True

    def on_snapshot_bytes(self, request: FetchSnapshotRequest, response: FetchSnapshotResponse, now_ms: int) -> None:
        """An answer of the leader to the present question."""
        if not self._take_bytes(request, response):
            self._shared.counters.answers_malformed += 1
            self.on_snapshot_lost(now_ms)
            return
        self._on_contact(now_ms)

    def on_snapshot_lost(self, now_ms: int) -> None:
        """The leader does not keep it any more, or what came was no part of it: the next fetch says what to do."""
        self._snapshot = None
        self.on_failure(now_ms)

    def on_snapshot_taken(self, taken: SnapshotTaken, now_ms: int) -> None:
        """The snapshot has replaced the log; or it was damaged, and nothing has changed."""
        self.is_installing, self._snapshot = False, None
        if taken.is_installed:
            self._shared.log.install(taken.snapshot_id)
            history = self._shared.quorum.history
            history.install(taken.voters or history.first)
            self._shared.quorum.history.note_committed(taken.snapshot_id.end_offset)
            self._shared.counters.snapshots_installed += 1
            self._failures = 0
            self.deadline_ms = now_ms + self._shared.config.fetch_timeout_ms  # checking it may have taken longer
        else:
            self._shared.counters.snapshots_refused += 1
        if not taken.is_installed:
            self.on_failure(now_ms)
        elif self._fetch_at_ms is not None:
            self._fetch_at_ms = now_ms

    def _on_contact(self, now_ms: int) -> None:
        """The leader has answered; ask for more at once."""
        self.last_fetch_ms = self._shared.contact.at_ms = now_ms
        self.deadline_ms = now_ms + self._shared.config.fetch_timeout_ms
        self._failures = 0
        self._fetch_at_ms = now_ms
        self.maybe_fetch(now_ms)

    def _take_bytes(self, request: FetchSnapshotRequest, response: FetchSnapshotResponse) -> bool:
        """Takes the bytes of a good answer. False if the answer made no sense; nothing was changed then."""
        part = self._snapshot
        if part is None or (request.snapshot_id, request.position) != (part.snapshot_id, part.position):
            return False
        end, size_bytes = part.position + len(response.data), response.size_bytes
        is_that = (response.snapshot_id, response.position) == (part.snapshot_id, part.position)
        is_inside = bool(response.data) and end <= size_bytes <= SNAPSHOT_BYTES_MAX
        if not is_that or not is_inside or part.size_bytes not in (None, size_bytes):
            return False
        chunk = SnapshotChunk(part.snapshot_id, part.position, response.data)
        part.position, part.size_bytes, self.is_installing = end, size_bytes, end == size_bytes
        self._shared.outbox.write_snapshot(chunk, is_last=self.is_installing)
        return True

    def next_deadline_ms(self) -> int:
        if self.is_installing:
            return NEVER_MS
        return self.deadline_ms if self._fetch_at_ms is None else min(self.deadline_ms, self._fetch_at_ms)

    def next_search_ms(self) -> int:
        return NEVER_MS if self._fetch_at_ms is None else self._fetch_at_ms

    def _another_node(self) -> int:
        """A random voter or bootstrap server, but not the one that led, or was asked before: it may hang, and each
        question waits long. -1 if this node knows no other one."""
        nodes = (*self._shared.quorum.other_voters, *self._shared.config.bootstrap_ids)
        if not nodes:
            return NO_LEADER
        self._asked = self._shared.random.choice([node for node in nodes if node != self._asked] or nodes)
        return self._asked

    def _apply(self, request: FetchMetadataRequest, response: FetchMetadataResponse) -> bool:
        """Applies a good answer. False if the answer made no sense; nothing was changed then."""
        log = self._shared.log
        if response.snapshot_id is not None:
            epoch, end_offset = response.snapshot_id
            if end_offset <= log.high_watermark or not 0 <= epoch <= self._shared.quorum.epoch:
                return False  # all that a snapshot has is committed, and this node has more of that
            self._snapshot = FetchedSnapshot(response.snapshot_id)
            return True
        if response.diverging_epoch is not None:
            if response.diverging_epoch.end_offset < 0 or response.diverging_epoch.epoch < NO_EPOCH:
                return False
            # The rest may still diverge (KIP-279), so the leader's high watermark does not apply to it yet.
            self._truncate(log.truncation_offset(response.diverging_epoch))
            return True
        if response.records:
            spans = self._spans(response.records, request.fetch_offset)
            changes = self._changes(response.records)
            if not spans or changes is None:
                return False
            for next_offset, epoch in spans:
                log.extend(next_offset, epoch)
            for offset, voters in changes:
                self._shared.quorum.history.append(offset, voters)
            self._shared.outbox.append(FollowerAppend(request.fetch_offset, response.records))
        if log.advance_high_watermark(min(response.high_watermark, log.log_end_offset)):
            self._shared.quorum.history.note_committed(log.high_watermark)
        return True

    def _truncate(self, offset: int) -> None:
        log = self._shared.log
        log.truncate_to(offset)
        self._shared.quorum.history.truncate_to(offset)
        self._shared.counters.truncations += 1
        self._shared.outbox.truncate_to(offset)

    def _changes(self, records: bytes) -> Sequence[tuple[int, VoterSet]] | None:
        """The sets of voters that these batches name, by offset; None if one cannot be read."""
        try:
            return tuple(voters_in(records))
        except CorruptMessageError:
            return None

    def _spans(self, records: bytes, at_offset: int) -> list[tuple[int, int]] | None:
        """(next offset, epoch) of each batch; None unless all are whole, sound, dense, and of epochs that may come."""
        spans = []
        position = 0
        epoch = self._shared.log.last_epoch
        try:
            for start, header in iter_headers(records):
                in_order = header.leader_epoch >= 0 and epoch <= header.leader_epoch <= self._shared.quorum.epoch
                if header.base_offset != at_offset or not in_order or not verify_crc(records, start, header):
                    return None
                at_offset, epoch = header.next_offset, header.leader_epoch
                spans.append((at_offset, epoch))
                position = start + header.size_bytes
        except CorruptMessageError:
            return None
        return spans if position == len(records) else None
