"""A consumer with a rack is sent to a follower there, which serves it up to its own high watermark and never beyond
(KIP-392)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from broker.apis.fetch import FetchApi
from broker.network.request_channel import Request
from broker.replication.follower.follower_log import append_as_follower, truncate_to
from broker.replication.follower.follower_reads import BEHIND_MS
from penstock.errors import (
    ApiError,
    FencedLeaderEpochError,
    InvalidRequestError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    TopicAuthorizationFailedError,
    UnknownLeaderEpochError,
)
from penstock.messages.fetch import RACK_LENGTH_MAX, FetchRequest, PartitionFetchResult
from penstock.record.batch import iter_headers
from penstock.record.builder import build_batch
from penstock.types import LeaderHint
from storage.segment.transaction_index import AbortedRange
from tests.support.fetchers import Fetcher, at, produce
from tests.support.machine import NOW_NS
from tests.support.partitions import TOPIC_ID, flush, make_partition, state
from tests.support.readers import QUORUM_SILENCE_MS, RackedBroker
from tests.support.sinks import CALLER
from tests.support.undecided_log import said_transactions
from tests.support.virtual_time import run_virtual
from tests.unit.broker.apis.fetch_sessions.test_fetch_rights import Acls, error

LEADER = LeaderHint(2, 5, topic_id=TOPIC_ID)
RACK = "a"


class Follower:
    """Broker 1, in rack a, follows broker 2 in epoch 5, with a consumer of that rack."""

    def __init__(self, path: Path, *, is_stream: bool = True) -> None:
        self.racks = RackedBroker(RACK, {1: RACK, 2: "b", 3: "c"})
        self.partition = make_partition(path)
        self.partition.become_follower(state(leader_id=2), LEADER)
        self.stream = Fetcher(self.partition, is_stream=is_stream, readers=self.racks.readers, clock=self.racks.clock)

    def append(self, count: int, epoch: int = 5) -> None:
        """So many batches of one record come from the leader."""
        for _ in range(count):
            end = self.partition.log.log_end_offset
            records = build_batch([b"v"], timestamps_ms=1, base_offset=end, leader_epoch=epoch)
            append_as_follower(self.partition, records)

    def knows(self, high_watermark: int) -> None:
        """The leader's high watermark comes with an answer."""
        self.partition.follower_high_watermark(high_watermark)

    def last_result(self) -> PartitionFetchResult:
        """The newest answer's only partition."""
        (result,) = self.stream.answers[-1].partitions
        return result


async def play(follower: Follower, scenario: Callable[[Follower], Awaitable[None]]) -> None:
    await scenario(follower)
    follower.stream.session.close()
    assert not follower.partition.watchers, "a closed session still watches"


def run(path: Path, scenario: Callable[[Follower], Awaitable[None]], *, is_stream: bool = True) -> None:
    asyncio.run(play(Follower(path, is_stream=is_stream), scenario))


def offsets(result: PartitionFetchResult) -> list[int]:
    return [header.base_offset for _, header in iter_headers(result.records)]


# -- the follower ------------------------------------------------------------------------------------------------------


def test_a_follower_serves_up_to_its_own_high_watermark(tmp_path: Path) -> None:
    async def scenario(follower: Follower) -> None:
        follower.append(5)
        follower.knows(3)
        follower.stream.ask(at(0), rack_id=RACK)
        result = follower.last_result()
        assert offsets(result) == [0, 1, 2]
        assert (result.high_watermark, result.log_start_offset, result.error) == (3, 0, None)
        counted = follower.racks.readers.statistics()
        assert (counted.follower_bytes_out, counted.cross_rack_bytes_out) == (len(result.records), 0)

    run(tmp_path, scenario)


def test_a_waiting_consumer_is_woken_when_the_high_watermark_comes(tmp_path: Path) -> None:
    async def scenario(follower: Follower) -> None:
        follower.append(1)
        follower.stream.ask(at(0), rack_id=RACK)
        await asyncio.sleep(0)
        assert not follower.stream.answers
        follower.knows(1)
        await asyncio.sleep(0)
        assert offsets(follower.last_result()) == [0]

    run(tmp_path, scenario)


