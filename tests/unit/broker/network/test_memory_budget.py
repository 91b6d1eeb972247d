"""Promises of a memory budget: it is kept, a large message gets through, and nobody starves."""

from __future__ import annotations

import asyncio
import random

import pytest

from broker.network.memory_budget import OVERTAKEN_MAX, Account, Lease, MemoryBudget, MemoryStatistics
from broker.network.request_channel import SMALL_BYTES, UNANSWERED_MS, Request
from broker.network.request_memory import HELD_MS, RequestMemory
from penstock.errors import ResourceExhaustedError
from tests.support.machine import NOW_NS
from tests.support.sinks import CALLER, Sink
from tests.support.virtual_time import run_virtual


class Streams:
    """Accounts of a budget of 1,000 bytes, and the leases that they waited for."""

    def __init__(self, stream_share: int = 4) -> None:
        self.budget = MemoryBudget(1_000, stream_share)
        self.granted: list[str] = []
        self.leases: dict[str, Lease] = {}

    def acquire(self, name: str, account: Account, size: int) -> bool:
        def later(lease: Lease) -> None:
            self.granted.append(name)
            self.leases[name] = lease

        lease = account.acquire(size, later)
        if lease is not None:
            self.leases[name] = lease
        return lease is not None


def test_a_stream_has_its_share_and_a_party_half_of_the_budget() -> None:
    streams = Streams()
    accounts = [streams.budget.open("a") for _ in range(3)]
    assert streams.acquire("a1", accounts[0], 250) and not streams.acquire("a1 again", accounts[0], 1)
    assert streams.acquire("a2", accounts[1], 250) and not streams.acquire("a3", accounts[2], 1)
    assert streams.budget.statistics().used_bytes == 500
    streams.leases["a1"].release()
    assert streams.granted == ["a3", "a1 again"]


def test_a_party_has_as_much_as_stays_free_for_the_others() -> None:
    budget = MemoryBudget(64_000, 1)
    first, second, third = (budget.open(name) for name in "abc")
    first.take(22_000)
    second.take(10_000)
    assert second.room() == 11_000, "a third of the budget where two have their share"
    assert second.has_room(11_000) and not second.has_room(11_001)
    second.take(11_000)
    assert third.has_room(21_000) and not third.has_room(21_001), "it has nothing: it is let in where there is room"


def test_however_many_have_their_share_a_party_with_little_is_let_in() -> None:
    budget = MemoryBudget(64_000, 1)
    for number in range(6):
        account = budget.open(f"party {number}")
        account.take(10_000)
    late = budget.open("late")
    late.take(500)
    assert late.has_room(500) and not late.has_room(2_500)


def test_what_a_stream_takes_after_its_end_counts_for_its_party() -> None:
    budget = MemoryBudget(1_000, 1)
    ended = budget.open("a")
    ended.close()
    answer = ended.take(400)  # of a client that sends no more, and has still to read
    again = budget.open("a")
    assert again.room() == 100 and not again.has_room(200)
    again.take(100)
    answer.release()
    assert budget.open("a").room() == 400, "its streams have one share, whichever of them ended"


def test_a_lease_of_nothing_after_a_streams_end_keeps_no_party_and_grows_in_the_one_that_is_there() -> None:
    budget = MemoryBudget(1_000, 1)
    ended = budget.open("a")
    ended.close()
    lease = ended.take(0)
    assert not budget._parties, "each network would leave one behind"
    again = budget.open("a")
    lease.resize(400)
    assert again.room() == 100
    lease.release()
    again.close()
    assert not budget._parties


def test_a_lease_above_the_limits_that_has_shrunk_by_nothing_and_fits_leaves_its_place_too() -> None:
    budget, granted = MemoryBudget(1_000, 1), list[Lease]()
    taken = budget.open("a").take(600)
    assert budget.open("b").acquire(500, granted.append) is not None, "very large: above the limits"
    first = budget.top
    assert first is not None
    taken.release()
    assert budget.open("c").acquire(600, granted.append) is None
    first.resize(500)
    assert [lease.size for lease in granted] == [600]


