"""One member of a consumer group (KIP-848): when its next heartbeat is due, and what the coordinator's answer changes.

Pure: it is told the time, and makes requests and steps. A *step* is a change of the assignment, which the user's thread
makes inside a poll; until then the member owns what it owned. So the order is always: the coordinator's target arrives;
partitions are revoked, and a heartbeat says so; new ones get their places, and are assigned; a heartbeat says so.

Not here: what a heartbeat says (heartbeats.py), the assignment's difference (owned_and_wanted.py), calls
(group_service.py), and commits (commits.py).
"""

from __future__ import annotations

from typing import Final

from penstock.backoff import Backoff
from penstock.client.consumer.groups.heartbeats import MemberHeartbeats, MemberReport
from penstock.client.consumer.groups.membership_state import LOST, MEMBERS, NEXT, REPLACED_BY, Identity, is_put_out_by
from penstock.client.consumer.groups.membership_state import MembershipState as S
from penstock.client.consumer.groups.owned_and_wanted import Reconciliation
from penstock.client.consumer.groups.steps import RebalanceStep, StepKind
from penstock.client.consumer.groups.subscription import GroupSubscription
from penstock.errors import ApiError, InvariantViolation
from penstock.messages.groups.consumer_protocol import (
    JOINS,
    LEAVES,
    LEAVES_FOR_A_WHILE,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicIdPartitions,
)

HEARTBEAT_MS: Final = 5_000
"""The interval until the coordinator has given its own."""
HEARTBEAT_MS_MIN: Final = 50