def test_a_consumer_that_is_ahead_waits_and_gets_what_comes(tmp_path: Path) -> None:
    """It has read at the leader up to a high watermark that the follower hears of a moment later."""

    async def scenario(follower: Follower) -> None:
        follower.append(3)
        follower.knows(1)
        follower.stream.ask(at(2), rack_id=RACK)
        await asyncio.sleep(0)
        assert not follower.stream.answers
        follower.knows(2)
        await asyncio.sleep(0)
        assert not follower.stream.answers, "there is nothing at its offset yet"
        follower.knows(3)
        await asyncio.sleep(0)
        assert offsets(follower.last_result()) == [2]

    run(tmp_path, scenario)


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize("offset", [4, 50], ids=["in the log", "behind its end"])
def test_one_that_stays_ahead_is_sent_to_the_leader(tmp_path: Path, offset: int, is_stream: bool) -> None:
    async def scenario(follower: Follower) -> None:
        follower.append(5)
        follower.knows(3)
        follower.stream.ask(at(offset), rack_id=RACK, wait_ms=0)
        assert not follower.stream.answers[0].partitions or follower.last_result().error is None
        follower.racks.clock.advance(BEHIND_MS)
        follower.stream.ask(rack_id=RACK, wait_ms=0)
        assert isinstance(follower.last_result().error, OffsetNotAvailableError)
        assert "above the high watermark 3" in str(follower.last_result().error)

    run(tmp_path, scenario, is_stream=is_stream)


def test_it_is_not_kept_waiting_for_longer_whatever_it_asks_for(tmp_path: Path) -> None:
    async def scenario(follower: Follower) -> None:
        follower.append(2)
        follower.stream.ask(at(2), rack_id=RACK)
        await asyncio.sleep(BEHIND_MS / 1000 - 0.01)
        assert not follower.stream.answers
        await asyncio.sleep(0.02)
        assert len(follower.stream.answers) == 1

    run_virtual(play(Follower(tmp_path), scenario))


def test_below_its_log_start_it_does_not_say_out_of_range(tmp_path: Path) -> None:
    """The leader may still have that offset, and a client's position would be lost."""

    async def scenario(follower: Follower) -> None:
        follower.append(5)
        follower.knows(5)
        follower.partition.log.advance_log_start(3)
        follower.stream.ask(at(2), rack_id=RACK)
        assert isinstance(follower.last_result().error, OffsetNotAvailableError)
        assert "below the log start 3" in str(follower.last_result().error)

    run(tmp_path, scenario)


def test_a_consumer_of_another_history_is_sent_to_the_leader(tmp_path: Path) -> None:
    async def scenario(follower: Follower) -> None:
        follower.append(2, epoch=3)
        follower.append(2, epoch=5)
        follower.knows(4)
        follower.stream.ask(at(3, last_epoch=4), rack_id=RACK)
        result = follower.last_result()
        assert isinstance(result.error, OffsetNotAvailableError) and result.diverging_epoch is None

    run(tmp_path, scenario)


@pytest.mark.parametrize(("epoch", "error"), [(4, FencedLeaderEpochError), (6, UnknownLeaderEpochError)])
def test_epochs_are_checked_as_at_the_leader(tmp_path: Path, epoch: int, error: type[ApiError]) -> None:
    async def scenario(follower: Follower) -> None:
        follower.stream.ask(at(0, epoch), rack_id=RACK)
        assert isinstance(follower.last_result().error, error)

    run(tmp_path, scenario)


def test_a_consumer_without_a_rack_is_sent_to_the_leader(tmp_path: Path) -> None:
    async def scenario(follower: Follower) -> None:
        follower.append(1)
        follower.knows(1)
        follower.stream.ask(at(0))
        error = follower.last_result().error
        assert isinstance(error, NotLeaderOrFollowerError) and error.leader == LEADER

    run(tmp_path, scenario)


