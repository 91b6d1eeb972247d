"""Mistakes about topics that get more partitions: of the controller, of brokers that host them, and of clients."""

from __future__ import annotations

from broker.quorum.metadata_publisher import MetadataPublisher
from metadata import replay
from metadata.controller.topics import assignments, new_partitions, placement
from metadata.delta import MetadataDelta
from penstock.client.consumer.fetching.positions import Positions
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.stories import TOGETHER, directed
from tests.simulation.cluster.plan import Aim, Fault, Kind, OperatorPlan, ReaderPlan, Task, WriterPlan

GROWERS = (OperatorPlan(Task.GROW, "topic-0", 0.4),)
CALM_GROWTH = directed(operators=GROWERS, seconds=4.0)
KEYED_GROWTH = directed(
    operators=GROWERS,
    writers=(WriterPlan("topic-0", 0, 0.02, 2, is_keyed=True),),
    readers=(ReaderPlan("topic-0", 0.3),),
    seconds=5.0,
)
GROWTH_WITHOUT_A_BROKER = directed(
    Fault(0.5, Kind.KILL, 1, 0, 4.0, 0.5, Aim.FOLLOWER), operators=GROWERS, copies=2, roles=TOGETHER
)

MAKERS = (OperatorPlan(Task.MAKE, "topic-0", 0.3),)
MADE_WITHOUT_A_BROKER = directed(operators=MAKERS, seconds=5.0)

ABSENT_LIKE_OTHERS = (
    Edit(placement._orders, "[broker for broker in brokers if broker.is_active]", "brokers"),
    Edit(placement._orders, "[broker for broker in brokers if not broker.is_active]", "[]"),
)
ABSENT_IN_SYNC = Edit(
    assignments.partition_record,
    "tuple(replica for replica in replicas if context.state.is_active(replica))",
    "replicas",
)

GROWTH = (
    Mutant(
        "placement counts the brokers in service alone",
        "KIP-841",
        (
            Edit(
                assignments.brokers_for,
                "registered = context.state.brokers",
                "registered = {one.broker_id: one for one in context.state.active_brokers()}",
            ),
        ),
        (Kind.STOP, Kind.KILL),
        is_replicated=None,
        stories=MADE_WITHOUT_A_BROKER,
    ),
    Mutant(
        "one broker out of service is taken for all of them",
        "KIP-841",
        (Edit(assignments.brokers_for, "not any(broker.is_active for", "not all(broker.is_active for"),),
        (Kind.STOP, Kind.KILL),
        is_replicated=None,
        stories=MADE_WITHOUT_A_BROKER,
    ),
    Mutant(
        "an absent replica of a new partition is in sync",
        "KIP-841",
        (ABSENT_IN_SYNC,),
        (Kind.STOP, Kind.KILL),
        is_replicated=None,
        stories=MADE_WITHOUT_A_BROKER,
    ),
    Mutant(
        "an absent broker is the preferred leader of new partitions",
        "KIP-841",
        (*ABSENT_LIKE_OTHERS,),
        (Kind.STOP, Kind.KILL),
        is_replicated=None,
        stories=MADE_WITHOUT_A_BROKER,
    ),
    Mutant(
        "new partitions are led by brokers out of service",
        "KIP-195",
        (
            *ABSENT_LIKE_OTHERS,
            ABSENT_IN_SYNC,
        ),
        (Kind.KILL, Kind.STOP, Kind.ROLL),
        stories=GROWTH_WITHOUT_A_BROKER,
    ),
    Mutant(
        "the last partition is made anew beside the new ones",
        "KIP-195",
        (
            Edit(
                new_partitions._new_partitions,
                "name, present = topic.name, len(topic.partitions)",
                "name, present = topic.name, len(topic.partitions) - 1",
            ),
            Edit(
                replay.replay,
                '_require(tables.find_partition(key) is None, record, "the partition is there already")',
                "pass",
            ),
        ),
        stories=CALM_GROWTH,
    ),
    Mutant(
        "a request for fewer partitions, as a late repetition is, is a success",
        "KIP-195",
        (
            Edit(new_partitions._new_partitions, "    if asked.total <= present:", "    if False:"),
            Edit(new_partitions.create_partitions, "len(made[0].replicas)", "0"),
            Edit(new_partitions._new_partitions, "else _placed(context, topic, added)", "else []"),
        ),
        stories=CALM_GROWTH,
    ),
    Mutant(
        "a topic's other partitions are forgotten when it gets more",
        "NATS #7556",
        (
            Edit(
                MetadataDelta.put_partition,
                "dict(topic.partitions)",
                "{} if partition.partition not in topic.partitions else dict(topic.partitions)",
            ),
        ),
        stories=CALM_GROWTH,
    ),
    Mutant(
        "brokers host the partitions of new topics only",
        "seam: publisher",
        (
            Edit(
                MetadataPublisher.publish,
                "self._apply_topic(image, topic, partitions, ",
                "before = delta.image.topics_by_id.get(topic_id, topic).partitions\n"
                "        self._apply_topic(image, topic, [p for p in partitions if p in before], ",
            ),
        ),
        stories=CALM_GROWTH,
    ),
    Mutant(
        "a consumer begins at the end of a partition that was added while it read",
        "KIP-842",
        (Edit(Positions._new, "if was_added and", "if False and"),),
        stories=KEYED_GROWTH,
    ),
)
