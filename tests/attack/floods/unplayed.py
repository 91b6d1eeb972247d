"""The limits of a node that no flood shows: each with the test that fails without it.

A flood of real processes would take too long to fill them, what is bounded is a number that nobody outside sees, or
another limit refuses the same flood first: unknown tags count as elements, too, and whoever sends large calls by gRPC
spends more of a processor than the node does on decoding them. Answers that nobody reads take 170 MiB without their
room and 155 with it, because other limits hold the same flood. Walks over headers far from an index entry, and look-ups
in vain without a rest, leave others 0.35 to 0.50 of what they do alone, which is too near to what is asked.
Not here: the limits that floods notice (mutant_table.py). tests/integration/test_floods.py holds that each test is
there, and that no limit is in both tables.
"""

from __future__ import annotations

from typing import Final

UNIT: Final = "tests/unit/broker/"
UNPLAYED: Final = {
    "arrivals of a party": UNIT + "apis/arrivals/test_arrival_waits.py::"
    "test_a_party_has_so_many_requests_that_wait_and_the_broker_a_limit_for_all",
    "held batches": UNIT + "transactions/verification/test_held_batches.py::"
    "test_batches_are_bounded_and_a_party_has_a_share",
    "requests that wait for the controller": UNIT + "apis/test_forwarding.py::"
    "test_a_party_has_as_many_requests_that_wait_for_the_controller_as_stay_free_for_others",
    "queued.max.requests": UNIT + "network/test_request_path.py::test_a_full_channel_makes_the_connection_wait",
    "SASL dialogues of a host": UNIT + "authentication/test_sessions.py::"
    "test_dialogues_of_one_host_do_not_keep_out_those_of_another",
    "SASL dialogues": UNIT + "authentication/test_sessions.py::"
    "test_all_dialogues_are_bounded_and_old_ones_are_forgotten",
    "session slots": UNIT + "network/test_named_sessions.py::"
    "test_a_party_that_has_taken_all_places_gives_way_to_others_until_all_have_as_many",
    "a frame above the limits": UNIT + "kafka/connection/test_hostile_ends.py::"
    "test_a_slow_frame_above_the_limits_is_cut_when_another_party_waits",
    "calls of a party in one turn": UNIT + "grpc/test_turned_calls.py::"
    "test_few_calls_of_a_party_are_decoded_in_one_turn_of_the_loop",
    "elements that are counted before a turn": UNIT + "grpc/test_turned_calls.py::"
    "test_a_message_that_might_be_large_waits_too_and_is_none",
    "turns at decoding": UNIT + "grpc/test_turned_calls.py::"
    "test_a_large_message_waits_for_its_turn_and_a_small_one_does_not",
    "tagged fields of a section": UNIT + "kafka_codec/test_malformed.py::"
    "test_bytes_that_are_no_message_are_refused_with_what_is_wrong",
    "lobby seconds": UNIT + "grpc/incoming/test_early_reads.py::test_a_message_that_never_comes_is_not_waited_for",
    "lobby places": UNIT + "grpc/incoming/test_early_reads.py::test_whoever_holds_many_places_gives_one_to_a_newcomer",
    "batches between two index entries": "tests/unit/storage/segment/test_timestamp_lookup.py::"
    "test_a_fetch_walks_over_few_headers_however_large_the_interval_of_the_index_is",
    "bytes between two index entries": "tests/unit/storage/segment/test_segment_indexes.py::"
    "test_the_first_append_after_a_start_reads_little_of_a_log_with_a_large_interval",
    "segments of a log": "tests/unit/storage/log/test_segment_roll.py::test_a_log_of_many_segments_rolls_no_small_one",
    "answers that wait": UNIT + "network/test_answer_turns.py::"
    "test_however_many_requests_of_a_party_came_at_once_those_are_worked_on_whose_answers_have_room",
    "a rest after a long look-up": UNIT + "apis/test_list_offsets.py::"
    "test_after_a_long_look_up_its_party_rests_and_no_other",
    "headers of a look-up": "tests/unit/storage/segment/test_timestamp_lookup.py::"
    "test_a_look_up_walks_no_further_than_its_limits_behind_a_batch_that_is_ahead_of_its_time",
    "headers on the event loop": "tests/unit/storage/segment/test_timestamp_lookup.py::"
    "test_the_event_loop_walks_over_so_many_headers_and_no_more",
    "a fetch stream's share": UNIT + "network/test_memory_budget.py::"
    "test_a_stream_has_its_share_and_a_party_half_of_the_budget",
}
"""The tests, by the names of the limits."""
