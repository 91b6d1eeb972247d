"""Mistakes about idempotent producers: what a log knows of them, what it answers, and how a client numbers batches."""

from __future__ import annotations

from broker.replication.leader.leader_appends import LeaderAppends
from penstock.client.producer.partition_queue import PartitionQueue
from penstock.client.producer.sequences import PartitionSequences
from storage.append import producer_answers, producer_ids
from storage.append.producer_rules import must_fit
from storage.append.producer_state import KnownProducers
from storage.cleaner.cleaner_log_view import LogToClean
from storage.log.log_append import LogAppend
from storage.log.producers.producer_cut import PreparedCut
from storage.log.producers.producer_log import ProducerLog
from storage.log.producers.producer_snapshots import ProducerSnapshots
from storage.recovery import producer_recovery
from storage.recovery.producer_snapshot import ProducerSnapshot
from tests.simulation.cluster.mutants import producer_stories as stories
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.plan import Kind

CRASHES = (Kind.KILL, Kind.POWER, Kind.POWER_ALL, Kind.STOP)
KEPT_SNAPSHOTS = Edit(
    ProducerSnapshots.cutting, "above = [found for found in self._offsets if found > offset]", "above: list[int] = []"
)
"""A truncation leaves the snapshots above the cut. Alone it is harmless: none of them is believed."""

