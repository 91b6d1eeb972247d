"""Figure 2 of the Raft paper, line by line: Ongaro and Ousterhout, "In Search of an Understandable Consensus
Algorithm", USENIX ATC'14.

Followers fetch here (KIP-595), where the paper's leader pushes. AppendEntries is therefore two things: a Fetch, which
the follower sends and which carries its ack, and BeginQuorumEpoch, by which a new leader makes itself known.
"""

from __future__ import annotations

from tests.unit.raft.claims.claim import (
    DRIVER,
    ELECTION,
    EPOCHS,
    FIGURE_2,
    ORDER,
    REPLICATION,
    STATES,
    VALIDATION,
    Claim,
    figure,
    scene,
)

CLAIMS: tuple[Claim, ...] = (
    # -- state ---------------------------------------------------------------------------------------------------------
    Claim(
        "State, persistent on all servers, 1",
        "A node knows the latest epoch it has seen. It is 0 at the first boot, never falls, and is durable before it is"
        " told.",
        (
            f"{FIGURE_2}::test_first_boot_is_epoch_0_without_a_vote_and_with_an_empty_log",
            f"{STATES}::test_epoch_never_falls_nor_overflows",
            f"{ORDER}::test_own_vote_and_own_leadership_are_saved_before_anybody_hears_of_them",
        ),
    ),
    Claim(
        "State, persistent on all servers, 2",
        "A node knows whom it voted for in its epoch, if anybody; durable before the vote is told.",
        (
            f"{ORDER}::test_vote_is_answered_after_it_is_saved",
            f"{ELECTION}::test_vote_survives_a_restart",
            f"{DRIVER}::test_failed_save_of_the_election_state_ends_the_driver_before_a_vote_is_told",
        ),
    ),
    Claim(
        "State, persistent on all servers, 3",
        "Each record of the log has the epoch in which its leader took it. It is durable before it is acked.",
        (
            f"{FIGURE_2}::test_every_record_has_the_epoch_in_which_its_leader_took_it",
            f"{ORDER}::test_fetch_that_acks_records_follows_their_fsync",
            f"{REPLICATION}::test_leader_counts_itself_only_up_to_its_own_fsync",
        ),
        instead="Offsets begin with 0, the paper's indexes with 1; a record's epoch is the one of its batch.",
    ),
    Claim(
        "State, volatile on all servers, 1",
        "The high watermark begins at the start of the log and never falls.",
        (
            f"{FIGURE_2}::test_high_watermark_begins_at_the_log_start_after_a_restart",
            f"{REPLICATION}::test_high_watermark_of_a_follower_stays_below_its_log_end_and_never_falls",
            f"{REPLICATION}::test_truncation_below_the_high_watermark_is_refused",
        ),
    ),
    Claim(
        "State, volatile on all servers, 2",
        "A node applies the log from its start after each boot, and each record once.",
        (
            f"{DRIVER}::test_restarted_node_replays_the_log_from_its_start",
            f"{DRIVER}::test_late_subscriber_sees_the_log_from_its_start_and_the_leader_stays_active",
        ),
    ),
    Claim(
        "State, volatile on leaders, 1",
        "The leader knows for each follower which record to send next; at first the one after its own last.",
        (f"{FIGURE_2}::test_leader_sends_from_the_offset_that_the_follower_asks_for",),
        instead="The follower knows, and says it in each fetch; the leader keeps nothing.",
    ),
    Claim(
        "State, volatile on leaders, 2",
        "The leader knows for each follower up to where it has the log; at first nothing. It never falls.",
        (
            f"{FIGURE_2}::test_new_leader_counts_no_ack_of_an_earlier_leadership",
            f"{FIGURE_2}::test_ack_that_falls_lowers_no_high_watermark",
        ),
        instead="It is the offset of the follower's last fetch, and falls if the follower's disk lost records. The high"
        " watermark does not fall with it.",
    ),
    # -- AppendEntries -------------------------------------------------------------------------------------------------
    Claim(
        "AppendEntries, arguments and results, 1",
        "It names the leader, so that a follower can send clients there.",
        (
            f"{REPLICATION}::test_proposal_is_refused_by_a_follower_with_a_hint",
            f"{ELECTION}::test_observer_asks_for_the_leader_and_follows_the_hint",
        ),
    ),
    Claim(
        "AppendEntries, arguments and results, 2",
        "It may carry many records; without any it is a heartbeat.",
        (
            f"{REPLICATION}::test_values_of_one_proposal_stay_in_one_batch",
            f"{REPLICATION}::test_parked_fetch_is_answered_empty_when_its_time_is_up",
        ),
        instead="A fetch answer carries whole batches. The leader parks a fetch without news, and answers it empty when"
        " its time is up: that is the heartbeat.",
    ),
    Claim(
        "AppendEntries, arguments and results, 3",
        "The answer has the receiver's epoch, from which an outdated leader learns that it is one.",
        (f"{FIGURE_2}::test_later_epoch_in_any_answer_is_taken_over[notice]",),
    ),
    Claim(
        "AppendEntries, receiver, 1",
        "A leader of an older epoch is refused.",
        (
            f"{REPLICATION}::test_answer_of_an_older_epoch_is_not_applied",
            f"{VALIDATION}::test_bad_request_gets_its_error_and_changes_nothing",
        ),
        instead="The follower drops a fetch answer of an older epoch, and refuses a BeginQuorumEpoch of one.",
    ),
    Claim(
        "AppendEntries, receiver, 2",
        "Records are refused by a follower whose log has not the leader's record before them.",
        (
            f"{REPLICATION}::test_diverging_fetch_is_answered_with_the_end_of_the_older_epoch_and_acks_nothing",
            f"{EPOCHS}::test_a_follower_with_a_longer_tail_of_an_old_epoch_diverges",
        ),
        instead="The leader finds it out: a fetch names the epoch of the record before it, and a diverging one gets no"
        " records.",
    ),
    Claim(
        "AppendEntries, receiver, 3",
        "A follower deletes a record that differs from the leader's, and all after it.",
        (
            f"{REPLICATION}::test_follower_truncates_to_the_diverging_epoch_before_it_fetches_again",
            f"{EPOCHS}::test_fetching_and_truncating_ends_with_the_follower_a_prefix_of_the_leader",
            scene("leader_is_cut_off_and_its_tail_is_truncated"),
        ),
    ),
    Claim(
        "AppendEntries, receiver, 4",
        "A follower appends what it has not yet, and nothing twice.",
        (
            f"{FIGURE_2}::test_answer_that_comes_twice_is_appended_once",
            f"{REPLICATION}::test_malformed_answer_changes_nothing_and_is_asked_again_later",
        ),
    ),
    Claim(
        "AppendEntries, receiver, 5",
        "A follower's high watermark is the leader's, but at most the end of its own log.",
        (
            f"{REPLICATION}::test_high_watermark_of_a_follower_stays_below_its_log_end_and_never_falls",
            f"{REPLICATION}::test_high_watermark_in_a_diverging_answer_is_not_believed",
        ),
    ),
    # -- RequestVote ---------------------------------------------------------------------------------------------------
    Claim(
        "RequestVote, arguments and results, 1",
        "It tells the candidate, its epoch, and the epoch and offset where its log ends.",
        (f"{FIGURE_2}::test_vote_request_tells_the_end_of_the_log",),
    ),
    Claim(
        "RequestVote, arguments and results, 2",
        "The answer has the voter's epoch, from which an outdated candidate learns that it is one.",
        (
            f"{FIGURE_2}::test_later_epoch_in_any_answer_is_taken_over[vote]",
            f"{ELECTION}::test_vote_is_refused_to_a_log_that_is_behind_but_the_epoch_is_learned",
        ),
    ),
    Claim(
        "RequestVote, receiver, 1",
        "A candidate of an older epoch gets no vote.",
        (f"{ELECTION}::test_stale_vote_request_is_fenced_with_the_present_epoch",),
    ),
    Claim(
        "RequestVote, receiver, 2",
        "A voter votes once in an epoch, and for no log that is behind its own.",
        (
            f"{ELECTION}::test_vote_is_granted_once_in_an_epoch_and_again_only_to_the_same_candidate",
            f"{ELECTION}::test_later_epoch_wins_then_the_longer_log",
            f"{STATES}::test_second_vote_in_an_epoch_is_an_invariant_violation",
        ),
    ),
    # -- rules for servers ---------------------------------------------------------------------------------------------
    Claim(
        "Rules, all servers, 1",
        "What is below the high watermark is applied, in order.",
        (
            f"{DRIVER}::test_three_nodes_elect_a_leader_and_commit_everywhere",
            f"{DRIVER}::test_observer_finds_the_leader_follows_and_never_votes",
        ),
    ),
    Claim(
        "Rules, all servers, 2",
        "A later epoch in any request or answer is taken over, and the node leads and stands no more.",
        (
            f"{FIGURE_2}::test_later_epoch_in_any_request_is_taken_over",
            f"{FIGURE_2}::test_later_epoch_in_any_answer_is_taken_over",
            f"{VALIDATION}::test_plausible_jump_of_the_epoch_is_believed_and_an_implausible_one_is_counted",
        ),
        instead="A Fetch in a later epoch is refused and teaches nothing (KIP-595). A request whose epoch is more than"
        " EPOCH_JUMP_MAX above is refused too. Nobody reads the answer to an EndQuorumEpoch.",
    ),
    Claim(
        "Rules, followers, 1",
        "A follower answers candidates and leaders.",
        (f"{FIGURE_2}::test_every_request_is_answered_in_every_state",),
    ),
    Claim(
        "Rules, followers, 2",
        "A follower that hears of no leader for a time-out, and gave no vote meanwhile, stands for election.",
        (
            f"{REPLICATION}::test_error_answers_back_off_until_the_fetch_timeout_ends_the_wait",
            f"{ELECTION}::test_election_timeout_starts_a_pre_vote_that_does_not_raise_the_epoch",
            f"{FIGURE_2}::test_vote_that_is_given_starts_the_election_timeout_anew",
        ),
        instead="It asks for pre-votes first (KIP-996).",
    ),
    Claim(
        "Rules, candidates, 1",
        "A candidate raises the epoch, votes for itself, starts its time-out anew and asks all other voters.",
        (
            f"{ELECTION}::test_pre_vote_majority_leads_to_a_candidacy_that_is_persisted_before_it_is_told",
            f"{FIGURE_2}::test_candidacy_starts_the_election_timeout_anew",
        ),
    ),
    Claim(
        "Rules, candidates, 2",
        "The votes of a majority, and no fewer, make it leader.",
        (
            f"{ELECTION}::test_vote_majority_leads_and_a_leader_change_record_is_appended_at_once",
            f"{FIGURE_2}::test_minority_of_the_votes_elects_nobody",
            f"{ELECTION}::test_single_voter_leads_without_asking_anybody",
        ),
    ),
    Claim(
        "Rules, candidates, 3",
        "A candidate that hears of the leader of its epoch follows it.",
        (f"{ELECTION}::test_candidate_follows_whoever_won_its_epoch",),
    ),
    Claim(
        "Rules, candidates, 4",
        "A candidate without a result by the end of its time-out begins anew.",
        (f"{ELECTION}::test_candidate_that_times_out_asks_for_pre_votes_again_in_its_epoch",),
        instead="It asks for pre-votes in its epoch, and raises the epoch only with a majority of them (KIP-996).",
    ),
    Claim(
        "Rules, leaders, 1",
        "A new leader makes itself known at once, and again while nothing else is sent.",
        (
            f"{ELECTION}::test_vote_majority_leads_and_a_leader_change_record_is_appended_at_once",
            f"{REPLICATION}::test_voter_that_does_not_fetch_is_told_again_who_leads",
            f"{DRIVER}::test_idle_quorum_sends_few_messages",
        ),
        instead="By BeginQuorumEpoch, until the voter fetches. While nothing happens, empty fetch answers are enough.",
    ),
    Claim(
        "Rules, leaders, 2",
        "The leader appends what it is told to, and answers when it is applied.",
        (
            f"{DRIVER}::test_three_nodes_elect_a_leader_and_commit_everywhere",
            f"{DRIVER}::test_proposal_of_a_leader_that_loses_its_quorum_fails_with_unknown_outcome",
        ),
    ),
    Claim(
        "Rules, leaders, 3",
        "The leader sends a follower what it lacks. Success moves its ack; a log that differs is tried further down.",
        (
            f"{REPLICATION}::test_fetch_without_news_is_parked_until_data_comes",
            f"{REPLICATION}::test_high_watermark_waits_for_a_majority_and_then_covers_the_leader_change",
            f"{REPLICATION}::test_diverging_fetch_is_answered_with_the_end_of_the_older_epoch_and_acks_nothing",
        ),
        instead="A fetch whose position diverges is answered with the end of the largest epoch that may be common, so"
        " one round goes back by an epoch and not by a record (the paper's own optimization, §5.3).",
    ),
    Claim(
        "Rules, leaders, 4",
        "A record of the leader's own epoch that is on a majority is committed, with all before it. An older record is"
        " not committed by counting.",
        (
            f"{REPLICATION}::test_only_a_record_of_the_own_epoch_commits_by_counting",
            f"{REPLICATION}::test_majority_offset_is_what_the_slower_half_still_has",
            figure("figure_8_d_an_older_record_on_a_majority_is_overwritten"),
            figure("figure_8_e_a_record_of_the_present_epoch_commits_the_older_one"),
        ),
    ),
)
