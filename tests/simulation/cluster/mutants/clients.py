"""Mistakes of producers and consumers: retries, hints, sessions and positions."""

from __future__ import annotations

from typing import Any

from penstock.client.cluster.metadata_cache import MetadataCache
from penstock.client.consumer.fetching.fetch_link import FetchLink
from penstock.client.consumer.fetching.fetch_session_view import FetchSessionView
from penstock.client.consumer.fetching.positions import Positions
from penstock.client.consumer.raw.raw_fetch import RawFetch
from penstock.client.consumer.reader import Reader
from penstock.client.producer.partition_queue import PartitionQueue
from penstock.client.producer.sending.dispatcher import BatchDispatcher
from penstock.client.producer.sending.failed_batches import FailedBatches
from penstock.client.producer.sending.produce_link import ProduceLink
from penstock.client.producer.sending.sender import Sender
from penstock.client.producer.sequences import PartitionSequences
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.stories import directed, late
from tests.simulation.cluster.plan import (
    Aim,
    Fault,
    Kind,
    OperatorPlan,
    Plan,
    ReaderKind,
    ReaderPlan,
    Task,
    TopicKind,
    TopicPlan,
    WriterPlan,
)

CRASHES = (Kind.KILL, Kind.POWER, Kind.STOP)
CUTS = (Kind.ISOLATE, Kind.CUT, Kind.CUT_ONE_WAY, Kind.PAUSE)

PLAIN = WriterPlan("topic-0", 0, 0.02, 1, is_keyed=False, is_idempotent=False)
NO_ACKS = directed(
    Fault(1.0, Kind.CUT, 1, 2, 20.3, 0.5),
    roles=((False, True), (True, False), (True, False)),
    copies=2,
    seconds=25.0,
    writers=(PLAIN,),
    replica_lag_time_max_ms=60_000,
)
"""A leader cannot ack until a batch has expired and the next is with it; then it acks both."""
SILENT_LEADER = directed(Fault(1.0, Kind.PAUSE, 1, 0, 14.0, 0.5, Aim.LEADER), seconds=16.0)
LEADER_GONE = directed(Fault(1.0, Kind.KILL, 1, 0, 14.0, 0.5, Aim.LEADER), seconds=16.0)


def _unknowing_leader(*also_s: float, **more: Any) -> tuple[Plan, ...]:
    """A leader is killed, and who leads next hears of that late; clients have heard of it from the third. A node asks
    for metadata again after two seconds; answers to what it asks after these times come late, too."""
    return tuple(
        story
        for heir in (1, 2, 3)
        for story in directed(
            Fault(1.0, Kind.LATE_MESSAGE, heir, 0, 2.5, late("FetchMetadata", is_answer=True)),
            Fault(1.2, Kind.KILL, 1, 0, 3.0, 0.5, Aim.LEADER),
            *(Fault(at_s, Kind.LATE_MESSAGE, heir, 0, 2.5, late("FetchMetadata", is_answer=True)) for at_s in also_s),
            controller_quorum_fetch_timeout_ms=6_000,
            tellings=1,
            **more,
        )
    )