def test_a_follower_that_leaves_the_isr_sends_its_consumers_away_at_once(tmp_path: Path) -> None:
    async def scenario(follower: Follower) -> None:
        follower.append(1)
        follower.knows(1)
        follower.stream.ask(at(1), rack_id=RACK)
        await asyncio.sleep(0)
        assert not follower.stream.answers
        follower.partition.become_follower(state(leader_id=2, isr=(2, 3), partition_epoch=1), LEADER)
        await asyncio.sleep(0)
        error = follower.last_result().error
        assert isinstance(error, NotLeaderOrFollowerError) and error.leader == LEADER

    run(tmp_path, scenario)


@pytest.mark.parametrize("is_stream", [True, False])
def test_one_that_does_not_hear_from_the_quorum_does_so_with_the_next_request(tmp_path: Path, is_stream: bool) -> None:
    async def scenario(follower: Follower) -> None:
        follower.append(1)
        follower.knows(1)
        follower.stream.ask(at(1), rack_id=RACK, wait_ms=0)
        follower.racks.quorum_silent_ms = QUORUM_SILENCE_MS + 1
        follower.stream.ask(rack_id=RACK, wait_ms=0)
        assert isinstance(follower.last_result().error, NotLeaderOrFollowerError)

    run(tmp_path, scenario, is_stream=is_stream)


def test_committed_records_end_at_the_followers_own_last_stable_offset_and_aborted_ones_are_named(
    tmp_path: Path,
) -> None:
    async def scenario(follower: Follower) -> None:
        said = said_transactions(follower.partition)
        follower.append(6)
        said.undecided[4] = 5  # its marker is at 5, which is not committed here
        said.ended.append(AbortedRange(7, 0, 2))
        follower.knows(5)
        follower.stream.ask(at(0), rack_id=RACK, read_committed=True)
        result = follower.last_result()
        assert offsets(result) == [0, 1, 2, 3]
        assert (result.last_stable_offset, result.high_watermark) == (4, 5)
        assert [tuple(one) for one in result.aborted] == [(7, 0)]

    run(tmp_path, scenario)


def test_a_truncation_takes_nothing_from_a_consumer_that_it_was_given_wrongly(tmp_path: Path) -> None:
    async def scenario(follower: Follower) -> None:
        follower.append(5)
        follower.knows(3)
        follower.stream.ask(at(0), rack_id=RACK)
        truncate_to(follower.partition, 3)
        follower.stream.ask(at(3), rack_id=RACK)
        follower.append(1)
        follower.knows(4)
        await asyncio.sleep(0)
        assert offsets(follower.last_result()) == [3]

    run(tmp_path, scenario)


def test_a_follower_judges_rights_as_a_leader_does_and_tells_no_more(tmp_path: Path) -> None:
    async def scenario(follower: Follower) -> None:
        follower.append(1)
        follower.knows(1)
        follower.stream.rights = acls = Acls()
        acls.change(may_read=False)
        follower.stream.ask(at(0), rack_id=RACK)
        assert error(follower.stream.answers[-1]) is TopicAuthorizationFailedError
        acls.change(may_read=True)
        follower.stream.ask(at(1), rack_id=RACK)
        acls.change(may_read=False)
        follower.stream.ask(rack_id=RACK)
        assert error(follower.stream.answers[-1]) is TopicAuthorizationFailedError, "taken away while it waits"

    run(tmp_path, scenario)


# -- the leader --------------------------------------------------------------------------------------------------------


class Lead(Follower):
    """Broker 1 leads instead; 3 is a follower in rack c."""

    def __init__(self, path: Path, *, is_stream: bool = True) -> None:
        super().__init__(path, is_stream=is_stream)
        self.partition.become_leader(state(leader_epoch=6, isr=(1, 3)), 0)
        produce(self.partition, b"a")
        flush(self.partition)
        assert self.partition.leading is not None
        self.racks.contacts.fetched(3, True)
        self.partition.leading.note_fetch(3, 103, 1, 1, 0)
        self.partition.leading.followers[3].log_start_offset = 0
        self.partition.maybe_advance_high_watermark()