class Membership:
    """One member. `state`, `epoch` and `heartbeat_interval_ms` are for reading."""

    def __init__(self, identity: Identity, backoff: Backoff) -> None:
        self.identity = identity
        self.state = S.ABSENT
        self.epoch = JOINS
        self.heartbeat_interval_ms = HEARTBEAT_MS
        self.subscription = GroupSubscription()
        self.reconciliation = Reconciliation()
        self.last_error: ApiError | None = None  # of the last heartbeat; None once one was answered
        self._backoff = backoff
        self._refusal: ApiError | None = None
        self._heartbeats = MemberHeartbeats(identity)
        self._next_ms = self._failures = 0
        self._must_say_goodbye = False  # the coordinator may have this member, and is to be told that it left

    @property
    def is_member(self) -> bool:  # the coordinator takes its commits
        return self.epoch > JOINS and self.state in MEMBERS | {S.LEAVING, S.REFUSED}

    def _become(self, state: S) -> None:
        if state is not self.state and state not in NEXT[self.state]:
            raise InvariantViolation(f"a member of {self.identity.group_id} went from {self.state} to {state}")
        self.state = state

    # -- the user's wishes ---------------------------------------------------------------------------------------------

    def subscribe(self, subscription: GroupSubscription, now_ms: int) -> None:
        """The coordinator is told at once."""
        self.subscription = subscription
        if self.state is S.ABSENT:
            self._join(now_ms)

    def _join(self, now_ms: int) -> None:
        """Joins the group; after a failure only when a back-off is over, because a group that fences every time would
        be stormed."""
        self._become(S.JOINING)
        self.epoch = JOINS
        self.reconciliation.begin()
        self._heartbeats.forget()
        self._next_ms = now_ms + (self._backoff.wait_ms(self._failures) if self._failures else 0)

    def begin_leaving(self) -> None:
        """The member's next step gives up everything; after that the member leaves."""
        if self.state is S.ABSENT:
            return
        if not self.is_member:
            self.epoch = JOINS
        self._become(S.LEAVING)
        self.reconciliation.set_target(())
        self._failures = 0
        if not self._must_say_goodbye:
            self._leave_is_done()

    def abandon(self) -> None:
        """Out of the group, whatever the coordinator has heard."""
        if self.state is not S.ABSENT:
            self._become(S.LEAVING)
            self._leave_is_done()

    def _leave_is_done(self) -> None:
        self._must_say_goodbye = False
        if self.state is S.LEAVING and not self.reconciliation.owned:
            self._become(S.ABSENT)
        self.epoch = JOINS
        self._failures = 0

    # -- polls ---------------------------------------------------------------------------------------------------------

    def on_not_polled(self) -> None:
        """The user has not polled for max_poll_interval_ms: others get the partitions."""
        if self.state in MEMBERS or (self.state is S.JOINING and self._must_say_goodbye):
            self._become(S.STALE)
            self._failures = 0

    def on_poll(self, now_ms: int) -> None:
        """The user polls (again)."""
        if self.state in (S.STALE, S.FENCED) and not self.reconciliation.owned:
            self._join(now_ms)

    def take_refusal(self, now_ms: int) -> ApiError | None:
        """The error to raise, once the user has been told of lost partitions. Then the member tries to join again."""
        if self.state is not S.REFUSED or self.reconciliation.owned:
            return None
        refusal, self._refusal = self._refusal, None
        self._join(now_ms)
        return refusal

    # -- heartbeats ----------------------------------------------------------------------------------------------------

    def next_due_ms(self) -> int | None:
        """The time at which the next heartbeat is due; None if none is to be sent."""
        if self._heartbeats.under_way is not None:
            return None
        if self._leave_epoch() is not None:
            return self._next_ms if self._failures else 0
        if self.state not in MEMBERS | {S.JOINING, S.LEAVING}:
            return None
        has_news = self._heartbeats.has_news(self._to_report())
        return 0 if has_news and not self._failures else self._next_ms

    def heartbeat(self, now_ms: int) -> ConsumerGroupHeartbeatRequest | None:
        """The heartbeat that is due, if any."""
        due_ms = self.next_due_ms()
        if due_ms is None or due_ms > now_ms:
            return None
        leave_epoch = self._leave_epoch()
        if leave_epoch is not None:
            return self._heartbeats.say_goodbye(leave_epoch)
        self._must_say_goodbye = True
        return self._heartbeats.say(self.epoch, self._to_report())

    def _leave_epoch(self) -> int | None:
        """The epoch by which it leaves, if it is to tell that now."""
        gives_up = self.state is S.LEAVING and not self.reconciliation.owned
        if not self._must_say_goodbye or not (gives_up or self.state is S.STALE):
            return None
        return LEAVES if self.identity.instance_id is None else LEAVES_FOR_A_WHILE

    def _to_report(self) -> MemberReport:
        owned = tuple(
            TopicIdPartitions(topic_id, parts) for topic_id, parts in self.reconciliation.owned_by_id().items()
        )
        return self.subscription, owned

    # -- answers -------------------------------------------------------------------------------------------------------

    def on_answer(self, answer: ConsumerGroupHeartbeatResponse, now_ms: int) -> None:
        """The answer to the heartbeat under way."""
        request = self._heartbeats.ended()
        if request is None:
            return
        self._failures, self.last_error = 0, None
        interval_ms = answer.heartbeat_interval_ms or self.heartbeat_interval_ms
        self.heartbeat_interval_ms = max(interval_ms, HEARTBEAT_MS_MIN)
        self._next_ms = now_ms + self.heartbeat_interval_ms
        if request.member_epoch < JOINS:
            self._leave_is_done()
            return
        if self.state not in MEMBERS | {S.JOINING, S.LEAVING}:
            return  # it has left, or was put out, meanwhile
        self.epoch = answer.member_epoch
        self._heartbeats.heard(request)
        if self.state is S.LEAVING:
            return
        if answer.assignment is not None and self.reconciliation.set_target(answer.assignment):
            self._heartbeats.acknowledge()  # what it never took has no other sign that it gave it up
        self._judge()

    def _judge(self) -> None:
        """Stable or reconciling, by what there is to do."""
        if self.state in MEMBERS or (self.state is S.JOINING and self.epoch > JOINS):
            self._become(S.STABLE if self.reconciliation.is_done else S.RECONCILING)

    def on_error(self, error: ApiError, now_ms: int) -> None:
        """The heartbeat under way was refused, or had no answer."""
        request = self._heartbeats.ended()
        if request is None:
            return
        self._heartbeats.forget()
        self.last_error = error
        self._failures += 1
        self._next_ms = now_ms + self._backoff.wait_ms(self._failures)
        if request.member_epoch < JOINS:
            if not error.retriable:
                self._leave_is_done()
        elif is_put_out_by(error, request.member_epoch):
            self._on_fenced(now_ms)
        elif not error.retriable:
            is_replaced = isinstance(error, REPLACED_BY)
            self._must_say_goodbye = request.member_epoch > JOINS and not is_replaced
            if self.state is S.LEAVING:
                if not self._must_say_goodbye:
                    self._leave_is_done()
            elif self.state in MEMBERS | {S.JOINING}:
                self._refused(error)

    def _on_fenced(self, now_ms: int) -> None:
        """The member's partitions are lost. It joins anew once the user knows; BEFORE that they count as its own."""
        self._must_say_goodbye = False
        if self.state is S.LEAVING:
            self._leave_is_done()
        elif self.reconciliation.owned:
            self._become(S.FENCED)
        elif self.state in MEMBERS | {S.JOINING}:
            self._join(now_ms)

    def refuse(self, error: ApiError) -> None:
        """Another call of the group was refused in a way that asking again does not mend: the user is told."""
        if self.state in MEMBERS:
            self._refused(error)

    def _refused(self, error: ApiError) -> None:
        """The member gives its partitions up, still as a member if it is one."""
        if isinstance(error, REPLACED_BY):
            self.epoch = JOINS
        self._refusal = error
        self._become(S.REFUSED)
        self.reconciliation.set_target(())

    # -- steps ---------------------------------------------------------------------------------------------------------

    def step(self) -> RebalanceStep | None:
        """The next change that the user's thread is to make, if any. Nothing is taken while the coordinator may hear,
        or has heard, that the member does not own it: it gives that to others at once."""
        if self.is_member:
            return self.reconciliation.step(may_take=self._heartbeats.is_known)
        owned = tuple(self.reconciliation.owned)
        return RebalanceStep(StepKind.LOSE, owned) if owned and self.state in LOST | {S.LEAVING} else None

    def on_done(self, step: RebalanceStep, now_ms: int) -> None:
        """The change is made; the next heartbeat tells it."""
        self.reconciliation.on_done(step)
        if self.state in (S.STALE, S.FENCED) and not self.reconciliation.owned:
            self._join(now_ms)
        elif self.state is S.LEAVING and not self.reconciliation.owned and not self._must_say_goodbye:
            self._become(S.ABSENT)
        self._judge()

    def hasten(self, now_ms: int) -> None:
        """The coordinator knows something newer than this member: the next heartbeat is due now."""
        if not self._failures:
            self._next_ms = min(self._next_ms, now_ms)

    def __repr__(self) -> str:
        return f"Membership({self.identity.group_id}, {self.state.name}, epoch={self.epoch})"