def test_a_party_that_has_much_and_waits_for_more_holds_up_no_other() -> None:
    budget = MemoryBudget(64_000, 1)
    greedy = [budget.open(name) for name in "ab"]
    for account in greedy:
        account.take(21_000)
    assert [account.acquire(3_000, lambda lease: None) for account in greedy] == [None, None]
    honest = budget.open("honest")
    for _ in range(2 * OVERTAKEN_MAX):
        lease = honest.acquire(100, lambda lease: None)
        assert lease is not None
        lease.release()


def test_whoever_asks_for_nothing_and_has_little_waits_for_no_room_that_others_have_overdrawn() -> None:
    budget = MemoryBudget(64_000, 1)
    budget.open("a").take(80_000)
    assert not budget.open("a").has_room(0)
    other = budget.open("b")
    assert other.has_room(0) and not other.has_room(1)
    other.take(1_001)
    assert not other.has_room(0), "it has not little any more"


def test_a_party_with_little_takes_what_is_here_however_much_others_have() -> None:
    budget = MemoryBudget(64_000, 1)
    budget.open("a").take(64_000)
    assert budget.open("a").take_little(1) is None
    account = budget.open("b")
    first = account.take_little(1_000)
    assert first is not None and account.take_little(1) is None
    first.release()
    assert account.take_little(1) is not None


def test_a_lease_above_the_limits_that_turns_out_small_leaves_its_place_to_the_next() -> None:
    streams = Streams(stream_share=1)
    streams.budget.open("z").take(300)
    at_once = [streams.acquire(name, streams.budget.open(name), 2_000) for name in "ab"]
    assert at_once == [True, False] and streams.leases["a"].is_above
    streams.leases["a"].resize(800)
    assert streams.granted == [], "there is more than should be, still"
    streams.leases["a"].resize(700)
    assert streams.granted == ["b"] and streams.leases["b"].is_above and not streams.leases["a"].is_above
    streams.leases["a"].release()
    streams.leases["b"].release()
    assert streams.budget.top is None and streams.budget.statistics().used_bytes == 300


def test_an_announcement_takes_no_room_of_others_before_its_bytes_come() -> None:
    streams = Streams(stream_share=1)
    for name in "ab":
        assert streams.budget.open(name).acquire(500, lambda lease: None, come=4) is not None
    assert streams.budget.statistics().used_bytes == 8
    assert streams.acquire("honest", streams.budget.open("honest"), 400)


def test_a_party_whose_announced_frames_fill_its_share_holds_up_itself_alone() -> None:
    streams = Streams(stream_share=1)
    stranger, honest = streams.budget.open("stranger"), streams.budget.open("honest")
    assert stranger.acquire(500, lambda lease: None, come=1) is not None
    assert not streams.acquire("second", streams.budget.open("stranger"), 500)
    assert streams.acquire("honest", honest, 200) and streams.granted == []


def test_a_lease_grows_while_there_is_room_and_waits_where_there_is_none() -> None:
    streams, grown = Streams(stream_share=1), list[str]()
    one, other, third = (streams.budget.open(name) for name in "abc")
    leases = [account.acquire(400, lambda lease: None, come=100) for account in (one, other, third)]
    first, second, last = (lease for lease in leases if lease is not None)
    assert first.grow(300, lambda lease: grown.append("first"))
    assert second.grow(350, lambda lease: grown.append("above")), "one that holds memory is let in above its share"
    assert not last.grow(300, lambda lease: grown.append("last"))
    assert second.is_in_the_way and not first.is_in_the_way
    second.release()
    assert grown == ["last"] and last.size == 300
    first.release()
    last.release()
    assert streams.budget.statistics() == MemoryStatistics(0, 1_000, 0, 1)


