"""The topics that a classic group reads, as its members' bytes say it."""

from __future__ import annotations

from broker.groups.classic.classic_groups import subscribed_topics
from penstock.messages.groups.classic_protocol import JoinGroupProtocol
from penstock.wire.consumer_protocol import ConsumerProtocolSubscription, encode_consumer_protocol
from tests.support.classic_group_core import DELAY_MS, ClassicGroupCore, join, leave


def reads(*topics: str, version: int = 3) -> tuple[JoinGroupProtocol, ...]:
    subscription = ConsumerProtocolSubscription(topics=list(topics))
    return (JoinGroupProtocol("range", encode_consumer_protocol(subscription, version)),)


def topics_of(core: ClassicGroupCore) -> frozenset[str] | None:
    return subscribed_topics(core.group())


def group_of(*protocols: tuple[JoinGroupProtocol, ...], protocol_type: str = "consumer") -> ClassicGroupCore:
    core = ClassicGroupCore()
    for one in protocols:
        core.send(join(requires_known_member_id=False, protocols=one, protocol_type=protocol_type))
    core.advance(2 * DELAY_MS)
    return core


def test_a_group_reads_what_any_of_its_members_reads() -> None:
    assert topics_of(group_of(reads("a", "b"), reads("b", "c", version=0))) == {"a", "b", "c"}


def test_a_group_without_members_reads_nothing() -> None:
    core = ClassicGroupCore()
    core.ask(leave(*core.stable(1)))
    assert topics_of(core) == frozenset()


def test_one_subscription_that_is_none_leaves_all_unknown() -> None:
    assert topics_of(group_of(reads("a"), (JoinGroupProtocol("range", b"?"),))) is None
    assert topics_of(group_of((JoinGroupProtocol("range", b"\x00\x00\x7f\xff\xff\xff"),))) is None


def test_a_group_of_another_type_is_not_read() -> None:
    assert topics_of(group_of(reads("a"), protocol_type="connect")) is None


def test_the_next_generation_is_read_anew() -> None:
    core = group_of(reads("a"))
    assert topics_of(core) == {"a"}
    (member_id,) = core.group().members
    core.send(join(member_id=member_id, protocols=reads("b")))
    assert core.group().generation == 2
    assert topics_of(core) == {"b"}
