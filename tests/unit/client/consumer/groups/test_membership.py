"""A member's heartbeats say what its coordinator may not know; what it owns changes when the user's thread has made the
change."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from penstock.backoff import Backoff
from penstock.client.consumer.groups.membership import Membership
from penstock.client.consumer.groups.membership_state import Identity, MembershipState
from penstock.client.consumer.groups.steps import CommittedPlace, StepKind
from penstock.client.consumer.groups.subscription import GroupSubscription
from penstock.errors import (
    ApiError,
    CoordinatorLoadInProgressError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    InvalidRegularExpressionError,
    InvalidRequestError,
    InvariantViolation,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
)
from penstock.messages.groups.consumer_protocol import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicIdPartitions,
)
from penstock.types import TopicPartition

NAMES = {"id-a": "a", "id-b": "b"}
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class Script:
    """A member, and a coordinator that says what the test wants."""

    def __init__(self, instance_id: str | None = None) -> None:
        self.member = Membership(
            Identity("g", "m-1", 300_000, instance_id, rack_id="r1", assignor="range", client_id="c"),
            Backoff(100, 1_000, Random(0)),
        )
        self.now_ms = 0

    def subscribe(self, *topics: str, pattern: str | None = None) -> None:
        self.member.subscribe(GroupSubscription(topics, pattern), self.now_ms)

    def heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        request = self.member.heartbeat(self.now_ms)
        assert request is not None
        return request

    def answer(self, epoch: int, *owned: TopicPartition, same: bool = False) -> None:
        assignment = None if same else tuple(TopicIdPartitions(f"id-{tp.topic}", (tp.partition,)) for tp in owned)
        self.member.on_answer(ConsumerGroupHeartbeatResponse("m-1", epoch, 1_000, assignment), self.now_ms)

    def fail(self, error: ApiError) -> None:
        self.member.on_error(error, self.now_ms)

    def prepare(self, places: Iterable[TopicPartition] | None = None) -> None:
        found = self.member.reconciliation
        found.learn_names(NAMES)
        found.learn_places(dict.fromkeys(found.unplaced if places is None else places, CommittedPlace(5)))

    def make(self, kind: StepKind, *partitions: TopicPartition) -> None:
        step = self.member.step()
        assert step is not None and (step.kind, set(step.partitions)) == (kind, set(partitions))
        self.member.on_done(step, self.now_ms)

    def stable(self, *owned: TopicPartition) -> None:
        """A member that has these, and whose coordinator knows it."""
        self.subscribe("a", "b")
        self.heartbeat()
        self.answer(1, *owned)
        self.prepare()
        if owned:
            self.make(StepKind.ASSIGN, *owned)
            self.heartbeat()
            self.answer(1, same=True)
        assert self.member.state is MembershipState.STABLE


def test_a_first_heartbeat_says_everything_and_later_ones_only_what_has_changed() -> None:
    script = Script()
    assert script.member.heartbeat(0) is None, "nobody has subscribed"
    script.subscribe("a")
    first = script.heartbeat()
    assert first == ConsumerGroupHeartbeatRequest(
        "g", "m-1", 0, None, "r1", 300_000, ("a",), None, "range", (), client_id="c"
    )
    assert script.member.heartbeat(9_999) is None, "one is under way at a time"
    script.answer(3)
    assert script.member.state is MembershipState.STABLE and script.member.heartbeat(999) is None
    script.now_ms = 1_000  # as the coordinator has told
    assert script.heartbeat() == ConsumerGroupHeartbeatRequest("g", "m-1", 3, client_id="c")


def test_partitions_are_given_up_then_told_and_only_then_are_others_taken() -> None:
    script = Script()
    script.stable(A0, A1)
    script.now_ms = 1_000
    script.heartbeat()
    script.answer(1, A0)
    assert script.member.state is MembershipState.RECONCILING
    script.prepare()
    script.make(StepKind.REVOKE, A1)
    heartbeat = script.heartbeat()  # at once
    assert (heartbeat.member_epoch, heartbeat.owned_partitions) == (1, (TopicIdPartitions("id-a", (0,)),))
    assert heartbeat.subscribed_topic_names is None
    script.answer(2, A0, B0)
    assert script.member.step() is None, "its place is not known yet"
    script.prepare()
    script.make(StepKind.ASSIGN, B0)
    assert script.heartbeat().owned_partitions == (TopicIdPartitions("id-a", (0,)), TopicIdPartitions("id-b", (0,)))
    assert script.member.state is MembershipState.STABLE


def test_nothing_is_taken_while_the_coordinator_may_hear_that_the_member_does_not_own_it() -> None:
    script = Script()
    script.stable(A0)
    script.now_ms = 1_000
    script.heartbeat()
    script.answer(2, A0, A1)
    script.fail(CoordinatorLoadInProgressError("it loads"))  # nothing is under way
    script.now_ms = 2_000
    script.heartbeat()
    script.prepare()
    assert script.member.step() is not None, "this heartbeat says nothing of what the member owns"
    script.fail(CoordinatorLoadInProgressError("it loads"))
    assert script.member.step() is None, "its answer is lost: it may have taken the partition back"
    script.now_ms = 9_000
    assert script.heartbeat().owned_partitions == (TopicIdPartitions("id-a", (0,)),)
    assert script.member.step() is None, "the coordinator gives the partition away as soon as it hears that"
    script.answer(2, A0, A1)
    script.make(StepKind.ASSIGN, A1)


def test_what_a_member_never_took_is_given_up_by_saying_what_it_owns_though_that_is_the_same() -> None:
    script = Script()
    script.stable(A0)
    script.now_ms = 1_000
    assert script.heartbeat().owned_partitions is None
    script.answer(2, A0, A1)  # its place is not known yet
    script.now_ms = 2_000
    assert script.heartbeat().owned_partitions is None
    script.answer(2, A0)  # and it is taken back
    script.now_ms = 3_000
    assert script.heartbeat().owned_partitions == (TopicIdPartitions("id-a", (0,)),)
    script.answer(3, same=True)
    script.now_ms = 4_000
    assert script.heartbeat().owned_partitions is None


def test_a_topic_that_was_made_anew_is_given_up_before_it_is_taken() -> None:
    script = Script()
    script.stable(A0)
    script.now_ms = 1_000
    script.heartbeat()
    anew = (TopicIdPartitions("id-new", (0,)),)
    script.member.on_answer(ConsumerGroupHeartbeatResponse("m-1", 2, 1_000, anew), 1_000)
    script.member.reconciliation.learn_names({"id-new": "a"})
    assert not script.member.reconciliation.unplaced, "its place counts once the old one is gone"
    script.make(StepKind.REVOKE, A0)
    assert script.member.reconciliation.unplaced == {A0: "id-new"}
    script.prepare()
    script.make(StepKind.ASSIGN, A0)
    assert script.member.reconciliation.owned == {A0: "id-new"}


def test_a_place_that_was_looked_up_for_an_older_target_is_looked_up_again() -> None:
    script = Script()
    script.subscribe("a")
    script.heartbeat()
    script.answer(1, A0)
    script.prepare()
    script.now_ms = 1_000
    script.heartbeat()
    script.answer(2)  # another member commits now
    script.now_ms = 2_000
    script.heartbeat()
    script.answer(3, A0)
    script.member.reconciliation.learn_names(NAMES)
    assert script.member.step() is None and script.member.reconciliation.unplaced == {A0: "id-a"}


@pytest.mark.parametrize("error", [UnknownMemberIdError(), FencedMemberEpochError(), GroupIdNotFoundError("deleted")])
def test_a_fenced_member_loses_what_it_has_and_joins_anew_once_the_user_knows(error: ApiError) -> None:
    script = Script()
    script.stable(A0)
    script.now_ms = 1_000
    script.heartbeat()
    script.fail(error)
    assert script.member.state is MembershipState.FENCED and not script.member.is_member
    assert script.member.heartbeat(99_999) is None, "not before the user knows"
    script.make(StepKind.LOSE, A0)
    assert script.member.heartbeat(1_000) is None, "a group that always fences is not stormed"
    script.now_ms = 1_100
    again = script.heartbeat()
    assert (again.member_epoch, again.owned_partitions, again.subscribed_topic_names) == (0, (), ("a", "b"))


def test_after_a_failure_everything_is_said_again_and_later_and_later() -> None:
    script = Script()
    script.stable(A0)
    waits = []
    for _ in range(5):
        script.now_ms = script.member.next_due_ms() or 0
        full = script.heartbeat()
        script.fail(CoordinatorLoadInProgressError())
        waits.append((script.member.next_due_ms() or 0) - script.now_ms)
    assert full.rebalance_timeout_ms == 300_000 and full.owned_partitions == (TopicIdPartitions("id-a", (0,)),)
    assert full.member_epoch == 1, "it is still a member"
    for wait, most in zip(waits, [100, 200, 400, 800, 1_000], strict=True):
        assert most * 4 // 5 <= wait <= most
    assert script.member.is_member, "and may commit"


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
def test_a_member_leaves_once_its_partitions_are_given_up(instance_id: str | None, epoch: int) -> None:
    script = Script(instance_id)
    script.stable(A0)
    script.member.begin_leaving()
    script.now_ms = 1_000
    assert script.heartbeat().member_epoch == 1, "the user's callback may take long"
    script.answer(1, A0)
    script.make(StepKind.REVOKE, A0)
    goodbye = script.heartbeat()
    assert goodbye == ConsumerGroupHeartbeatRequest("g", "m-1", epoch, instance_id)
    script.answer(epoch, same=True)
    assert script.member.state is MembershipState.ABSENT and script.member.heartbeat(99_999) is None


def test_a_member_that_joins_is_answered_before_it_leaves() -> None:
    script = Script()
    script.subscribe("a")
    script.heartbeat()
    script.member.begin_leaving()
    assert script.member.heartbeat(50) is None, "the join might come after it, and stay"
    script.answer(1, A0)
    assert script.member.step() is None
    assert script.heartbeat().member_epoch == -1


def test_a_member_that_has_never_asked_leaves_without_a_word() -> None:
    script = Script()
    script.subscribe("a")
    script.member.begin_leaving()
    assert script.member.state is MembershipState.ABSENT and script.member.heartbeat(0) is None


def test_a_member_that_is_fenced_while_it_leaves_has_lost_what_it_had() -> None:
    script = Script()
    script.stable(A0)
    script.member.begin_leaving()
    script.now_ms = 1_000
    script.heartbeat()
    script.fail(UnknownMemberIdError())
    script.make(StepKind.LOSE, A0)
    assert script.member.state is MembershipState.ABSENT


def test_who_does_not_poll_leaves_and_comes_back_at_the_next_poll() -> None:
    script = Script()
    script.stable(A0)
    script.member.on_not_polled()
    assert not script.member.is_member
    assert script.heartbeat().member_epoch == -1
    script.answer(-1, same=True)
    assert script.member.heartbeat(99_999) is None
    script.member.on_poll(2_000)
    assert script.member.state is MembershipState.STALE, "first it is to be told of its loss"
    script.make(StepKind.LOSE, A0)
    assert script.heartbeat().member_epoch == 0


@pytest.mark.parametrize(
    "error",
    [GroupMaxSizeReachedError("full"), UnreleasedInstanceIdError("in use"), GroupIdNotFoundError("cannot be moved")],
)
def test_a_refusal_is_raised_once_and_joining_is_tried_again(error: ApiError) -> None:
    script = Script()
    script.subscribe("a")
    script.heartbeat()
    script.fail(error)
    assert script.member.heartbeat(99_999) is None
    assert script.member.take_refusal(0) is error and script.member.take_refusal(0) is None
    assert script.member.heartbeat(0) is None and script.member.heartbeat(100) is not None


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (InvalidRegularExpressionError("("), StepKind.REVOKE),
        (InvalidRequestError("no"), StepKind.REVOKE),
        (FencedInstanceIdError("another has it"), StepKind.LOSE),
    ],
)
def test_a_refusal_of_a_member_waits_until_the_user_has_given_up_what_it_has(error: ApiError, kind: StepKind) -> None:
    """As a member, so that it may commit, if its coordinator has it still."""
    script = Script()
    script.stable(A0)
    script.now_ms = 1_000
    script.heartbeat()
    script.fail(error)
    assert script.member.take_refusal(1_000) is None
    assert script.member.is_member is (kind is StepKind.REVOKE)
    script.make(kind, A0)
    assert script.member.take_refusal(1_000) is error
    assert not script.member.is_member


@pytest.mark.parametrize("is_notified_first", [True, False])
def test_a_member_that_was_refused_leaves_with_a_word_because_its_coordinator_has_it_still(
    is_notified_first: bool,
) -> None:
    script = Script()
    script.stable(A0)
    script.now_ms = 1_000
    script.heartbeat()
    script.fail(GroupMaxSizeReachedError("full"))
    if is_notified_first:
        script.make(StepKind.REVOKE, A0)
    script.member.begin_leaving()
    if not is_notified_first:
        assert script.member.heartbeat(1_000) is None and script.member.is_member
        script.make(StepKind.REVOKE, A0)
    assert script.heartbeat().member_epoch == -1
    script.answer(-1, same=True)
    assert script.member.state is MembershipState.ABSENT


def test_a_pattern_replaces_topics_and_topics_a_pattern() -> None:
    script = Script()
    script.stable()
    script.subscribe(pattern="a.*")
    heartbeat = script.heartbeat()
    assert (heartbeat.subscribed_topic_names, heartbeat.subscribed_topic_regex) == ((), "a.*")
    script.answer(2, same=True)
    script.subscribe("b")
    heartbeat = script.heartbeat()
    assert (heartbeat.subscribed_topic_names, heartbeat.subscribed_topic_regex) == (("b",), "")


def test_an_answer_that_comes_after_a_member_has_left_changes_nothing() -> None:
    script = Script()
    script.stable(A0)
    script.now_ms = 1_000
    script.heartbeat()
    script.member.on_not_polled()
    script.answer(7, B0)
    assert script.member.state is MembershipState.STALE
    script.make(StepKind.LOSE, A0)


def test_no_state_follows_another_that_the_table_does_not_have() -> None:
    script = Script()
    with pytest.raises(InvariantViolation, match="went from"):
        script.member._become(MembershipState.STABLE)