def test_a_lease_that_ends_while_it_waits_to_grow_waits_no_more() -> None:
    budget = MemoryBudget(1_000, 1)
    full = budget.open("full").take(990)
    above = budget.open("a").acquire(200, lambda lease: None, come=1)
    waiting = budget.open("b").acquire(200, lambda lease: None, come=1)
    assert above is not None and waiting is not None and above.grow(100, lambda lease: None)
    assert not waiting.grow(100, lambda lease: None) and budget.statistics().waiting == 1
    waiting.release()
    assert budget.statistics().waiting == 0
    full.release()
    assert budget.statistics().used_bytes == above.size == 100


def test_a_message_larger_than_a_share_gets_through_when_the_share_is_empty() -> None:
    streams = Streams()
    one, other = streams.budget.open("a"), streams.budget.open("a")
    assert streams.acquire("small", other, 10)
    assert not streams.acquire("large", one, 900), "its party has something in use"
    assert not streams.acquire("later", streams.budget.open("a"), 10), "it would keep the large one out"
    streams.leases["small"].release()
    assert streams.granted == ["large"]
    streams.leases["large"].release()
    assert streams.granted == ["large", "later"]


def test_a_very_large_message_waits_for_no_other_party_and_one_at_a_time_does_not() -> None:
    streams = Streams(stream_share=1)
    streams.budget.open("x").take(600)
    assert streams.acquire("large", streams.budget.open("a"), 700) and not streams.acquire(
        "next", streams.budget.open("b"), 700
    )
    assert streams.budget.statistics().used_bytes == 1_300, "the budget and one lease"
    streams.leases["large"].release()
    assert streams.granted == ["next"]


def test_parties_take_turns_so_one_with_many_streams_does_not_starve_another() -> None:
    streams = Streams(stream_share=1)
    first = streams.budget.open("x").take(1_000)
    for n in range(50):
        streams.acquire(f"hostile{n}", streams.budget.open("hostile"), 100)
    streams.acquire("honest", streams.budget.open("honest"), 100)
    first.release()
    assert "honest" in streams.granted[:2]


def test_a_lease_above_the_limits_is_in_the_way_of_no_party_that_waits_for_a_share_of_its_own() -> None:
    streams = Streams(stream_share=1)
    above = streams.budget.open("large").acquire(900, lambda lease: None, come=100)
    assert above is not None and above.grow(600, lambda lease: None) and above.is_above
    assert streams.budget.open("idle").acquire(500, lambda lease: None, come=4) is not None
    assert not streams.acquire("idle again", streams.budget.open("idle"), 500) and not above.is_in_the_way
    assert above.grow(990, lambda lease: None) and not streams.acquire("late", streams.budget.open("b"), 100)
    assert above.is_in_the_way
    above.release()


def test_a_stream_that_waits_for_room_is_overtaken_and_not_for_ever() -> None:
    streams = Streams(stream_share=1)
    first = streams.budget.open("x").take(900)
    assert not streams.acquire("large", streams.budget.open("a"), 120)
    for n in range(OVERTAKEN_MAX):
        assert streams.acquire(f"small {n}", streams.budget.open(f"host {n}"), 1)
        streams.leases[f"small {n}"].release()
    assert not streams.acquire("late", streams.budget.open("b"), 1), "there is room for it, but it is not its turn"
    assert streams.granted == ["large"], "it is let in above the limits"
    first.resize(800)
    assert streams.granted == ["large", "late"]


def test_a_stream_that_was_overtaken_waits_while_another_one_is_above_the_limits_and_nobody_is_before_it() -> None:
    streams = Streams(stream_share=1)
    first = streams.budget.open("x").take(600)
    assert streams.acquire("above", streams.budget.open("top"), 410)
    assert not streams.acquire("next", streams.budget.open("a"), 120)
    first.resize(550)
    for n in range(OVERTAKEN_MAX):
        assert streams.acquire(f"small {n}", streams.budget.open(f"host {n}"), 1)
        streams.leases[f"small {n}"].release()
    assert not streams.acquire("late", streams.budget.open("b"), 1) and streams.granted == []
    streams.leases["above"].release()
    assert streams.granted == ["next", "late"]


