"""KIP-595, "A Raft Protocol for the Metadata Quorum", section by section; `place` names the section of the KIP.

Left out: what later KIPs replaced or what is not built here (the assignment of voters at run time, snapshots), schemas,
and what figure 2 of the Raft paper says as well (figure_2.py).
"""

from __future__ import annotations

from tests.unit.raft.claims.claim import (
    DRIVER,
    ELECTION,
    EPOCHS,
    KIP_595,
    ORDER,
    REJOINING,
    REPLICATION,
    STATES,
    VALIDATION,
    Claim,
    figure,
    scene,
)

CLAIMS: tuple[Claim, ...] = (
    # -- what is kept, and what a restart makes of it ------------------------------------------------------------------
    Claim(
        "Quorum State, epoch and leader",
        "The epoch, the vote and the leader of the epoch, once it is known, are in the quorum-state file before anybody"
        " hears of them.",
        (
            f"{ORDER}::test_fetch_that_acks_records_follows_their_fsync",
            f"{ORDER}::test_own_vote_and_own_leadership_are_saved_before_anybody_hears_of_them",
            f"{STATES}::test_vote_is_kept_when_the_leader_of_the_epoch_becomes_known",
        ),
    ),
    Claim(
        "Quorum State, restart of a follower",
        "A follower goes on fetching from the leader that it knows.",
        (f"{REPLICATION}::test_restarted_follower_fetches_from_its_leader_at_once_and_without_waiting",),
    ),
    Claim(
        "Quorum State, restart of a candidate or leader",
        "A candidate stands again in its epoch, a leader does not lead in it again.",
        (
            f"{STATES}::test_restart_goes_on_where_the_votes_are_still_good",
            f"{ELECTION}::test_leader_back_from_a_crash_tells_the_voters_that_its_epoch_ended",
            f"{DRIVER}::test_leader_that_comes_back_resigns_its_old_epoch",
        ),
        instead="A candidate comes back as a voter that has voted for itself: the votes were for a log that may have"
        " lost its unsynced end.",
    ),
    # -- every request -------------------------------------------------------------------------------------------------
    Claim(
        "Common checks, cluster id",
        "A request for another cluster, or for none, is refused.",
        (f"{VALIDATION}::test_bad_request_gets_its_error_and_changes_nothing",),
    ),
    Claim(
        "Common checks, leader and epoch",
        "Every answer, also a refusal, names the leader and the epoch that its sender knows.",
        (
            f"{VALIDATION}::test_bad_request_gets_its_error_and_changes_nothing",
            f"{REPLICATION}::test_parked_fetches_learn_that_leadership_ended",
        ),
    ),
    # -- Vote ----------------------------------------------------------------------------------------------------------
    Claim(
        "Vote, when 1",
        "A voter stands when it could not fetch for the fetch time-out.",
        (f"{REPLICATION}::test_error_answers_back_off_until_the_fetch_timeout_ends_the_wait",),
    ),
    Claim(
        "Vote, when 2",
        "A voter stands when the leader ended its epoch.",
        (
            f"{ELECTION}::test_first_successor_stands_at_once_when_its_leader_ends",
            f"{KIP_595}::test_voter_that_is_no_successor_waits_for_its_election_timeout",
        ),
    ),
    Claim(
        "Vote, when 3",
        "A candidate without a majority stands again after the election time-out.",
        (f"{ELECTION}::test_candidate_that_times_out_asks_for_pre_votes_again_in_its_epoch",),
        instead="It asks for pre-votes first (KIP-996).",
    ),
    Claim(
        "Vote, gridlocked elections",
        "A lost election is repeated after a random pause, so that rivals do not meet again.",
        (f"{ELECTION}::test_lost_pre_vote_is_repeated_after_a_random_pause",),
        instead="The pause is a tenth to one election time-out and does not grow: a lost pre-vote raises no epoch.",
    ),
    Claim(
        "Vote, request handling 1",
        "A candidate that is no voter gets no vote.",
        (
            f"{VALIDATION}::test_bad_request_gets_its_error_and_changes_nothing",
            f"{KIP_595}::test_candidate_that_is_no_voter_gets_no_vote_and_raises_no_epoch",
        ),
        instead="The KIP takes its epoch over, for the voters may be changing; here they never do, and it is not.",
    ),
    Claim(
        "Vote, request handling 2",
        "A voter that knows the leader of the epoch gives no vote in it.",
        (
            f"{ELECTION}::test_follower_gives_no_vote_in_the_epoch_of_its_leader",
            f"{ELECTION}::test_resigned_leader_gives_no_vote_in_its_epoch_but_pre_votes",
        ),
    ),
    Claim(
        "Vote, request handling 3",
        "A candidate votes for another in a later epoch.",
        (f"{KIP_595}::test_candidate_votes_for_another_in_a_later_epoch",),
    ),
    Claim(
        "Vote, response handling",
        "Only a candidate counts votes, and only those of its present election.",
        (
            f"{KIP_595}::test_vote_for_a_candidate_that_follows_by_now_is_not_counted",
            f"{ELECTION}::test_answer_to_an_earlier_round_is_dropped",
        ),
    ),
    Claim(
        "Vote, observers",
        "Observers neither vote nor stand.",
        (
            f"{VALIDATION}::test_observer_takes_no_part_in_elections",
            f"{STATES}::test_observer_never_votes_nor_stands",
        ),
    ),
    # -- BeginQuorumEpoch ----------------------------------------------------------------------------------------------
    Claim(
        "BeginQuorumEpoch, request handling 1",
        "A voter follows the leader of its epoch or of a later one, whomever it voted for, and fetches at once.",
        (
            f"{KIP_595}::test_leader_is_followed_also_by_a_voter_that_voted_for_another",
            f"{ELECTION}::test_candidate_follows_whoever_won_its_epoch",
        ),
    ),
    Claim(
        "BeginQuorumEpoch, request handling 2",
        "A second leader of one epoch is rejected.",
        (f"{KIP_595}::test_second_leader_of_an_epoch_is_rejected",),
    ),
    Claim(
        "BeginQuorumEpoch, request handling 3",
        "A leader of an older epoch is refused, and learns the present one.",
        (f"{VALIDATION}::test_bad_request_gets_its_error_and_changes_nothing",),
    ),
    Claim(
        "BeginQuorumEpoch, response handling 1",
        "The leader repeats it until the voter has endorsed it.",
        (f"{REPLICATION}::test_voter_that_does_not_fetch_is_told_again_who_leads",),
    ),
    Claim(
        "BeginQuorumEpoch, response handling 2",
        "A fetch in the leader's epoch endorses it too.",
        (f"{KIP_595}::test_voter_that_fetches_is_not_told_again_who_leads",),
    ),
    Claim(
        "BeginQuorumEpoch, response handling 3",
        "A leader that is told of a later epoch follows the leader of that.",
        (f"{KIP_595}::test_leader_that_is_told_of_a_later_one_follows_it",),
    ),
    # -- EndQuorumEpoch ------------------------------------------------------------------------------------------------
    Claim(
        "EndQuorumEpoch, sending 1",
        "A leader that stops tells all voters, and names its successors by the length of their logs.",
        (
            f"{REPLICATION}::test_resigning_leader_names_the_voter_with_most_log_first",
            f"{DRIVER}::test_graceful_stop_hands_over_within_an_election_timeout",
            scene("graceful_stop_hands_leadership_over"),
        ),
    ),
    Claim(
        "EndQuorumEpoch, sending 2",
        "A candidate that stops tells all voters too.",
        (f"{KIP_595}::test_candidate_that_stops_says_nothing",),
        instead="It says nothing: nobody follows it, and the other voters' own election time-outs are running.",
    ),
    Claim(
        "EndQuorumEpoch, request handling 1",
        "The first successor stands at once, each later one waits longer for those before it.",
        (
            f"{ELECTION}::test_first_successor_stands_at_once_when_its_leader_ends",
            f"{ELECTION}::test_later_successor_waits_and_grants_pre_votes_meanwhile",
        ),
        instead="Half an election time-out for each successor before it; in the KIP the wait doubles.",
    ),
    Claim(
        "EndQuorumEpoch, request handling 2",
        "The end of an older epoch is refused; that of a later one raises the epoch.",
        (
            f"{VALIDATION}::test_bad_request_gets_its_error_and_changes_nothing",
            f"{KIP_595}::test_end_of_a_later_epoch_raises_the_epoch",
        ),
    ),
    Claim(
        "EndQuorumEpoch, request handling 3",
        "A leader that ended its epoch is not followed in it again.",
        (
            f"{ELECTION}::test_leader_that_ended_is_not_followed_again_by_a_late_notice",
            f"{ELECTION}::test_end_of_an_epoch_by_another_than_its_leader_changes_nothing",
        ),
    ),
    # -- Fetch ---------------------------------------------------------------------------------------------------------
    Claim(
        "Fetch, request handling 1",
        "The leader takes fetches of its own epoch only: an older one is fenced, a later one unknown.",
        (f"{KIP_595}::test_leader_takes_fetches_of_its_own_epoch_only",),
    ),
    Claim(
        "Fetch, request handling 2",
        "A node that does not lead says so, and names the leader it knows.",
        (
            f"{VALIDATION}::test_bad_request_gets_its_error_and_changes_nothing",
            f"{KIP_595}::test_follower_that_is_asked_for_records_names_the_leader",
        ),
    ),
    Claim(
        "Fetch, request handling 3",
        "A position that is not in the leader's log is answered with the largest epoch that may be common and its end,"
        " and without records.",
        (
            f"{REPLICATION}::test_diverging_fetch_is_answered_with_the_end_of_the_older_epoch_and_acks_nothing",
            f"{EPOCHS}::test_a_missing_epoch_is_answered_with_the_largest_below_it",
            f"{EPOCHS}::test_two_empty_elections_in_a_row_leave_the_last_one",
        ),
    ),
    Claim(
        "Fetch, request handling 4",
        "Fetches of voters move the high watermark, those of observers do not.",
        (
            f"{REPLICATION}::test_high_watermark_waits_for_a_majority_and_then_covers_the_leader_change",
            f"{REPLICATION}::test_observers_do_not_count_for_the_majority",
        ),
    ),
    Claim(
        "Fetch, response handling 1",
        "A replica that is fenced follows the leader that it is told.",
        (
            f"{ELECTION}::test_observer_asks_for_the_leader_and_follows_the_hint",
            f"{KIP_595}::test_fenced_follower_follows_the_leader_that_it_is_told",
        ),
    ),
    Claim(
        "Fetch, response handling 2",
        "A replica that is fenced and told no leader looks for one by fetching from any voter.",
        (
            f"{KIP_595}::test_fenced_voter_that_is_told_no_leader_waits_and_then_asks_for_pre_votes",
            f"{REPLICATION}::test_observer_gives_its_leader_up_after_the_fetch_timeout_and_searches",
        ),
        instead="Observers do. A voter waits: the new leader tells it, or its own pre-vote finds it.",
    ),
    Claim(
        "Fetch, response handling 3",
        "A replica that diverges truncates to the end it is told, and every record of a later epoch with it.",
        (
            f"{REPLICATION}::test_follower_truncates_to_the_diverging_epoch_before_it_fetches_again",
            f"{KIP_595}::test_truncation_takes_every_record_of_a_later_epoch",
            f"{EPOCHS}::test_fetching_and_truncating_ends_with_the_follower_a_prefix_of_the_leader",
        ),
    ),
    Claim(
        "Fetch, parking",
        "A fetch without news waits at the leader until there is some, or its time is up.",
        (
            f"{REPLICATION}::test_fetch_without_news_is_parked_until_data_comes",
            f"{REPLICATION}::test_parked_fetch_is_answered_when_the_high_watermark_moves",
            f"{REPLICATION}::test_parked_fetch_is_answered_empty_when_its_time_is_up",
        ),
    ),
    Claim(
        "Fetch, observers",
        "An observer finds the leader by asking any voter, and follows.",
        (
            f"{ELECTION}::test_observer_asks_for_the_leader_and_follows_the_hint",
            f"{DRIVER}::test_observer_finds_the_leader_follows_and_never_votes",
            scene("observer_finds_the_leader_and_follows"),
        ),
    ),
    # -- the leader ----------------------------------------------------------------------------------------------------
    Claim(
        "Leader Change Message",
        "A new leader appends a record of its own at once: its epoch has an offset, and older records can commit.",
        (
            f"{ELECTION}::test_vote_majority_leads_and_a_leader_change_record_is_appended_at_once",
            f"{EPOCHS}::test_two_empty_elections_in_a_row_leave_the_last_one",
        ),
    ),
    Claim(
        "Extra condition on commitment",
        "The high watermark stands still until a majority has a record of the leader's epoch; the leader serves nothing"
        " before that.",
        (
            f"{REPLICATION}::test_only_a_record_of_the_own_epoch_commits_by_counting",
            f"{DRIVER}::test_leader_is_announced_only_after_a_commit_of_its_own_epoch",
            figure("figure_8_d_an_older_record_on_a_majority_is_overwritten"),
            figure("figure_8_e_a_record_of_the_present_epoch_commits_the_older_one"),
        ),
    ),
    Claim(
        "Leader Progress Timeout",
        "A leader from which no majority fetches does not go on leading.",
        (
            f"{REPLICATION}::test_leader_resigns_when_a_majority_stops_fetching",
            f"{REPLICATION}::test_one_live_follower_of_two_keeps_the_leader",
            scene("check_quorum_makes_a_lonely_leader_resign"),
        ),
        instead="It resigns after 1.5 fetch time-outs and then asks for pre-votes, so its epoch does not rise alone; in"
        " the KIP it stands at once and raises the epoch with each try.",
    ),
    Claim(
        "Lost quorum state",
        "A voter whose quorum state or log is lost must not vote as if it had promised nothing.",
        (
            f"{REJOINING}::test_voter_that_forgot_gives_no_vote",
            f"{REJOINING}::test_voter_that_comes_back_votes_in_no_epoch_in_which_it_may_have_voted",
        ),
        instead="The KIP leaves it to the operator. Here the voter learns its epoch and log again first (ADR 0009).",
    ),
)