UNKNOWING_LEADER = _unknowing_leader()
REFUSING_LEADER = _unknowing_leader(2.5, seconds=8.0)
"""It hears so late that fetches of the new epoch are refused after the second for which they wait."""
PAUSING = directed(readers=(ReaderPlan("topic-0", 0.0, ReaderKind.RESTART),))
CLIENTS = (
    Mutant(
        "what was fetched of a partition before it was paused is thrown away",
        "seam: a consumer pauses",
        (
            Edit(
                Reader.resume,
                "self._resumed[state.topic_partition] = None",
                "del self._held[state.topic_partition]; state.is_held = False",
            ),
        ),
        CUTS,
        stories=PAUSING,
    ),
    Mutant(
        "a poll gives what a paused partition has",
        "seam: a consumer pauses",
        (Edit(Reader.next_piece, "if state.paused:", "if False:"),),
        CUTS,
        stories=PAUSING,
    ),
    Mutant(
        "a producer drops a batch that was refused",
        "seam: client retries",
        (Edit(FailedBatches._again, "queue.put_back((batch,))", "return Again(batch, error)"),),
        CRASHES,
    ),
    Mutant(
        "a producer sends again behind later batches",
        "Redpanda #3039: reorder",
        (Edit(FailedBatches._again, "queue.put_back((batch,))", "queue.ready.append(batch)"),),
        (*CRASHES, Kind.BREAK),
        stories=directed(  # small batches, with pauses in which the leader changes
            Fault(1.0, Kind.STOP, 1, 0, 1.0, 0.5, Aim.LEADER),
            Fault(3.0, Kind.STOP, 1, 0, 1.0, 0.5, Aim.LEADER),
            topics=(TopicPlan("topic-0", 1, 3, {"max.message.bytes": 2000}),),
            writers=(WriterPlan("topic-0", 0, 0.3, 60, is_keyed=False, in_bulk=True, is_idempotent=False),),
        ),
    ),
    Mutant(
        "a producer takes a refusal for an ack",
        "seam: client retries",
        (Edit(BatchDispatcher._on_result, "if result.error is not None:", "if False:"),),
        (*CRASHES, *CUTS),
    ),
    Mutant(
        "a producer does not count unknown outcomes",
        "Redpanda #3039: duplicates",
        (Edit(FailedBatches.on_failure, "is_unknown=is_unknown)", "is_unknown=False)"),),
        (Kind.BREAK, *CRASHES),
        is_replicated=None,
    ),
    Mutant(
        "a producer does not count what timed out with a broker",
        "Redpanda #3039: duplicates",
        (Edit(FailedBatches.expire, "is_unknown=True", "is_unknown=False"),),
        (Kind.ISOLATE, Kind.PAUSE, Kind.BREAK),
        stories=NO_ACKS,
    ),
    Mutant(
        "a late answer is taken for another request's",
        "seam: client retries",
        (
            Edit(BatchDispatcher.on_answer, "if batch.request == request.correlation_id", "if queue.in_flight"),
            Edit(PartitionQueue.acked, "self.in_flight.remove(batch)", "self.in_flight.clear()"),
        ),
        (Kind.PAUSE, Kind.ISOLATE),
        stories=NO_ACKS,
    ),
    Mutant(
        "a producer hears nothing of a broken stream",
        "seam: client retries",
        (Edit(ProduceLink.break_off, "    if requests:", "    if False:"),),
        (Kind.BREAK, *CRASHES),
        is_replicated=None,
    ),
    Mutant(
        "what a silent broker has is sent elsewhere, and its stream goes on",
        "attack a7",
        (Edit(Sender._leave_old_leaders, "link.break_off(", "str("),),
        (Kind.PAUSE, Kind.ISOLATE),
        stories=directed(  # the leader that was left leads again
            Fault(1.0, Kind.PAUSE, 1, 0, 2.0, 0.5, Aim.LEADER),
            Fault(4.0, Kind.PAUSE, 1, 0, 2.0, 0.5, Aim.LEADER),
            roles=((False, True), (True, False), (True, False)),
            copies=2,
            seconds=8.0,
            writers=(PLAIN,),
        ),
    ),
    Mutant(
        "an idempotent producer gives a batch a new sequence when it sends it again",
        "KIP-98",
        (Edit(PartitionSequences.on_sent, "if place is None:", "if True:"),),
        (Kind.BREAK, *CRASHES),
        is_replicated=None,
    ),
    Mutant(
        "a client never leaves a silent broker",
        "attack a7",
        (Edit(Sender._leave_old_leaders, "if not waiting:", "if True:"),),
        (Kind.PAUSE, Kind.ISOLATE),
        stories=SILENT_LEADER,
    ),
    Mutant(
        "a client goes back to an older leader epoch",
        "KIP-320, fault 08",
        (Edit(MetadataCache._learn, "if known is not None and epoch < known.epoch:", "if False:"),),
        (*CUTS, *CRASHES),
        stories=UNKNOWING_LEADER,
    ),
    Mutant(
        "a client takes an older snapshot",
        "seam: leader hints",
        (Edit(MetadataCache.why_stale, "snapshot.metadata_offset < self.metadata_offset", "False"),),
        (*CUTS, *CRASHES),
        stories=directed(
            Fault(1.0, Kind.CUT, 1, 0, 3.0, 0.5),
            operators=(OperatorPlan(Task.ALTER, "topic-0", 0.1), OperatorPlan(Task.ASK, "topic-0", 0.1)),
            broker_session_timeout_ms=6_000,
        ),
    ),
    Mutant(
        "a client follows hints of another topic",
        "fault 08",
        (Edit(MetadataCache.apply_hint, "if hint.topic_id != self.topic_id(tp.topic):", "if False:"),),
        CRASHES,
        stories=directed(  # an answer with a hint is late, and meanwhile the topic is made anew
            Fault(1.0, Kind.CUT, 1, 0, 1.0, 0.5, Aim.LEADER),
            Fault(2.55, Kind.LATE_MESSAGE, 1, 0, 2.9, late("Produce", is_answer=True), Aim.FOLLOWER),
            Fault(2.6, Kind.KILL, 1, 0, 1.0, 0.5, Aim.LEADER),
            roles=((False, True), (True, False), (True, False)),
            copies=2,
            topics=(TopicPlan("topic-0", 1, 2, {}, TopicKind.REMADE),),
            writers=(WriterPlan("topic-0", 0, 3.0, 1, is_keyed=False),),
            operators=(OperatorPlan(Task.REMAKE, "topic-0", 4.5),),
            tellings=12,
        ),
    ),
    Mutant(
        "a client follows no hint and asks nobody",
        "seam: leader hints",
        (
            Edit(FailedBatches.on_failure, "if not followed and needs_metadata(error):", "if False:"),
            Edit(BatchDispatcher._back_off, "self.wishes.metadata = True", "pass"),
        ),
        CRASHES,
        stories=LEADER_GONE,
    ),
    Mutant(
        "a consumer forgets what an error has ended",
        "seam: fetch-session staleness",
        (Edit(FetchSessionView.forget, "self._named.pop(tp, None)", "pass"),),
        (*CRASHES, *CUTS),
        stories=REFUSING_LEADER,
    ),
    Mutant(
        "a consumer takes an answer to an older question",
        "seam: consumer positions",
        (
            Edit(
                Positions.on_result,
                "if (result.topic_id, result.fetch_offset) != (state.topic_id, state.fetch_offset):",
                "if False:",
            ),
            # Another question ends the stream of the one before, and with it the answer.
            Edit(FetchLink.touch, "if wanted and not self._session.knows(wanted):", "if False:"),
        ),
        (*CUTS, Kind.BREAK),
        stories=PAUSING,
    ),
    Mutant(
        "a consumer does not hear of a truncation",
        "KIP-320: consumer position after truncation",
        (Edit(Positions.on_result, "if result.diverging_epoch is not None:", "if False:"),),
        (*CRASHES, *CUTS),
        stories=directed(  # the follower is behind, and elected uncleanly
            Fault(1.0, Kind.CUT, 1, 2, 2.5, 0.5),
            Fault(2.5, Kind.KILL, 1, 0, 3.0, 0.5, Aim.LEADER),
            roles=((False, True), (True, False), (True, False)),
            copies=2,
            topics=(TopicPlan("topic-0", 1, 2, {"unclean.leader.election.enable": "true"}, TopicKind.LOSSY),),
        ),
    ),
    Mutant(
        "a consumer moves on before its records are there",
        "faults 06 and 14",
        (
            Edit(
                Positions._advance,
                "    tp, from_offset = state.topic_partition, state.fetch_offset\n",
                "    state.fetch_offset += 1\n    tp, from_offset = state.topic_partition, state.fetch_offset\n",
            ),
        ),
    ),
    Mutant(
        "a failed poll loses what it took",
        "fault 07",
        (Edit(Reader.turn, "deque((*before, *self._drawn))", "deque(before)"),),
        stories=directed(readers=(ReaderPlan("topic-0", 0.02, ReaderKind.SHORT),)),
    ),
    Mutant(
        "a raw range moves before its buffer is handed out",
        "faults 06 and 14",
        (
            Edit(
                RawFetch._wait_buffer,
                "    self._offset = piece.next_offset\n",
                "    self._offset = self._positions.states[self._span.topic_partition].fetch_offset\n",
            ),
        ),
        (Kind.STOP, Kind.ROLL),
        stories=directed(
            readers=(ReaderPlan("topic-0", 0.5, ReaderKind.RANGES),),
            writers=(WriterPlan("topic-0", 0, 0.02, 80, is_keyed=False, in_bulk=True),),
        ),
    ),
)
