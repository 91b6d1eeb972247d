"""The costs that docs/security.md states, of a stranger, a user and a tenant: tests hold each row of the page,
and its sentences beside."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNIT = "tests/unit/broker/"
BUDGET = UNIT + "network/test_memory_budget.py::"
ENDS = UNIT + "kafka/connection/test_hostile_ends.py::"
ELEMENTS = UNIT + "kafka/connection/test_element_room.py::"
LOGIN = UNIT + "kafka/connection/test_login.py::"
GUARD = UNIT + "connections/test_connection_guard.py::"
ACCEPT = UNIT + "connections/test_accept_guard.py::"
BYTES = UNIT + "connections/test_byte_watch.py::"
UNDER_WAY = UNIT + "connections/test_under_way.py::"
REFUSED = UNIT + "grpc/test_refused_calls.py::"
TURNED = UNIT + "grpc/test_turned_calls.py::"
DECODING = UNIT + "network/test_decoding_turns.py::"
LOBBY = UNIT + "grpc/incoming/test_early_reads.py::"
PAGES = UNIT + "metrics/test_page_"
LINES = UNIT + "network/test_lines_of_strangers.py::"
ANSWERS = (
    UNIT + "network/test_connection_loop.py::"
    "test_a_partys_unread_answers_are_above_its_share_by_one_however_many_connections_wait_for_theirs"
)
LOOK_UPS = "tests/unit/storage/segment/test_timestamp_lookup.py::"
CONVERSION = UNIT + "apis/producing/test_produce_conversion.py::"
ATTEMPTS = UNIT + "authentication/test_attempts.py::"
NAMES = UNIT + "network/test_client_"
GROUPS = UNIT + "groups/shard/test_shares.py::"
TRANSACTIONS = UNIT + "transactions/test_shares.py::"
OWNERS = "tests/unit/metadata/controller/test_owners.py::"
HELD_BY = {
    "**A stranger**: requests at `KAFKA` before a log-in": (
        LOGIN + "test_requests_are_small_before_the_log_in_and_may_be_large_after_it",
        LOGIN + "test_what_strangers_send_takes_no_room_of_users",
        LOGIN + "test_frames_of_a_stranger_that_never_end_keep_nobody_behind_its_address_from_a_log_in",
        LOGIN + "test_a_request_before_a_log_in_has_a_few_seconds_to_be_whole",
    ),
    "a connection without a log-in at `KAFKA`": (LOGIN + "test_who_does_not_log_in_is_closed_in_the_end",),
    "a connection without a log-in at gRPC's listeners with SASL": (
        BYTES + "test_a_connection_without_a_log_in_that_sends_much_is_cut",
        BYTES + "test_the_connections_of_a_network_share_what_it_may_send",
        BYTES + "test_a_network_that_is_shut_out_is_let_in_again_within_a_minute",
    ),
    "a connection before its first call at gRPC's other listeners": (
        UNIT + "grpc/test_floods.py::test_where_nobody_logs_in_a_header_block_without_an_end_is_cut_as_before_a_log_in",
        BYTES + "test_clients_of_one_address_that_begin_at_once_count_for_nothing_where_nobody_logs_in",
    ),
    "calls that are refused": (
        REFUSED + "test_a_connection_has_so_many_refusals_in_a_window_and_then_it_goes",
        REFUSED + "test_the_connections_of_one_network_share_a_number_and_those_of_others_have_their_own",
        REFUSED + "test_a_network_is_charged_once_for_a_connection_however_many_of_its_calls_are_refused",
        REFUSED + "test_refused_calls_of_a_connection_that_is_logged_in_cost_its_network_nothing",
        BYTES + "test_refused_calls_alone_shut_out_no_network_from_which_somebody_is_logged_in",
    ),
    "connections to gRPC's listeners that end without a log-in, or a call": (
        BYTES
        + "test_connections_that_come_and_go_without_a_log_in_shut_their_network_out_unless_somebody_is_logged_in",
        BYTES + "test_a_network_may_have_some_connections_a_second_that_only_come_and_go",
    ),
    "messages that are waited for before a log-in at gRPC": (
        LOBBY + "test_a_message_that_never_comes_is_not_waited_for",
        LOBBY + "test_a_connection_has_one_message_that_is_waited_for",
        LOBBY + "test_whoever_holds_many_places_gives_one_to_a_newcomer",
    ),
    "attempts to log in": (
        ATTEMPTS + "test_a_connection_has_one_attempt_under_way",
        ATTEMPTS + "test_an_address_by_which_somebody_has_logged_in_is_heard_beside_one_that_guesses_there",
        UNIT + "authentication/test_logins.py::test_one_connection_that_guesses_holds_up_nobody_behind_its_address",
    ),
    "places of connections": (
        GUARD + "test_the_addresses_of_one_network_of_64_bits_count_as_one",
        GUARD + "test_connections_of_strangers_cut_none_by_which_somebody_has_logged_in",
        GUARD + "test_a_quarter_is_kept_for_whoever_has_still_to_log_in",
        ACCEPT + "test_a_connection_by_which_somebody_has_logged_in_stays_when_strangers_come",
        LOGIN + "test_whoever_has_logged_in_is_not_cut_for_strangers",
    ),
    "names in the metrics": (
        LOGIN + "test_nobody_is_named_in_the_metrics_before_the_log_in_and_whoever_has_logged_in_is",
        NAMES + "names.py::test_a_party_that_makes_up_names_leaves_places_for_others_and_an_honest_name_keeps_its_own",
        NAMES + "software.py::test_a_party_that_makes_up_pairs_leaves_places_for_others",
    ),
    "pages for operators": (
        PAGES + "turns.py::test_a_network_has_so_many_connections_and_no_more",
        PAGES + "turns.py::test_a_network_that_asks_without_end_waits_and_another_one_does_not",
        PAGES + "server.py::test_a_head_has_a_deadline_however_its_bytes_come",
        PAGES + "server.py::test_a_connection_that_is_cut_before_it_was_served_leaves_nothing_behind",
    ),
    "lines of the node's log": (
        LINES + "test_strangers_that_ask_for_an_api_of_their_own_each_write_a_bounded_number_of_lines",
        LINES + "test_connections_that_do_not_read_their_answers_write_one_line",
    ),
    "**A user without rights**: requests in memory": (
        BUDGET + "test_a_party_has_as_much_as_stays_free_for_the_others",
        BUDGET + "test_an_announcement_takes_no_room_of_others_before_its_bytes_come",
        BUDGET + "test_a_party_whose_announced_frames_fill_its_share_holds_up_itself_alone",
        BUDGET + "test_a_very_large_message_waits_for_no_other_party_and_one_at_a_time_does_not",
        ENDS + "test_a_slow_frame_above_the_limits_is_cut_when_another_party_waits",
    ),
    "lines of the audit log about what was only checked, refused, or failed": (
        UNIT + "audit/test_audited_requests.py::test_what_was_only_to_be_judged_is_bounded_and_hides_no_act",
        UNIT + "audit/test_audited_requests.py::test_failures_are_bounded_and_what_is_done_is_not",
    ),
    "requests that come slowly while 64 parties or more fill that memory": (
        ENDS + "test_slow_frames_give_way_when_the_memory_is_full_and_a_party_with_little_waits",
        UNIT + "network/test_giving_way.py::"
        "test_a_party_with_little_that_waits_gets_its_bytes_and_the_next_ones_need_not_wait",
    ),
    "bytes at gRPC's listeners of which no message has come": (
        UNDER_WAY + "test_a_party_may_have_half_of_the_requests_memory_under_way_and_alone_one_message",
        UNDER_WAY + "test_a_node_is_full_by_the_party_that_has_most_also_by_what_it_has_at_other_listeners",
        UNDER_WAY + "test_who_holds_bytes_for_long_is_cut_before_others_of_its_party",
        UNIT + "grpc/test_heard.py::test_what_came_of_a_connection_is_counted_until_two_looks_have_not_found_it",
        UNDER_WAY + "test_many_small_calls_hide_little_of_a_message_that_never_ends",
        UNIT + "grpc/test_handlers.py::test_a_message_that_does_not_come_is_waited_for_no_longer_than_any_may_take",
    ),
    "the time of a frame, and of an answer at `KAFKA`": (
        ENDS + "test_a_request_that_comes_too_slowly_for_its_size_is_cut",
        UNIT + "kafka/connection/test_connections.py::"
        "test_a_client_that_reads_nothing_or_a_byte_now_and_then_is_cut_and_one_that_reads_slowly_is_not",
    ),
    "tagged fields of a request": (
        UNIT + "kafka_codec/test_malformed.py::test_bytes_that_are_no_message_are_refused_with_what_is_wrong",
        UNIT + "kafka_codec/test_malformed.py::test_unknown_tagged_fields_count_as_elements",
    ),
    "requests with 17 to 999 elements at `KAFKA`; 256 bytes of a text of a KiB or more are an element, too": (
        "tests/unit/broker/kafka_codec/test_malformed.py::test_a_long_string_counts_as_elements",
        ELEMENTS + "test_however_many_networks_have_large_requests_one_that_is_not_large_waits_for_none_of_them",
        ELEMENTS + "test_a_request_asks_for_room_for_the_elements_that_it_has_however_many_bytes_these_have",
        UNIT + "kafka/connection/test_long_requests.py::"
        "test_a_small_request_takes_turns_at_long_work_once_its_answer_takes_longer_than_a_piece",
        UNIT + "kafka/apis/test_configs.py::"
        "test_a_resource_that_is_named_often_is_described_once_for_each_list_of_keys",
    ),
    "requests with 1,000 elements or more, but for records": (
        ELEMENTS + "test_a_partys_large_requests_have_pauses_between_them_and_another_party_waits_for_none",
    ),
    "the event loop's time for requests with 100 elements or more, refused or not": (
        UNIT + "load/test_long_work.py::test_work_that_goes_on_has_a_part_of_the_loop_whoever_does_it",
        UNIT + "load/test_long_work.py::test_parties_take_turns_however_much_one_of_them_has_to_do",
        UNIT + "load/test_long_work.py::"
        "test_one_small_request_has_a_rest_of_the_work_and_when_no_other_comes_the_work_goes_on",
        UNIT + "load/test_long_work.py::test_after_a_long_piece_the_loop_listens_for_those_whom_it_could_not_hear",
        UNIT + "load/test_long_work.py::"
        "test_a_node_that_was_stopped_in_the_middle_of_a_piece_rests_no_longer_than_after_any_other",
        UNIT + "kafka/connection/test_long_requests.py::"
        "test_a_plan_with_much_to_do_goes_on_piece_by_piece_and_others_are_answered_meanwhile",
        UNIT + "kafka/apis/test_produce.py::"
        "test_a_request_with_many_partitions_leaves_the_event_loop_to_others_in_between",
        TURNED + "test_a_large_message_waits_for_its_turn_and_a_small_one_does_not",
        TURNED + "test_a_large_message_of_a_node_waits_for_no_turn_of_clients",
        UNIT + "load/test_long_work.py::"
        "test_what_clients_ask_for_is_owed_whatever_protocol_they_speak_and_what_nodes_ask_for_is_not",
    ),
    "reads of few bytes about much": (
        UNIT + "load/test_long_work.py::test_a_read_of_few_bytes_waits_for_a_turn_if_the_last_one_like_it_took_long",
        UNIT + "load/test_long_reads.py::test_the_last_one_of_a_party_counts",
        UNIT + "network/test_answer_turns.py::test_reads_that_wait_among_the_long_work_ask_for_room_once_more",
    ),
    "answers that it does not read": (
        UNIT + "kafka/test_tls_on_sockets.py::test_an_answer_that_nobody_reads_is_counted_until_its_connection_is_cut",
        ANSWERS,
        UNIT + "kafka/connection/test_answer_room.py::"
        "test_of_a_party_that_reads_nothing_no_more_requests_are_worked_on_than_have_room_for_an_answer",
        UNIT + "kafka/connection/test_answer_room.py::"
        "test_a_party_that_reads_no_small_answers_is_read_no_further_once_these_fill_its_share",
        UNIT + "kafka/connection/test_connections.py::"
        "test_members_and_producers_go_on_beside_a_client_of_their_party_that_reads_nothing",
        DECODING + "test_a_large_message_whose_answer_has_lost_its_room_at_its_turn_gives_the_turn_back",
        DECODING + "test_messages_of_a_party_that_wait_for_room_go_on_one_in_each_turn_of_the_loop",
        TURNED
        + "test_a_message_that_comes_when_its_answer_has_lost_its_room_is_not_decoded_before_there_is_room_again",
        TURNED + "test_a_call_that_was_begun_before_the_answers_filled_up_is_not_read_at_its_turn",
        TURNED + "test_messages_that_wait_for_room_have_a_share_of_the_memory_and_the_next_one_is_refused",
        UNIT + "grpc/test_client_streams.py::"
        "test_of_a_party_that_reads_nothing_no_produce_with_a_large_answer_is_decoded_and_all_others_go_on",
        UNIT + "grpc/test_unread_answers.py::test_a_small_answer_of_a_call_with_small_ones_waits_for_no_unread_answer",
    ),
    "calls of gRPC": (UNIT + "grpc/test_floods.py::test_a_connection_may_have_few_calls_at_a_time",),
    "**A tenant**: fetch answers that it does not read": (
        BUDGET + "test_a_stream_has_its_share_and_a_party_half_of_the_budget",
        GUARD + "test_a_connection_that_does_not_read_its_answer_goes_after_the_time_that_is_stated",
    ),
    "groups, members and offsets": (
        GROUPS + "test_a_tenant_that_fills_its_share_with_groups_is_refused_and_a_second_principal_is_served",
        GROUPS + "test_what_existing_groups_commit_is_bounded",
        GROUPS + "test_at_the_limit_members_go_on_leave_and_groups_and_offsets_are_deleted",
    ),
    "patterns of a group that are matched with the names of all topics, after a failover or a change of rights": (
        UNIT + "groups/consumer/test_regex.py::"
        "test_after_a_load_many_patterns_are_matched_with_every_name_a_part_at_a_time",
    ),
    "transactional ids": (
        TRANSACTIONS + "test_a_tenant_that_fills_its_share_with_ids_is_refused_and_a_second_principal_is_served",
        TRANSACTIONS + "test_open_transactions_of_a_tenant_are_bounded_by_its_share_and_others_go_on",
    ),
    "a look-up by time (ListOffsets)": (
        LOOK_UPS + "test_a_look_up_walks_no_further_than_its_limits_behind_a_batch_that_is_ahead_of_its_time",
        LOOK_UPS + "test_a_look_up_decodes_no_more_than_its_limits_whatever_the_headers_promise",
        LOOK_UPS + "test_after_some_batches_that_promise_in_vain_the_next_one_is_the_answer_by_its_header",
        LOOK_UPS + "test_the_event_loop_decodes_one_small_batch_that_is_not_compressed_and_no_other",
        UNIT + "apis/test_list_offsets.py::"
        "test_a_party_has_few_look_ups_at_work_and_another_one_waits_for_none_of_the_others",
    ),
    "segments of one log": (
        "tests/unit/storage/log/test_segment_roll.py::test_a_log_of_many_segments_rolls_no_small_one",
        "tests/unit/storage/log/test_segment_roll.py::test_a_log_of_many_segments_rolls_one_that_is_not_small",
    ),
    "lines about batches that nobody can decode": (
        UNIT + "apis/test_list_offsets.py::"
        "test_batches_that_no_look_up_can_decode_write_one_line_for_a_partition_now_and_then",
    ),
    "requests that name a topic which this broker does not have yet, and wait for it": (
        UNIT + "apis/arrivals/test_arrival_waits.py::"
        "test_a_party_has_so_many_requests_that_wait_and_the_broker_a_limit_for_all",
        UNIT + "apis/arrivals/test_arrival_waits.py::"
        "test_no_request_waits_longer_than_the_bound_or_than_its_own_timeout",
        UNIT + "apis/arrivals/test_arrival_waits.py::"
        "test_a_caller_without_the_right_never_waits_and_an_id_is_waited_for_only_with_a_right_to_some_topic",
        UNIT + "apis/arrivals/test_arrival_waits.py::"
        "test_a_caller_without_the_right_to_the_group_waits_for_no_topic_of_its_commit",
        UNIT + "apis/arrivals/test_arrival.py::test_a_party_waits_for_so_many_reads_in_a_second_and_others_for_theirs",
    ),
    "headers that a fetch walks over, where `index.interval.bytes` is large": (
        LOOK_UPS + "test_a_fetch_walks_over_few_headers_however_large_the_interval_of_the_index_is",
        "tests/unit/storage/segment/test_segment_indexes.py::"
        "test_large_batches_have_an_entry_for_every_mebibyte_however_large_the_interval_is",
        LOOK_UPS + "test_the_event_loop_walks_over_so_many_headers_and_no_more",
    ),
    "batches of one Produce": (
        UNIT + "grpc/test_produced_batches.py::"
        "test_a_request_has_one_batch_for_each_partition_and_so_many_more_and_one_above_that_is_refused",
    ),
    "what threads compress, or look for keys and for names of refused records": (
        CONVERSION + "test_a_party_has_half_of_the_threads_and_another_one_waits_for_none_of_its_batches",
        CONVERSION + "test_a_request_may_not_become_larger_than_it_could_have_come",
    ),
    "one batch that is compressed for a topic with `compression.zstd.level=22`": (
        "tests/unit/storage/append/test_recompression.py::test_a_batch_above_1_mib_is_packed_at_no_slow_level_of_zstd",
    ),
    "partitions of topics that it makes, at a time": (
        UNIT + "node/test_memory_quotas.py::"
        "test_who_makes_many_partitions_gets_them_at_once_and_makes_the_next_ones_later",
    ),
    "…and in all": (
        UNIT + "node/test_memory_partition_shares.py::"
        "test_a_tenant_that_makes_topics_without_end_fills_its_share_and_others_make_theirs",
        OWNERS + "test_a_principal_that_floods_has_half_and_each_that_comes_later_half_of_what_stays",
        OWNERS + "test_new_partitions_count_to_the_topics_owner_whoever_asks",
        OWNERS + "test_a_topic_without_an_owner_becomes_that_of_a_principal_that_adds_partitions",
        OWNERS + "test_deleted_topics_give_back_what_they_had_and_leave_no_record",
        "tests/unit/metadata/controller/test_topics.py::"
        "test_bound_of_the_cluster_holds_for_assignments_by_hand_in_one_request",
    ),
    "batches and offsets that wait for a transaction's coordinator": (
        UNIT + "transactions/verification/test_held_batches.py::test_batches_are_bounded_and_a_party_has_a_share",
        UNIT + "groups/coordinator/test_transactional_offsets.py::"
        "test_commits_of_one_party_that_wait_leave_places_for_others",
    ),
    "administrative requests that wait for the controller": (
        UNIT + "apis/test_forwarding.py::"
        "test_a_party_has_as_many_requests_that_wait_for_the_controller_as_stay_free_for_others",
    ),
    "fetch sessions that outlive a connection": (
        UNIT + "network/test_named_sessions.py::"
        "test_a_party_that_has_taken_all_places_gives_way_to_others_until_all_have_as_many",
    ),
}
"""The tests of each row, by its first cell."""
LOGINS = UNIT + "authentication/test_logins.py::"
COUNTS_TO = (
    UNIT + "apis/security/test_topic_owners.py::"
    "test_a_clients_partitions_count_to_its_principal_and_those_of_super_users_and_nodes_to_nobody"
)
SAID = {
    "A party that is alone gets half of a limit, n parties get one part in n+1 each": (
        BUDGET + "test_a_party_has_as_much_as_stays_free_for_the_others",
    ),
    "whoever waits for its own share holds up nobody else": (
        BUDGET + "test_a_party_whose_announced_frames_fill_its_share_holds_up_itself_alone",
        BUDGET + "test_a_party_that_has_much_and_waits_for_more_holds_up_no_other",
        BUDGET + "test_parties_take_turns_so_one_with_many_streams_does_not_starve_another",
    ),
    "counts as its principal, from however many addresses it comes": (
        UNIT + "network/test_parties.py::test_a_principal_is_one_party_from_every_address",
        UNIT + "network/test_parties.py::test_two_principals_behind_one_address_are_two_parties",
    ),
    "Any other one counts as its network": (
        UNIT + "network/test_parties.py::test_an_anonymous_caller_is_its_network",
        GUARD + "test_the_addresses_of_one_network_of_64_bits_count_as_one",
        ACCEPT + "test_the_addresses_of_one_network_of_64_bits_count_as_one",
    ),
    "a size that is announced costs its sender what it has sent": (
        BUDGET + "test_an_announcement_takes_no_room_of_others_before_its_bytes_come",
    ),
    "own topics as one, `User:ANONYMOUS`": (COUNTS_TO,),
    "What a super user makes is nobody's": (COUNTS_TO,),
    "Without an authorizer there is no such share": (COUNTS_TO,),
    "as are internal topics": (OWNERS + "test_internal_topics_are_nobodys",),
    "those from before owners were noted": (
        OWNERS + "test_a_topic_without_an_owner_becomes_that_of_a_principal_that_adds_partitions",
    ),
    "no share limits a super user": (OWNERS + "test_who_has_no_share_is_not_limited_and_still_counts_to_the_owner",),
    "A deleted topic gives back what it had": (
        OWNERS + "test_deleted_topics_give_back_what_they_had_and_leave_no_record",
    ),
    "The metadata names an owner as a resource `topic-owner`": (
        OWNERS + "test_the_owner_is_a_record_that_an_older_release_reads",
    ),
    "After a failover what groups and transactions hold is nobody's until its party uses it again": (
        GROUPS + "test_after_a_failover_state_is_nobodys_until_its_party_uses_it_and_others_are_served",
        TRANSACTIONS + "test_after_a_failover_ids_are_nobodys_until_their_party_uses_them_and_others_are_served",
    ),
    "The answer to a wrong password is held back": (
        LOGINS + "test_a_wrong_one_is_refused_after_a_while_with_one_text",
        LOGIN + "test_a_refusal_is_held_back_and_holds_up_nobody_else",
    ),
    "one address (of IPv6: one network of 64 bits) has 16 attempts under way at most": (
        LOGINS + "test_guesses_of_one_address_are_bounded_and_keep_nobody_else_out",
        ATTEMPTS + "test_an_address_of_ipv6_has_no_more_places_for_having_more_addresses",
    ),
    "an address that has none under way is heard, up to 4,096 of them": (
        LOGINS + "test_guesses_of_many_addresses_are_bounded_together_and_whoever_has_logged_in_before_is_heard",
        ATTEMPTS + "test_all_strangers_together_are_bounded",
    ),
    "An unknown user gets the same answer": (
        "tests/unit/sasl/test_scram.py::test_a_wrong_password_and_an_unknown_user_are_refused_alike",
        LOGIN + "test_a_wrong_password_and_an_unknown_user_get_the_same_answer_and_the_end",
    ),
    "no memory is selected for a core": (
        UNIT + "node/process/test_core_files.py::test_a_core_of_a_node_with_secrets_has_no_memory",
    ),
    "may have half of `queued.max.request.bytes`; more by one connection alone": (
        UNDER_WAY + "test_a_party_may_have_half_of_the_requests_memory_under_way_and_alone_one_message",
    ),
    "The node has twice as much at most": (
        UNDER_WAY + "test_a_node_is_full_by_the_party_that_has_most_also_by_what_it_has_at_other_listeners",
    ),
    "those first that hold bytes for over a minute, then the youngest": (
        UNDER_WAY + "test_who_holds_bytes_for_long_is_cut_before_others_of_its_party",
        UNDER_WAY + "test_a_party_loses_its_youngest_connections_until_it_has_its_share",
    ),
    "Compressed messages of gRPC are refused": (
        UNIT + "grpc/test_message_sizes.py::test_a_compressed_message_is_refused_unread",
    ),
    "Before a log-in nothing is read but the log-in itself and health checks": (
        UNIT + "grpc/test_log_in.py::test_these_apis_alone_come_before_a_log_in",
    ),
    "cuts a connection that sends as much before its first call": (
        BYTES + "test_clients_of_one_address_that_begin_at_once_count_for_nothing_where_nobody_logs_in",
        UNIT + "grpc/test_floods.py::test_where_nobody_logs_in_a_header_block_without_an_end_is_cut_as_before_a_log_in",
    ),
    "with 64 or more of them each may have one part in 64 of a limit": (
        BUDGET + "test_however_many_have_their_share_a_party_with_little_is_let_in",
    ),
    "may hide 0.3 MB a second of messages of its streams that never end": (
        UNDER_WAY + "test_many_small_calls_hide_little_of_a_message_that_never_ends",
    ),
}
"""The tests of what sentences beside the table say, by their words."""


@cache
def names_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def rows() -> list[str]:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    section = page.partition("## What a stranger, a user and a tenant can cost\n")[2].partition("\n## ")[0]
    return [line.split(" | ")[0].removeprefix("| ") for line in section.splitlines() if line.startswith("| ")][2:]


def test_each_row_has_tests_that_hold_it() -> None:
    assert rows() == list(HELD_BY)


def test_the_page_says_what_tests_hold_beside_its_rows() -> None:
    page = " ".join((ROOT / "docs" / "security.md").read_text(encoding="utf-8").split())
    assert [words for words in SAID if words not in page] == []


def test_the_tests_that_hold_a_row_or_a_sentence_are_there() -> None:
    named = [test for tests in (*HELD_BY.values(), *SAID.values()) for test in tests]
    missing = [test for test in named if test.partition("::")[2] not in names_in(test.partition("::")[0])]
    assert missing == []
