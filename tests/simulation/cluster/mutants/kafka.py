"""Mistakes of the listener for Kafka's protocol: frames, the order of answers, acks, fetch sessions, topic ids."""

from __future__ import annotations

from broker.kafka.apis.produce import produce_plan
from broker.kafka.apis.reading import fetch
from broker.kafka.connection.frame_connection import FrameConnection
from broker.kafka.connection.incoming_frame import IncomingFrame
from broker.network.named_sessions import NamedSessions
from broker.network.processor import Processor
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.stories import directed, with_parts
from tests.simulation.cluster.plan import (
    Aim,
    Fault,
    KafkaReaderPlan,
    KafkaWriterPlan,
    Kind,
    OperatorPlan,
    Task,
    TopicKind,
    TopicPlan,
)

LEADER_STOPS = Fault(1.0, Kind.STOP, 1, 0, 1.0, 0.5, Aim.LEADER)
WRITES = with_parts(
    directed(LEADER_STOPS, tellings=2),
    kafka_writers=(
        KafkaWriterPlan("topic-0", 0.02, 3),
        KafkaWriterPlan("topic-0", 0.05, 3, acks=0, is_idempotent=False, version=7),
    ),
)
READERS = KafkaReaderPlan("topic-0", 0.0), KafkaReaderPlan("topic-0", 0.0, 17)
READS = with_parts(directed(LEADER_STOPS, tellings=2), kafka_readers=READERS)
READS_OF_LEADERS_THAT_CHANGE = with_parts(
    directed(
        LEADER_STOPS,
        topics=(TopicPlan("topic-0", 4, 3, {}),),
        operators=(OperatorPlan(Task.ELECT, "topic-0", 0.3),),
    ),
    kafka_readers=READERS,
)
"""A session goes on when a partition has left it."""
READS_OF_A_REMADE_TOPIC = with_parts(
    directed(
        topics=(TopicPlan("topic-0", 1, 3, {}, TopicKind.REMADE),),
        operators=(OperatorPlan(Task.REMAKE, "topic-0", 0.5),),
    ),
    kafka_readers=(KafkaReaderPlan("topic-0", 0.0, 17), KafkaReaderPlan("topic-0", 0.0, 13, False)),
)

KAFKA = (
    Mutant(
        "an answer goes out before those to earlier requests",
        "seam: Kafka's protocol has no other order",
        (
            Edit(
                Processor.response_ready, "self._move_heads()", "self._open.remove(request); self._write_soon(request)"
            ),
        ),
        stories=WRITES,
    ),
    Mutant(
        "what is missing of a frame is taken for the next one",
        "seam: a frame comes in pieces",
        (Edit(IncomingFrame.came, "self.here += count", "self.here = self.size"),),
        stories=WRITES,
    ),
    Mutant(
        "a frame takes the beginning of the next one with it",
        "seam: several frames come at once",
        (Edit(FrameConnection._read, "del self._ahead[:size]", "self._ahead.clear()"),),
        stories=WRITES,
    ),
    Mutant(
        "a client that has ended its half of a connection gets no answers",
        "seam: a connection has two halves",
        (Edit(FrameConnection.eof_received, "return self._tls is None", "return False"),),
        stories=WRITES,
    ),
    Mutant(
        "acks=0 is answered",
        "seam: Kafka's protocol answers no Produce with acks=0",
        (Edit(produce_plan, "if body.acks:", "if True:"),),
        stories=WRITES,
    ),
    Mutant(
        "a fetch session takes a request of any epoch",
        "KIP-227",
        (Edit(NamedSessions.go_on, "if epoch != found.epoch:", "if False:"),),
        stories=READS,
    ),
    Mutant(
        "a fetch session does not forget",
        "KIP-227",
        (Edit(fetch.FetchPlans._fetch, "forgotten = _forgotten(", "_forgotten("),),
        stories=READS_OF_LEADERS_THAT_CHANGE,
    ),
    Mutant(
        "an id that no topic has is taken for that of another topic",
        "KIP-516",
        (
            Edit(fetch._wanted, "or NO_TOPIC + topic_id", "or next(iter(image.topics_by_name), '')"),
            Edit(
                fetch._wanted,
                "topic_id,\n                    one.fetch_offset",
                "getattr(image.topic(name), 'topic_id', ''), one.fetch_offset",
            ),
        ),
        stories=READS_OF_A_REMADE_TOPIC,
    ),
)