@pytest.mark.parametrize("is_stream", [True, False])
def test_the_leader_names_the_follower_at_once_and_sends_no_records(tmp_path: Path, is_stream: bool) -> None:
    async def main() -> None:
        lead = Lead(tmp_path, is_stream=is_stream)
        lead.stream.ask(at(1, 6), rack_id="c")
        result = lead.last_result()
        assert (result.preferred_read_replica, bytes(result.records), result.error) == (3, b"", None)
        assert lead.racks.readers.statistics().readers_sent_away == 1
        if not is_stream:  # the answer may be lost
            lead.stream.ask(rack_id="c")
            assert lead.last_result().preferred_read_replica == 3
        lead.stream.session.close()

    asyncio.run(main())


def test_a_leader_names_nobody_to_a_consumer_without_the_right_to_read(tmp_path: Path) -> None:
    async def main() -> None:
        lead = Lead(tmp_path)
        lead.stream.rights = acls = Acls()
        acls.change(may_read=False)
        lead.stream.ask(at(1, 6), rack_id="c")
        assert error(lead.stream.answers[-1]) is TopicAuthorizationFailedError
        assert lead.last_result().preferred_read_replica == -1
        lead.stream.session.close()

    asyncio.run(main())


def test_a_consumer_of_the_leaders_rack_gets_records(tmp_path: Path) -> None:
    async def main() -> None:
        lead = Lead(tmp_path)
        lead.stream.ask(at(0, 6), rack_id=RACK)
        assert offsets(lead.last_result()) == [0] and lead.last_result().preferred_read_replica == -1
        lead.stream.session.close()

    asyncio.run(main())


def test_a_consumer_that_names_its_rack_no_more_gets_records_on_the_same_stream(tmp_path: Path) -> None:
    async def main() -> None:
        lead = Lead(tmp_path)
        lead.stream.ask(at(0, 6), rack_id="c")
        lead.stream.ask(at(0, 6))
        assert offsets(lead.last_result()) == [0]
        assert lead.racks.readers.statistics().cross_rack_bytes_out == 0
        lead.stream.session.close()

    asyncio.run(main())


@pytest.mark.parametrize("reads_elsewhere", [True, False])
def test_followers_hear_of_the_high_watermark_at_once_where_consumers_read_at_them(
    tmp_path: Path, reads_elsewhere: bool
) -> None:
    async def main() -> None:
        lead = Lead(tmp_path)
        if reads_elsewhere:
            lead.stream.ask(at(1, 6), rack_id="c")
        follower = Fetcher(lead.partition)
        follower.ask(at(1, 6), replica_id=3)
        if reads_elsewhere:  # the high watermark, which it may not know
            assert len(follower.answers) == 1
            follower.ask(replica_id=3)
        produce(lead.partition, b"b")
        await asyncio.sleep(0)
        assert offsets(follower.answers[-1].partitions[0]) == [1]
        follower.ask(at(2, 6), replica_id=3)
        answers = len(follower.answers)
        flush(lead.partition)
        await asyncio.sleep(0)
        assert lead.partition.high_watermark == 2
        assert len(follower.answers) - answers == (1 if reads_elsewhere else 0)
        if reads_elsewhere:
            assert follower.answers[-1].partitions[0].high_watermark == 2
        for session in (lead.stream.session, follower.session):
            session.close()

    asyncio.run(main())


def test_a_rack_that_is_too_long_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        lead = Lead(tmp_path)
        body = FetchRequest(-1, -1, 0, 1, 1_000, [at(0, 6)], [], rack_id="r" * (RACK_LENGTH_MAX + 1))
        request = Request("Fetch", body, lead.stream, CALLER, NOW_NS, session=lead.stream.session)
        with pytest.raises(InvalidRequestError, match="rack_id has 256 characters; at most 255"):
            FetchApi(dict, "c").handle(request, body)
        lead.stream.session.close()

    asyncio.run(main())