def test_whoever_asks_for_nothing_waits_for_no_other_party_however_often_that_was_overtaken() -> None:
    streams = Streams(stream_share=1)
    busy, first = streams.budget.open("busy").take(50), streams.budget.open("x").take(600)
    assert streams.acquire("above", streams.budget.open("top"), 410)
    assert not streams.acquire("large", streams.budget.open("a"), 120)
    assert not streams.acquire("its share is in use", streams.budget.open("busy"), 0)
    first.resize(500)
    for n in range(OVERTAKEN_MAX):
        assert streams.acquire(f"small {n}", streams.budget.open(f"host {n}"), 1)
        streams.leases[f"small {n}"].release()
    idle = streams.budget.open("idle")
    assert not idle.has_room(1) and idle.has_room(0) and streams.acquire("next request", idle, 0)
    busy.release()
    assert streams.granted == ["its share is in use"], "its party has nothing now"
    assert not streams.acquire("late", streams.budget.open("b"), 1)
    streams.leases["above"].release()
    assert streams.granted == ["its share is in use", "large", "late"], "nobody else has begun before it"


def test_whoever_asks_for_nothing_waits_for_no_stream_of_its_party_that_waits_for_others() -> None:
    streams = Streams(stream_share=1)
    first = streams.budget.open("x").take(950)
    assert not streams.acquire("frame", streams.budget.open("a"), 100)
    assert not streams.acquire("behind it", streams.budget.open("a"), 1)
    assert streams.acquire("next request", streams.budget.open("a"), 0)
    first.release()
    assert streams.granted == ["frame", "behind it"]


def test_a_stream_that_waits_for_the_share_of_its_own_party_is_overtaken_for_ever() -> None:
    streams = Streams(stream_share=1)
    for name, size in (("x", 500), ("y", 250)):
        assert streams.acquire(name, streams.budget.open(name), size)
    assert not streams.acquire("y again", streams.budget.open("y"), 100)
    honest = streams.budget.open("honest")
    for _ in range(3 * OVERTAKEN_MAX):
        assert honest.has_room(1) and streams.acquire("small", honest, 1)
        streams.leases["small"].release()
    assert streams.granted == []


def test_a_party_with_no_answers_of_its_own_is_read_while_those_of_others_are_above_the_budget() -> None:
    streams = Streams()
    unread = streams.budget.open("reads nothing")
    over = [unread.take(400) for _ in range(4)]
    honest = streams.budget.open("honest")
    assert honest.has_room(0) and streams.acquire("next request", honest, 0)
    assert not unread.has_room(0) and not honest.has_room(1)
    for lease in over:
        lease.release()


def test_what_is_in_memory_already_is_counted_even_over_the_budget_and_made_good_first() -> None:
    streams = Streams()
    over = streams.budget.open("a").take(5_000)
    account = streams.budget.open("b")
    assert not streams.acquire("b", account, 1)
    over.resize(1_000)
    assert streams.granted == []
    over.release()
    assert streams.granted == ["b"] and streams.budget.statistics().used_bytes == 1


def test_a_stream_that_ends_waits_no_more_and_its_leases_count_until_they_are_released() -> None:
    streams = Streams()
    full = streams.budget.open("a")
    lease = full.take(1_000)
    gone, next_one = streams.budget.open("b"), streams.budget.open("c")
    streams.acquire("gone", gone, 10)
    streams.acquire("next", next_one, 10)
    gone.close()
    full.close()
    assert streams.budget.statistics().waiting == 1 and streams.budget.statistics().used_bytes == 1_000
    lease.release()
    assert streams.granted == ["next"]
    lease.release()
    assert streams.budget.statistics().used_bytes == 10


def test_a_stream_that_waits_again_when_it_is_granted_room_is_granted_more_only_after_it_has_waited() -> None:
    streams = Streams(stream_share=1)
    first = streams.budget.open("x").take(1_000)
    again, order = streams.budget.open("a"), list[str]()

    def granted(lease: Lease) -> None:
        lease.release()
        assert again.acquire(10, lambda _: order.append("granted again")) is None
        order.append("waits again")

    again.acquire(10, granted)
    streams.acquire("behind it", streams.budget.open("a"), 10)
    first.release()
    assert order == ["waits again", "granted again"] and streams.granted == ["behind it"]


