"""The consumer's part in its group: joins, changes what is read, commits, leaves. Works on one event loop.

What the coordinator's answers change is decided in membership.py. A change of the assignment is made by the user's
thread, which asks for the next one inside a poll (`next_step`, `end`), so that it is done with the records of earlier
polls. `wants_user` says that there is one. Not here: callbacks (turns.py), heartbeats (heartbeat_sender.py), and the
look-ups before partitions are taken (preparation.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from penstock.client.cluster.arguments import checked_partitions
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.consumer.fetching.fetcher import Fetcher
from penstock.client.consumer.fetching.positions import Positions
from penstock.client.consumer.groups.auto_commit import AutoCommit
from penstock.client.consumer.groups.commits import Commits, MemberStamp, ToCommit
from penstock.client.consumer.groups.group_service import GroupService
from penstock.client.consumer.groups.heartbeat_sender import HeartbeatSender
from penstock.client.consumer.groups.member_report import GroupStatistics
from penstock.client.consumer.groups.membership import Membership
from penstock.client.consumer.groups.membership_state import LOST, Identity, MembershipState
from penstock.client.consumer.groups.preparation import Preparation
from penstock.client.consumer.groups.steps import Committed, CommittedPlaces, OnCommitted, RebalanceStep, StepKind
from penstock.client.consumer.groups.subscription import GroupSubscription, Mode
from penstock.client.options.config import ConsumerConfig
from penstock.errors import AuthorizationFailedError, CommitFailedError, PenstockError, SubscriptionError
from penstock.messages.groups.offsets import OffsetCommitPartition
from penstock.types import LATEST_TIMESTAMP, CommittedOffset, TopicPartition

LEAVE_MS = 3_000
"""A consumer that ends waits this long for its coordinator. Without a goodbye the coordinator removes the member after
its session time-out."""

_log = logging.getLogger(__name__)


class JoinedGroup:
    """One consumer with a `group_id`. Other threads read `wants_user`."""

    def __init__(
        self,
        cluster: ClusterClient,
        config: ConsumerConfig,
        positions: Positions,
        fetcher: Fetcher,
        on_ready: Callable[[], object],
        member_id: str,
    ) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self._config = config
        self._positions = positions
        self._fetcher = fetcher
        self._on_ready = on_ready
        identity = Identity(
            group_id=config.group_id or "",
            member_id=member_id,
            rebalance_timeout_ms=config.max_poll_interval_ms,
            instance_id=config.group_instance_id,
            rack_id=config.client_rack or None,
            assignor=config.group_remote_assignor,
            client_id=config.client_id,
        )
        self.identity = identity
        self.member = Membership(identity, cluster.backoff)
        self._service = GroupService(cluster)
        self.heartbeats = HeartbeatSender(self.member, self._service, config, self._clock, self)
        self.preparation = Preparation(cluster, self._service, self.member, self, config.request_timeout_ms)
        self.commits = Commits(identity.group_id, cluster, self._service, self)
        self.auto_commit = AutoCommit(config.enable_auto_commit, config.auto_commit_interval_ms, self._clock.now_ms())
        self.mode = Mode.NONE
        self.wants_user = False
        self.finished: deque[tuple[OnCommitted, Committed, BaseException | None]] = deque()
        self._pinned: RebalanceStep | None = None
        self._death: BaseException | None = None  # of a task of the group: the next poll raises it
        self._committed_before: frozenset[TopicPartition] = frozenset()
        self._is_last_done = True  # a poll is under way, or the user has closed the consumer in order
        self._counts = dict.fromkeys(("rebalances", "losses", "commits"), 0)

    # -- Committer -----------------------------------------------------------------------------------------------------

    def stamp(self) -> MemberStamp:
        """The member of now; nobody where partitions are assigned by hand."""
        if self.mode is Mode.ASSIGNED:
            return MemberStamp()
        if not self.member.is_member:
            raise CommitFailedError(
                f"this consumer is no member of group {self.identity.group_id!r} now: it {self.member.state.value}"
            )
        return MemberStamp(self.identity.member_id, self.member.epoch, self.identity.instance_id)

    def on_stale_epoch(self) -> None:
        self.member.hasten(self._clock.now_ms())
        self.heartbeats.wake()

    def on_committed(self, offsets: Mapping[TopicPartition, ToCommit]) -> None:
        if offsets:
            self._counts["commits"] += 1
            self.auto_commit.on_committed(offsets)

    def on_transaction(self, parts: Sequence[OffsetCommitPartition], coordinator_id: int | None) -> None:
        """A producer's transaction has committed these positions of this consumer, by that broker if it is known."""
        if coordinator_id is not None:
            self._service.coordinated_by(self.identity.group_id, coordinator_id)
        for part in parts:
            self._positions.committed(part)

    # -- subscribing, on the loop --------------------------------------------------------------------------------------

    async def subscribe(self, subscription: GroupSubscription) -> None:
        """Lets the coordinator say what is read; the first poll that finds it begins with it."""
        if self.mode is Mode.ASSIGNED:
            raise SubscriptionError("partitions are assigned to this consumer by hand; unsubscribe() before subscribe")
        await self._cluster.wait_ready()
        self.mode = Mode.SUBSCRIBED
        self.heartbeats.polled_ms = self._clock.now_ms()
        self._cluster.track(subscription.topics)
        self.member.subscribe(subscription, self._clock.now_ms())
        self.heartbeats.begin()
        self.preparation.missing_topics.look(subscription.topics)
        self.on_changed()

    def maybe_begin_anew(self) -> None:
        """Begins what the program has cancelled among all tasks of its loop."""
        if self.member.state is not MembershipState.ABSENT:
            self.heartbeats.begin()
            self.preparation.begin()

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions by hand: new ones begin where the group has committed."""
        if self.mode is Mode.SUBSCRIBED:
            raise SubscriptionError("this consumer has subscribed, so its group assigns; unsubscribe() before assign")
        wanted = checked_partitions(partitions)
        new = [tp for tp in wanted if tp not in self._positions.states]
        committed = await self.preparation.committed(new)

        def place() -> None:
            for tp, found in committed.items():
                if found is not None and tp in self._positions.states:
                    self._positions.seek(tp, found.offset, found.leader_epoch)

        await self._fetcher.assign(wanted, place)
        self.mode = Mode.ASSIGNED if wanted else Mode.NONE

    async def begin_leaving(self, *, is_last_done: bool) -> None:
        """Gives up what is assigned by hand; what the group has assigned is given up by the next steps. `is_last_done`:
        the user is done with the records of the last poll."""
        self._is_last_done = is_last_done
        await asyncio.sleep(0)  # commits that were given to the loop before begin
        if self.mode is Mode.ASSIGNED:
            if self.auto_commit.enabled:
                self.commit_soon(self._to_commit())
                await self.commits.wait_idle()
            self._positions.assign(())
            self._fetcher.touch()
        await self.commits.wait_idle()  # BEFORE it leaves: of no member they would be refused
        self.member.begin_leaving()
        self.on_changed()

    async def leave(self, timeout_ms: int = LEAVE_MS) -> None:
        """Returns when the coordinator knows, or time is up."""
        if self.mode is Mode.SUBSCRIBED and self.member.state is not MembershipState.ABSENT:
            self._drop_rest()
            if not await self.heartbeats.wait_left(timeout_ms):
                _log.warning("group %s: the coordinator was not told that this member left", self.identity.group_id)
                self.member.abandon()
        self.mode = Mode.NONE
        self._is_last_done = True
        self.on_changed()

    def _drop_rest(self) -> None:
        """A consumer that nobody polls any more gives up what it has without a callback."""
        self._pinned = None
        while (step := self.member.step()) is not None and step.kind is not StepKind.ASSIGN:
            self._make(step)

    # -- steps: asked for by the user's thread, done on the loop -------------------------------------------------------

    async def next_step(self) -> RebalanceStep | None:
        """The change whose callback is next; positions that are given up were committed before. Raises the
        coordinator's refusal of the member."""
        self.member.on_poll(self._clock.now_ms())
        death, self._death = self._death, None
        if death is not None:
            self.maybe_begin_anew()
            raise death
        while (step := self._pinned_or_next()) is not None and step is not self._pinned:
            commits = step.kind is StepKind.REVOKE and self.auto_commit.enabled
            if not commits or self._committed_before.issuperset(step.partitions):
                self._pinned = step
                if step.kind is StepKind.ASSIGN:
                    self._make(step)
                break
            await self._commit_before(step)  # and then the coordinator may have said something else
        if step is None:
            refusal = self.member.take_refusal(self._clock.now_ms())
            self.on_changed()
            if refusal is not None:
                raise refusal
        return step

    def _pinned_or_next(self) -> RebalanceStep | None:
        """A change that was made, or told, is ended before another one begins, whatever has happened meanwhile."""
        pinned = self._pinned
        if pinned is not None and (pinned.called or pinned.kind is StepKind.ASSIGN):
            return pinned
        self._pinned = None  # the poll that was given it was interrupted before the callback
        return self.member.step()

    async def _commit_before(self, step: RebalanceStep) -> None:
        self._committed_before = frozenset(step.partitions)
        try:
            await self.commit(self._to_commit())
        except PenstockError as error:
            level = logging.DEBUG if isinstance(error, AuthorizationFailedError) else logging.WARNING  # polls raise it
            _log.log(level, "group %s: positions of revoked partitions: %s", self.identity.group_id, error)

    def _to_commit(self) -> dict[TopicPartition, ToCommit]:
        return self.auto_commit.changed(self._positions.states.values(), is_last_done=self._is_last_done)

    async def end(self, step: RebalanceStep) -> None:
        """The user's callback about the change is done. Partitions that are revoked or lost are given up now; assigned
        ones are fetched since `next_step`."""
        if step is not self._pinned:
            return
        self._pinned = None
        if step.kind is not StepKind.ASSIGN:
            self._make(step)
        self.on_changed()

    def _make(self, step: RebalanceStep) -> None:
        """Changes what is fetched, and what the next heartbeat tells."""
        places = {tp: self.member.reconciliation.places.get(tp) for tp in step.partitions}
        self.member.on_done(step, self._clock.now_ms())
        if step.kind is not StepKind.ASSIGN:
            self.auto_commit.forget(step.partitions)
            places = {}
        self._committed_before = frozenset()
        self._counts["rebalances"] += 1
        self._counts["losses"] += step.kind is StepKind.LOSE
        self._take_over(self.member.reconciliation.owned, places)

    def _take_over(self, owned: Mapping[TopicPartition, str], places: CommittedPlaces) -> None:
        """Exactly `owned` is fetched from now on; new ones begin at their places."""
        self._positions.assign(sorted(owned), self._cluster.cache)
        for tp, place in places.items():
            if place is not None:
                self._positions.seek(tp, *place)
                self.auto_commit.on_committed({tp: ToCommit(*place, topic_id=owned[tp])})
            state = self._positions.states[tp]
            state.topic_id, state.is_of_group = owned[tp], True
            state.is_new_to_group = place is None and state.reset_timestamp == LATEST_TIMESTAMP
        self._cluster.track({tp.topic for tp in owned})
        self._cluster.subscribe(self._fetcher.touch)
        self._fetcher.touch()

    # -- commits -------------------------------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[TopicPartition, ToCommit]) -> asyncio.Future[None]:
        """Commits these offsets; the future is done once they are committed."""
        return self.commits.submit(offsets, self._clock.now_ms() + self._config.request_timeout_ms)

    def commit_soon(self, offsets: Mapping[TopicPartition, ToCommit], on_done: OnCommitted | None = None) -> None:
        """A commit for which nobody waits; `on_done` is called in a poll."""

        def on_outcome(outcome: asyncio.Future[None]) -> None:
            error = None if outcome.cancelled() else outcome.exception()
            if on_done is not None:
                given = {tp: CommittedOffset(*to[:3]) for tp, to in offsets.items()}
                self.finished.append((on_done, given, error))
                self._on_ready()
            elif error is not None:
                _log.warning("group %s: a commit: %s", self.identity.group_id, error)

        self.commit(offsets).add_done_callback(on_outcome)

    def on_changed(self) -> None:
        """Something is to be looked up, told to the coordinator, or done by the user's thread, maybe."""
        self.preparation.begin()
        has_step = self._pinned is not None or self.member.step() is not None
        self.wants_user = has_step or self.member.state in LOST or self._death is not None
        self.heartbeats.wake()
        if self.wants_user:
            self._on_ready()

    def on_death(self, error: BaseException) -> None:
        """A task of the group has ended, which no code expects: the user is told, and the next poll begins it anew."""
        self._death, self.wants_user = error, True
        self._on_ready()

    # -- end -----------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Leaves the group, and ends everything. Idempotent."""
        self.member.begin_leaving()  # what is on its way is not waited for: the user's own close has done that
        await self.leave()
        await self.preparation.close()
        await self.commits.close()
        await self.heartbeats.close()

    def statistics(self) -> GroupStatistics:
        return GroupStatistics(heartbeats=self.heartbeats.sent, **self._counts)

    def __repr__(self) -> str:
        return f"JoinedGroup({self.member!r}, {self.mode.name})"
