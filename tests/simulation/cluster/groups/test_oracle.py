"""The oracle of groups finds what cannot be true, and nothing else."""

from __future__ import annotations

import pytest

from tests.simulation.cluster.groups.oracle import GroupOracle, Life, Spot

P0, P1 = Spot("t", 0), Spot("t", 1)


class Watch:
    """An oracle with a clock, and what it has reported."""

    def __init__(self, *, may_expire: bool = False, reads_all: bool = False) -> None:
        self.now_s, self.found = 0.0, []
        self.oracle = GroupOracle(
            "g",
            lambda: self.now_s,
            lambda kind, text: self.found.append((kind, text)),
            may_expire=may_expire,
            reads_all=reads_all,
        )

    def member(self, name: str, epoch: int, *spots: Spot, identity: str = "") -> Life:
        life = Life(name, identity or name)
        self.oracle.begins(life)
        self.oracle.holds(life, epoch, spots)
        return life


def test_two_members_have_a_partition_in_one_epoch() -> None:
    watch = Watch()
    watch.member("a", 3, P0)
    watch.member("b", 3, P0)
    assert [kind for kind, _ in watch.found] == ["group-two-owners"]


def test_a_partition_is_taken_from_a_member_that_is_heard_as_its_owner_afterwards() -> None:
    watch = Watch()
    old = watch.member("a", 3, P0)
    watch.now_s = 1.0
    watch.member("b", 4, P0)
    watch.oracle.was_heard(old, 0.9)  # this heartbeat may have been taken before
    assert not watch.found
    watch.oracle.holds(old, 4, ())  # told to give it up, when another had it
    watch.oracle.was_heard(old, 1.1)
    assert [kind for kind, _ in watch.found] == ["group-two-owners"]


@pytest.mark.parametrize(("sent_s", "wrong"), [(1.0, 0), (4.0, 1)])
def test_a_late_answer_is_about_when_its_request_was_sent(sent_s: float, wrong: int) -> None:
    """Its session is over since, its group was forgotten, and another has the partition as the epochs begin anew."""
    watch = Watch()
    old = watch.member("a", 1, P0)
    watch.now_s = 4.7
    watch.oracle.was_heard(old, sent_s)
    watch.oracle.holds(old, 2, (P0,), sent_s)
    watch.now_s = 5.0
    watch.member("b", 1, P0)
    assert [kind for kind, _ in watch.found] == ["group-two-owners"] * wrong


def test_a_partition_of_a_member_that_was_put_out_may_be_taken() -> None:
    watch = Watch()
    old = watch.member("a", 3, P0)
    watch.now_s = 1.0
    watch.member("b", 4, P0)
    watch.oracle.gone(old)
    watch.oracle.begins(old)
    watch.oracle.holds(old, 5, ())
    watch.oracle.was_heard(old, 2.0)
    assert not watch.found


def test_epochs_begin_anew_when_nobody_was_heard_of_for_a_session() -> None:
    watch = Watch()
    watch.member("a", 1, P0)
    watch.now_s = 3.0
    watch.member("b", 1, P0)
    assert not watch.found


def test_epochs_begin_anew_though_who_was_put_out_has_joined_again() -> None:
    watch = Watch()
    old = watch.member("a", 1, P0)
    watch.now_s = 3.0
    watch.oracle.holds(old, 0, ())  # it hears that it was put out
    watch.oracle.joins_anew(old)
    watch.oracle.holds(old, 1, ())
    watch.member("b", 1, P0)
    assert not watch.found
    watch.oracle.holds(old, 1, (P0,))
    assert [kind for kind, _ in watch.found] == ["group-two-owners"]


def test_the_next_life_of_a_static_member_has_its_partitions_in_the_same_epoch() -> None:
    watch = Watch()
    watch.member("a.1", 3, P0, identity="static")
    watch.member("a.2", 3, P0, identity="static")
    assert not watch.found


