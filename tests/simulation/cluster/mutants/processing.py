"""Mistakes about offsets that are part of a transaction, and the stories that bring them out: read, process, write."""

from __future__ import annotations

from broker.groups.consumer import request_checks
from broker.groups.coordinator.transactional_offsets import TransactionalOffsets
from broker.groups.offsets.fetches import OffsetFetches
from broker.groups.offsets.offsets_state import GroupOffsetsState
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.groups import CONFIG as GROUPS_CONFIG
from tests.simulation.cluster.mutants.groups import STOPS
from tests.simulation.cluster.mutants.stories import directed, with_parts
from tests.simulation.cluster.plan import Fault, Plan, ProcessingPlan, ReaderPlan, TopicKind, TopicPlan, WriterPlan

CONFIG = {
    **GROUPS_CONFIG,
    "transaction.state.log.num.partitions": 2,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 1,
}


def processed(*faults: Fault, tellings: int = 4, timeout_ms: int = 8_000) -> tuple[Plan, ...]:
    """A topic of four partitions, of which three members make another one."""
    topics = (TopicPlan("topic-0", 4, 3, {}), TopicPlan("made", 2, 3, {}, TopicKind.TRANSACTED))
    writers = (WriterPlan("topic-0", 0, 0.02, 1, is_keyed=False),)
    processing = ProcessingPlan("processing", ("topic-0",), "made", 3, 0.05, 20, timeout_ms)
    readers = (ReaderPlan("topic-0", 0.2),)
    story = directed(*faults, topics=topics, writers=writers, readers=readers, tellings=tellings)
    return with_parts(story, CONFIG, seconds=10.0, processings=(processing,))


PROCESSED = processed()
PROCESSED_WHILE_LEADERS_STOP = processed(*STOPS)

PROCESSING = (
    Mutant(
        "an offset that waits for its transaction is told",
        "KIP-447: pending offsets",
        (
            Edit(
                GroupOffsetsState.replay_pending,
                "self.pending.put(producer_id, key.group, place, value, self.reserved(key, value))",
                "self._commit(key.group, key.topic, key.partition, value)",
            ),
        ),
        stories=PROCESSED,
    ),
    Mutant(
        "offsets of a transaction are taken from whoever has been a member",
        "KIP-447: fencing by the member epoch",
        (
            Edit(
                request_checks.check_transactional_commit,
                "if request.member_epoch < 0 and not group.members:",
                "if True:",
            ),
        ),
        stories=PROCESSED,
    ),
    Mutant(
        "offsets of an aborted transaction count",
        "KIP-98",
        (Edit(GroupOffsetsState.replay_end, " if is_committed else ()", ""),),
        stories=PROCESSED,
    ),
    Mutant(
        "a member is told an offset that may change at any moment",
        "KIP-447: require_stable",
        (
            Edit(
                OffsetFetches._unstable,
                "if not is_stable or not self._state.pending.has(group_id, place):",
                "if True:",
            ),
        ),
        stories=PROCESSED,
    ),
    Mutant(
        "a transaction does not know of the offsets that are part of it",
        "KIP-890: offsets, too",
        (
            Edit(
                TransactionalOffsets.submit,
                "not shard.is_serving\n",
                "True\n",
            ),
        ),
        stories=PROCESSED,
    ),
)
