"""The fetching half of a node: follows the leader's log, truncates a divergent tail, appends fetched batches.

One fetch is in flight at a time. The next one is made in the same step as the append it acknowledges, and the Ready's
order sends it only after the fsync, so that "fetch at N" is never a lie. Observers without a leader use the same
request to find one. Which answers lead to another epoch or leader is decided in core.py before they come here.
"""

from __future__ import annotations

from penstock.errors import CorruptMessageError
from penstock.record.batch import iter_headers, verify_crc
from penstock.types import NO_EPOCH
from raft.messages import FetchRequest, FetchResponse
from raft.ready import FollowerAppend
from raft.shared import NEVER_MS, Shared


class Following:
    """The fetches from one leader, from one `attach` to the next."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._fetch_at_ms: int | None = None  # None: a fetch is in flight, or none is wanted
        self._failures = 0
        self.deadline_ms = 0
        self.has_fetched = False
        self.last_fetch_ms: int | None = None

    def __repr__(self) -> str:
        return f"Following(next fetch {self._fetch_at_ms}, deadline {self.deadline_ms}, {self._failures} failures)"

    def attach(self, now_ms: int) -> None:
        """A new leader: nothing has been heard from it yet, and the fetch time-out runs."""
        self.has_fetched = False
        self.deadline_ms = now_ms + self._shared.config.fetch_timeout_ms
        self._failures = 0
        self._fetch_at_ms = now_ms
        self.maybe_fetch(now_ms)

    def detach(self) -> None:
        self.has_fetched = False
        self._fetch_at_ms = None

    def search(self, now_ms: int) -> None:
        """An observer without a leader asks a random voter who leads."""
        self.has_fetched = False
        self._failures = max(self._failures, 1)
        self._fetch_at_ms = now_ms + self._shared.backoff_ms(self._failures)

    def maybe_fetch(self, now_ms: int) -> None:
        """Send the next fetch if it is time."""
        if self._fetch_at_ms is None or now_ms < self._fetch_at_ms:
            return
        config, quorum, log = self._shared.config, self._shared.quorum, self._shared.log
        self._fetch_at_ms = None
        request = FetchRequest(
            config.cluster_id,
            config.node_id,
            quorum.epoch,
            log.log_end_offset,
            log.last_epoch,
            # The first fetch, and one after a failure, does not wait: the leader cannot know that this node has not
            # heard of its high watermark.
            0 if self._failures or not self.has_fetched else config.fetch_wait_ms,
            config.fetch_max_bytes,
        )
        followed = quorum.leader_id in config.voters
        self._shared.outbox.ask(quorum.leader_id if followed else self._random_voter(), request)

    def on_failure(self, now_ms: int) -> None:
        """No answer, or a useless one: try again after the back-off. The fetch time-out goes on running."""
        self._failures += 1
        self._fetch_at_ms = now_ms + self._shared.backoff_ms(self._failures)

    def on_success(self, request: FetchRequest, response: FetchResponse, now_ms: int) -> bool:
        """An answer of the leader to the present question; whether it made sense."""
        if response.snapshot_id is not None or not self._apply(request, response):
            self._shared.counters.answers_malformed += 1
            self.on_failure(now_ms)
            return False
        self.has_fetched = True
        self.last_fetch_ms = self._shared.contact.at_ms = now_ms
        self.deadline_ms = now_ms + self._shared.config.fetch_timeout_ms
        self._failures = 0
        self._fetch_at_ms = now_ms
        self.maybe_fetch(now_ms)
        return True

    def next_deadline_ms(self) -> int:
        return self.deadline_ms if self._fetch_at_ms is None else min(self.deadline_ms, self._fetch_at_ms)

    def next_search_ms(self) -> int:
        return NEVER_MS if self._fetch_at_ms is None else self._fetch_at_ms

    def _random_voter(self) -> int:
        return self._shared.random.choice(self._shared.config.other_voters)

    def _apply(self, request: FetchRequest, response: FetchResponse) -> bool:
        """Whether the answer made sense; nothing was changed if it did not."""
        log = self._shared.log
        if response.diverging_epoch is not None:
            if response.diverging_epoch.end_offset < 0 or response.diverging_epoch.epoch < NO_EPOCH:
                return False
            # The rest may still diverge (KIP-279), so the leader's high watermark does not apply to it yet.
            self._truncate(log.truncation_offset(response.diverging_epoch))
            return True
        if response.records:
            spans = self._spans(response.records, request.fetch_offset)
            if not spans:
                return False
            for next_offset, epoch in spans:
                log.extend(next_offset, epoch)
            self._shared.outbox.append(FollowerAppend(request.fetch_offset, response.records))
        log.advance_high_watermark(min(response.high_watermark, log.log_end_offset))
        return True

    def _truncate(self, offset: int) -> None:
        log = self._shared.log
        log.truncate_to(offset)
        self._shared.counters.truncations += 1
        self._shared.outbox.truncate_to(offset)

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