def test_a_committed_offset_goes_back_is_invented_was_not_processed_or_came_late() -> None:
    watch = Watch()
    life = watch.member("a", 1, P0)
    watch.oracle.processed(P0, 0, 10)
    watch.oracle.commits(life, {P0: 5})
    watch.oracle.acknowledged(P0, 5)
    watch.now_s = 1.0
    watch.oracle.fetched(P0, 5, 0.5)
    watch.oracle.fetched(P0, -1, 0.0)  # asked before the acknowledgement
    assert not watch.found
    watch.oracle.fetched(P0, -1, 0.5)
    watch.oracle.fetched(P0, 7, 0.5)
    watch.oracle.commits(life, {P0: 11})
    watch.oracle.came_late(life, P0, 7, 0)
    found = ["group-committed", "group-committed", "group-unprocessed", "group-committed"]
    assert [kind for kind, _ in watch.found] == found


def test_an_offset_that_may_expire_may_be_gone_or_sent_anew_and_no_other_one_is_told() -> None:
    watch = Watch(may_expire=True)
    life = watch.member("a", 1, P0)
    watch.oracle.processed(P0, 0, 10)
    for watch.now_s, offset in ((1.0, 4), (2.0, 6), (3.0, 9)):
        watch.oracle.commits(life, {P0: offset})
        watch.oracle.acknowledged(P0, offset)
    watch.now_s = 4.0
    watch.oracle.fetched(P0, -1, 4.0)
    watch.oracle.commits(life, {P0: 4})
    watch.oracle.acknowledged(P0, 4)
    watch.now_s = 5.0
    watch.oracle.fetched(P0, 4, 5.0)
    assert not watch.found
    watch.oracle.fetched(P0, 6, 5.0)
    assert [kind for kind, _ in watch.found] == ["group-committed"]


def test_nothing_expires_while_one_member_reads_it_all_the_time() -> None:
    for is_put_out in (True, False):
        watch = Watch(may_expire=True, reads_all=True)
        a, b = watch.member("a", 1, P0), watch.member("b", 1)
        watch.oracle.processed(P0, 0, 10)
        watch.now_s = 1.0
        watch.oracle.commits(a, {P0: 4})
        watch.oracle.acknowledged(P0, 4)
        watch.now_s = 2.0
        watch.oracle.gone(a)
        watch.now_s = 3.0
        watch.oracle.fetched(P0, -1, 3.0)
        if is_put_out:
            watch.oracle.joins_anew(b)
        watch.oracle.was_heard(b, 2.5)
        assert not watch.found
        watch.oracle.was_heard(b, 3.5)
        assert [kind for kind, _ in watch.found] == ([] if is_put_out else ["group-committed"])


def test_a_group_is_at_rest_when_its_partitions_are_shared_evenly_in_one_epoch() -> None:
    watch = Watch()
    a = watch.member("a", 2, P0, P1)
    b = watch.member("b", 1)
    assert "epochs" in watch.oracle.unrest((P0, P1), is_even=True)
    watch.oracle.holds(b, 2, ())
    assert "shares" in watch.oracle.unrest((P0, P1), is_even=True)
    assert not watch.oracle.unrest((P0, P1), is_even=False)
    watch.oracle.holds(a, 2, (P0,))
    assert "nobody has" in watch.oracle.unrest((P0, P1), is_even=True)
    watch.oracle.holds(b, 2, (P1,))
    assert not watch.oracle.unrest((P0, P1), is_even=True)


def test_a_member_that_was_silent_for_a_session_joins_by_its_old_id_without_a_word() -> None:
    """A JoinGroup of a classic member among members of the consumer protocol makes it a member anew."""
    watch = Watch()
    old = watch.member("a", 3, P0)
    watch.now_s = 3.0
    watch.member("b", 4, P0)
    watch.oracle.holds(old, 5, ())
    watch.oracle.was_heard(old, 3.1)
    assert not watch.found