def test_whatever_happens_the_budget_is_kept_and_everybody_gets_a_turn() -> None:
    for seed in range(200):
        rng, streams, waiting = random.Random(seed), Streams(), set[str]()
        for n in range(60):
            name, account = f"{seed}-{n}", streams.budget.open(rng.choice("abc"))
            if not streams.acquire(name, account, rng.randint(1, 250)):
                waiting.add(name)
            assert streams.budget.statistics().used_bytes <= 1_250, "the budget and one lease"
            if rng.random() < 0.3 and streams.leases:
                streams.leases.pop(rng.choice(sorted(streams.leases))).release()
            assert streams.budget.statistics().used_bytes <= 1_250
        while streams.leases:
            streams.leases.pop(rng.choice(sorted(streams.leases))).release()
        assert set(streams.granted) == waiting and streams.budget.statistics().waiting == 0
        assert streams.budget.statistics().used_bytes == 0


def test_a_stream_of_large_requests_is_read_only_when_there_is_room_for_another() -> None:
    async def main() -> None:
        memory = RequestMemory(8 * 1024 * 1024)
        streams = [memory.open("a") for _ in range(5)]
        large = 1024 * 1024
        leases = []
        for stream in streams:
            await stream.wait_turn()
            leases.append(stream.arrived(large))
        reads = [asyncio.ensure_future(stream.wait_turn()) for stream in streams]
        await asyncio.sleep(0)
        assert not any(read.done() for read in reads), "the address has its half in use"
        assert memory.statistics().waiting == 5
        small = memory.open("a")
        await small.wait_turn()  # a stream of small requests does not wait for large ones
        small.arrived(SMALL_BYTES)
        leases[0].release()
        leases[1].release()
        leases[2].release()
        await asyncio.sleep(0)
        assert [read.done() for read in reads] == [True, False, False, False, False], "the address was over its half"
        for stream, read in zip(streams, reads, strict=True):
            read.cancel()
            stream.close()
        await asyncio.gather(*reads, return_exceptions=True)  # one was granted its turn and cancelled in one go
        for lease in leases:
            lease.release()
        assert memory.statistics().used_bytes == SMALL_BYTES and memory.statistics().waiting == 0

    asyncio.run(main())


def test_room_for_a_stream_that_was_just_cancelled_goes_to_the_next_and_fails_no_release() -> None:
    async def main() -> None:
        memory, large = RequestMemory(8 * 1024 * 1024), 1024 * 1024
        streams = [memory.open("a") for _ in range(4)]
        leases = []
        for stream in streams:
            await stream.wait_turn()
            leases.append(stream.arrived(large))
        gone, behind = (asyncio.ensure_future(stream.wait_turn()) for stream in streams[:2])
        await asyncio.sleep(0)
        gone.cancel()
        for lease in leases[:2]:
            lease.release()  # as for an answer: an error here would leave that without an answer
        await behind
        assert gone.cancelled() and memory.statistics().waiting == 0

    run_virtual(main())


def test_a_stream_of_small_requests_is_read_while_frames_of_many_parties_wait_for_room() -> None:
    async def main() -> None:
        memory = RequestMemory(8 * 1024 * 1024)
        full = [memory.small.open(f"10.0.0.{number}").take(SMALL_BYTES) for number in range(16)]
        frames = [memory.open(f"10.0.1.{number}") for number in range(3)]
        wait = [asyncio.ensure_future(frame.leased(SMALL_BYTES, 20_000)) for frame in frames]
        await asyncio.sleep(0)
        stream = memory.open("10.0.2.1")
        for _ in range(2 * OVERTAKEN_MAX):
            await asyncio.wait_for(stream.wait_turn(), 1)
            stream.arrived(100).release()
        assert memory.small.top is not None, "one of them is above the limits"
        for lease in full:
            lease.release()
        for each in wait:
            (await each).release()
        assert memory.statistics().used_bytes == 0

    run_virtual(main())


