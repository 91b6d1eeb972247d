"""Mistakes of producers and consumers: retries, hints, sessions and positions."""

from __future__ import annotations

from penstock.client.cluster.metadata_cache import MetadataCache
from penstock.client.consumer.fetch_session_view import FetchSessionView
from penstock.client.consumer.positions import Positions
from penstock.client.consumer.raw_fetch import RawFetch
from penstock.client.consumer.reader import Reader
from penstock.client.producer.dispatcher import BatchDispatcher
from penstock.client.producer.produce_link import ProduceLink
from penstock.client.producer.sender import Sender
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.plan import Kind

CRASHES = (Kind.KILL, Kind.POWER, Kind.STOP)
CUTS = (Kind.ISOLATE, Kind.CUT, Kind.CUT_ONE_WAY, Kind.PAUSE)

CLIENTS = (
    Mutant(
        "a producer drops a batch that was refused",
        "seam: client retries",
        (Edit(BatchDispatcher._on_failure, "queue.ready.appendleft(batch)", "pass"),),
        CRASHES,
    ),
    Mutant(
        "a producer sends again behind later batches",
        "Redpanda #3039: reorder",
        (Edit(BatchDispatcher._on_failure, "queue.ready.appendleft(batch)", "queue.ready.append(batch)"),),
        (*CRASHES, Kind.BREAK),
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
        (Edit(BatchDispatcher._on_failure, "batch.unknown_attempts += is_unknown", "pass"),),
        (Kind.BREAK, *CRASHES),
        is_replicated=None,
    ),
    Mutant(
        "a producer does not count what timed out with a broker",
        "Redpanda #3039: duplicates",
        (Edit(BatchDispatcher.expire, "sent.unknown_attempts += 1", "pass"),),
        (Kind.ISOLATE, Kind.PAUSE, Kind.BREAK),
    ),
    Mutant(
        "a late answer is taken for another request's",
        "seam: client retries",
        (Edit(BatchDispatcher._is_with, "and queue.request == request.correlation_id", ""),),
        (Kind.PAUSE, Kind.ISOLATE),
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
    ),
    Mutant(
        "a client never leaves a silent broker",
        "attack a7",
        (Edit(Sender._leave_old_leaders, "now_ms < since_ms + SILENCE_MS", "True"),),
        (Kind.PAUSE, Kind.ISOLATE),
    ),
    Mutant(
        "a client goes back to an older leader epoch",
        "KIP-320, fault 08",
        (Edit(MetadataCache._learn, "if known is not None and epoch < known.epoch:", "if False:"),),
        (*CUTS, *CRASHES),
    ),
    Mutant(
        "a client takes an older snapshot",
        "seam: leader hints",
        (Edit(MetadataCache.is_stale, "snapshot.metadata_offset < self.metadata_offset", "False"),),
        (*CUTS, *CRASHES),
    ),
    Mutant(
        "a client follows hints of another topic",
        "fault 08",
        (Edit(MetadataCache.apply_hint, "if hint.topic_id != self.topic_id(tp.topic):", "if False:"),),
        CRASHES,
    ),
    Mutant(
        "a client follows no hint and asks nobody",
        "seam: leader hints",
        (
            Edit(BatchDispatcher._on_failure, "if not followed and needs_metadata(error):", "if False:"),
            Edit(BatchDispatcher._back_off, "self._wants_metadata = True", "pass"),
        ),
        CRASHES,
    ),
    Mutant(
        "a consumer forgets what an error has ended",
        "seam: fetch-session staleness",
        (Edit(FetchSessionView.forget, "self._told.pop(tp, None)", "pass"),),
        (*CRASHES, *CUTS),
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
        ),
        (*CUTS, Kind.BREAK),
    ),
    Mutant(
        "a consumer does not hear of a truncation",
        "KIP-320: consumer position after truncation",
        (Edit(Positions.on_result, "if result.diverging_epoch is not None:", "if False:"),),
        (*CRASHES, *CUTS),
    ),
    Mutant(
        "a consumer moves on before its records are there",
        "faults 06 and 14",
        (
            Edit(
                Positions._advance,
                "    last, good_bytes, damage = None, 0, None\n",
                "    last, good_bytes, damage = None, 0, None\n    state.fetch_offset += 1\n",
            ),
        ),
    ),
    Mutant(
        "a failed poll loses what it took",
        "fault 07",
        (Edit(Reader.turn, "deque((*before, *self._drawn))", "deque(before)"),),
    ),
    Mutant(
        "a raw range moves before its buffer is handed out",
        "faults 06 and 14",
        (
            Edit(RawFetch._wait_buffer, "    self._offset = piece.next_offset\n", ""),
            Edit(
                RawFetch._take,
                "            self._reader.give(piece)",
                "            self._reader.give(piece)\n            self._offset = piece.next_offset\n"
                "            self._reader.raise_new()",
            ),
        ),
        (Kind.STOP, Kind.ROLL),
    ),
)
