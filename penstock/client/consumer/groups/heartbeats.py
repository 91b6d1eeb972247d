"""The heartbeats of one member: what each says, and what the coordinator knows by those that it answered.

A heartbeat says in full what the coordinator may not know, and nothing else: all of it when the member joins, and after
every failure. One is under way at a time: they must not overtake each other. Pure. Not here: when one is due, and what
an answer means for the member (membership.py).
"""

from __future__ import annotations

from penstock.client.consumer.groups.membership_state import Identity
from penstock.client.consumer.groups.subscription import GroupSubscription
from penstock.messages.groups.consumer_protocol import ConsumerGroupHeartbeatRequest, TopicIdPartitions

MemberReport = tuple[GroupSubscription, tuple[TopicIdPartitions, ...]]
"""The subscription, and the partitions that the member owns: what a heartbeat may leave out."""


class MemberHeartbeats:
    """Makes a member's heartbeats, and keeps what the coordinator knows. `under_way` is for reading."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._reported: MemberReport | None = None  # as the coordinator has it for sure
        self._reporting: MemberReport | None = None  # by the heartbeat under way
        self._acknowledges = False  # that partitions were taken back: it must say what it owns, even the same
        self.under_way: ConsumerGroupHeartbeatRequest | None = None

    @property
    def is_known(self) -> bool:
        """The coordinator knows what the member owns, and the heartbeat under way does not say otherwise."""
        return self._reported is not None and (self.under_way is None or self.under_way.owned_partitions is None)

    def has_news(self, now: MemberReport) -> bool:
        """The coordinator knows something else of the member than what holds now."""
        return self._reported is not None and self._reported != now

    def forget(self) -> None:
        """The coordinator may know nothing of the member: the next one says all."""
        self._reported = None

    def acknowledge(self) -> None:
        """The next one says what the member owns, even if that is the same."""
        self._acknowledges = True

    def say_goodbye(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        """The heartbeat by which the member leaves."""
        who = self._identity
        self._reporting = None
        self.under_way = ConsumerGroupHeartbeatRequest(who.group_id, who.member_id, epoch, instance_id=who.instance_id)
        return self.under_way

    def say(self, epoch: int, reporting: MemberReport) -> ConsumerGroupHeartbeatRequest:
        """The next heartbeat: all of the member's state where the coordinator may not know it, else only what has
        changed."""
        who, (subscription, owned), reported = self._identity, reporting, self._reported
        says_all = reported is None
        names: tuple[str, ...] | None = None
        pattern: str | None = None
        if reported is None or reported[0] != subscription:
            names, pattern = subscription.topics, subscription.pattern
            if pattern is None and reported is not None and reported[0].pattern is not None:
                pattern = ""  # no longer
        self._reporting = reporting
        self.under_way = ConsumerGroupHeartbeatRequest(
            who.group_id,
            who.member_id,
            epoch,
            instance_id=who.instance_id,
            rack_id=who.rack_id if says_all else None,
            rebalance_timeout_ms=who.rebalance_timeout_ms if says_all else -1,
            subscribed_topic_names=names,
            subscribed_topic_regex=pattern,
            server_assignor=who.assignor if says_all else None,
            owned_partitions=owned if reported is None or self._acknowledges or reported[1] != owned else None,
            client_id=who.client_id,
        )
        return self.under_way

    def ended(self) -> ConsumerGroupHeartbeatRequest | None:
        """Ends the heartbeat that was under way, and returns it: its answer has come, or will never come."""
        request, self.under_way = self.under_way, None
        return request

    def heard(self, request: ConsumerGroupHeartbeatRequest) -> None:
        """The coordinator has answered it, so it knows what it said."""
        self._reported = self._reporting
        self._acknowledges = self._acknowledges and request.owned_partitions is None

    def __repr__(self) -> str:
        return f"MemberHeartbeats({'one under way' if self.under_way is not None else 'none under way'})"