def test_a_stream_that_stays_silent_gives_its_room_back() -> None:
    async def main() -> None:
        memory = RequestMemory(8 * 1024 * 1024)
        stream = memory.open("a")
        stream.arrived(1024 * 1024).release()
        await stream.wait_turn()
        assert memory.statistics().used_bytes == 1024 * 1024
        await asyncio.sleep(HELD_MS / 1_000)
        assert memory.statistics().used_bytes == 0
        lease = stream.arrived(1024 * 1024)
        stream.close()
        assert memory.statistics().used_bytes == 1024 * 1024, "it is in the queue of the handlers"
        lease.release()
        assert memory.statistics().used_bytes == 0

    run_virtual(main())


def test_the_room_that_was_held_for_a_request_is_given_to_no_other_when_it_arrives() -> None:
    async def main() -> None:
        mib = 1024 * 1024
        memory = RequestMemory(16 * mib)
        streams = [memory.open(f"host{n}") for n in range(15)]
        for stream in streams:
            stream.arrived(mib).release()
        for stream in streams[:14]:
            await stream.wait_turn()  # room for what it sent last is held
        last = asyncio.ensure_future(streams[14].wait_turn())
        await asyncio.sleep(0)
        streams[0].arrived(mib)
        assert not last.done() and memory.large.statistics().used_bytes == 14 * mib
        streams[1].close()
        await last
        assert memory.large.statistics().used_bytes == 14 * mib
        for stream in streams:
            stream.close()

    run_virtual(main())


def test_a_small_request_that_is_here_whole_waits_for_no_other_party() -> None:
    async def main() -> None:
        memory = RequestMemory.before_log_in()
        others = [memory.small.open(f"10.0.0.{number}") for number in range(70)]
        taken = [account.take(SMALL_BYTES) for account in others]
        stream = memory.open("10.0.1.1")
        log_in = await stream.leased(200, 200)
        assert log_in.size == 200
        comes = asyncio.ensure_future(stream.leased(200, 100))
        await asyncio.sleep(0)
        assert not comes.done(), "its bytes would take memory that nobody has"
        for lease in taken:
            lease.release()
        (await comes).release()
        log_in.release()
        for account in (stream, *others):
            account.close()
        assert memory.statistics().used_bytes == 0

    run_virtual(main())


def test_a_large_request_counts_until_its_answer_and_not_for_ever_a_small_one_until_it_is_handled() -> None:
    async def main() -> None:
        budget = MemoryBudget(1 << 30, 8)
        account = budget.open("a")
        small, large, stuck = (Request("Produce", None, Sink(), CALLER, NOW_NS) for _ in range(3))
        for request, size in ((small, SMALL_BYTES), (large, 1_000_000), (stuck, 2_000_000)):
            request.body_lease = account.take(size)
        small.handled()
        assert account.used == 3_000_000
        large.handled()
        stuck.handled()
        assert account.used == 3_000_000, "appended, and not flushed: it keeps the stream from sending more"
        large.complete(None)
        assert account.used == 2_000_000
        await asyncio.sleep(UNANSWERED_MS / 1_000)
        assert account.used == 0 and not stuck.is_complete, "a slow follower does not hold up other partitions for long"

    run_virtual(main())


def test_a_large_call_that_finds_no_room_is_refused_and_a_small_one_never() -> None:
    memory = RequestMemory(8 * 1024 * 1024)
    first = memory.admit("a", 3 * 1024 * 1024)
    with pytest.raises(ResourceExhaustedError, match="no memory for a request"):
        memory.admit("a", 3 * 1024 * 1024)
    small = [memory.admit("a", SMALL_BYTES) for _ in range(100)]
    other = memory.admit("b", 3 * 1024 * 1024)
    for lease in (first, other, *small):
        lease.release()
    assert memory.statistics().used_bytes == 0