PRODUCERS = (
    Mutant(
        "a log knows four batches of a producer again",
        "KIP-98",
        (Edit(KnownProducers.take, "known.batches[1 - WINDOW :]", "known.batches[2 - WINDOW :]"),),
        (Kind.BREAK,),
        is_replicated=None,
        stories=stories.BROKEN_STREAMS,
    ),
    Mutant(
        "a truncation forgets producers",
        "KAFKA-14034: state and log differ",
        (
            Edit(
                ProducerLog.cut,
                "left = prepared.known_at(log_end_offset) if prepared is not None and not all_of_it else None",
                "left = KnownProducers()",
            ),
        ),
        CRASHES,
        stories=stories.CUT_TAILS,
    ),
    Mutant(
        "a log knows batches that were cut",
        "KAFKA-14034: state and log differ",
        (Edit(ProducerLog.cut, " or self.is_stale or self._known.newest_offset >= log_end_offset:", ":"),),
        CRASHES,
        stories=stories.CUT_TAILS,
    ),
    Mutant(
        "a roll forgets producers",
        "KIP-98: snapshots",
        (Edit(ProducerLog.note_snapshot, "self._known.copy()", "{}"),),
        CRASHES,
        is_replicated=None,
        stories=stories.ROLLED_AND_KILLED,
    ),
    Mutant(
        "a follower learns nothing of producers",
        "Redpanda: state of a new leader",
        (
            Edit(
                LogAppend.as_follower,
                "return self._write(fetched_runs(records, batches, room, config.segment_bytes), info, old_below)",
                "known = self._producers._known.copy()\n"
                "    self._write(fetched_runs(records, batches, room, config.segment_bytes), info, old_below)\n"
                "    self._producers._known._producers = known\n"
                "    return info",
            ),
        ),
        CRASHES,
        stories=stories.BROKEN_STREAMS,
    ),
    Mutant(
        "the cleaner takes batches that may be sent again",
        "KIP-98: compaction",
        (
            Edit(
                LogToClean.of,
                "kept_offsets=log.producers.known.window_offsets(),",
                "kept_offsets=frozenset(),",
            ),
        ),
        (Kind.REPLACE_DISK,),
        stories=stories.CLEANED,
    ),
    Mutant(
        "a snapshot that is newer than the log is believed",
        "KIP-98: snapshots",
        (
            KEPT_SNAPSHOTS,
            Edit(PreparedCut._newest_snapshot, "above < offset <= self._offset", "above < offset"),
            Edit(producer_recovery._good, "if offset > end:", "if False:"),
            Edit(ProducerSnapshot.is_of, "if not first_offset <= self.offset <= log_end_offset:", "if False:"),
        ),
        CRASHES,
        stories=stories.CUT_TAILS,
    ),
    Mutant(
        "a snapshot of another history is believed",
        "KIP-101",
        (
            KEPT_SNAPSHOTS,
            Edit(producer_recovery.load_producers, "remove_snapshots(fs, directory, offsets[len(left) :])", "pass"),
            Edit(ProducerSnapshot.is_of, "return self.leader_epoch == here", "return True"),
        ),
        CRASHES,
        stories=stories.CUT_AND_KILLED,
    ),
    Mutant(
        "a duplicate is acked before its original is committed",
        "KIP-98",
        (
            Edit(
                LeaderAppends.when_acked,
                "info.last_offset + 1",
                "0 if info.is_duplicate else info.last_offset + 1",
            ),
        ),
        (Kind.BREAK,),
        stories=stories.BROKEN_BEFORE_THE_COMMIT,
    ),
    Mutant(
        "a duplicate is answered with the end of the log",
        "KIP-98",
        (Edit(producer_answers.answer, "first_offset=first.base_offset", "first_offset=producers.newest_offset + 1"),),
        (Kind.BREAK,),
        is_replicated=None,
        stories=stories.BROKEN_STREAMS,
    ),
    Mutant(
        "a producer is forgotten by the time of its records",
        "KAFKA: producer expiration",
        (
            Edit(
                ProducerLog.take,
                "take(header, ids.clock.wall_ms(), silent_from_ms=ids.clock.now_ms())",
                "take(header, header.max_timestamp_ms)",
            ),
        ),
        stories=stories.OLD_RECORDS,
    ),
    Mutant(
        "a new producer takes the place of one that is active",
        "KIP-936",
        (Edit(producer_ids._is_silent, "return since_ms is not None and", "return since_ms is not None or"),),
        stories=stories.ONE_PRODUCER_TOO_MANY,
    ),
    Mutant(
        "a start counts the silence of producers by the calendar",
        "this project's own: what no process has watched is no silence",
        (
            Edit(
                producer_recovery.load_producers,
                "snapshot.silences if snapshot is not None else {}",
                "{one: max(replay.now_ms - entry.last_append_ms, 0) for one, entry in known.items()}",
            ),
        ),
        is_replicated=None,
        stories=stories.RESTARTED_AT_THE_BOUND,
    ),
    Mutant(
        "a snapshot of producers tells a silence by the wrong clock",
        "this project's own: a calendar for the clock that no calendar moves",
        (Edit(ProducerLog.note_snapshot, "self._ids.clock.now_ms() if", "self._ids.clock.wall_ms() if"),),
        is_replicated=None,
        stories=stories.RESTARTED_AT_THE_BOUND,
    ),
    Mutant(
        "an unknown producer may begin with any sequence",
        "KIP-360",
        (Edit(must_fit, "        if sequence:", "        if False:"),),
        stories=stories.REMADE,
    ),
    Mutant(
        "a producer reuses the sequence of a batch that failed",
        "KIP-360",
        (
            Edit(
                PartitionSequences.on_failed,
                "place.leaves_gap |= not place.may_be_written",
                "self._next = place.sequence",
            ),
        ),
        stories=stories.GIVEN_UP,
    ),
    Mutant(
        "a partition that was forgotten begins in the epoch that it had",
        "KIP-526",
        (Edit(PartitionSequences._following, "used + 1", "used"),),
        stories=stories.SELDOM,
    ),
    Mutant(
        "a producer begins anew in the same epoch",
        "KIP-360",
        (Edit(PartitionSequences._following, "now.epoch + 1", "now.epoch"),),
        stories=stories.REFUSED_FOR_LONG,
    ),
    Mutant(  # alone, each of the two is harmless: a broker refuses what does not follow, and a client sends it again
        "batches are sent again in another order, and a broker takes gaps",
        "Redpanda #3039: reorder",
        (
            Edit(
                PartitionQueue._is_before,
                "if self.sequences is None",
                "return False\n    if self.sequences is None",
            ),
            Edit(PartitionSequences.may_send, "return place is self._window[0]", "return True"),
            Edit(must_fit, "if sequence != expected:", "if sequence < 0:"),
        ),
        (Kind.BREAK,),
        is_replicated=None,
        stories=stories.LOST_REQUESTS,
    ),
)
