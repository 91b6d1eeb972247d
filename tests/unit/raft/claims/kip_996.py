"""KIP-996, "Pre-Vote"; `place` names the section of the KIP and the claim within it."""

from __future__ import annotations

from tests.unit.raft.claims.claim import ELECTION, KIP_996, REPLICATION, STATES, VALIDATION, Claim, scene

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "Disruptive server scenarios, network partition",
        "A voter that was cut off does not unseat a healthy leader when it comes back: its epoch did not rise.",
        (
            scene("partitioned_follower_does_not_disturb_when_it_comes_back"),
            f"{KIP_996}::test_voter_that_reaches_nobody_never_raises_its_epoch",
        ),
    ),
    Claim(
        "Disruptive server scenarios, failed disk",
        "A voter that is behind wins no pre-vote, and so raises no epoch.",
        (f"{KIP_996}::test_pre_vote_for_a_log_that_is_behind_is_refused_in_every_state",),
    ),
    # -- Proposed Changes: the state -----------------------------------------------------------------------------------
    Claim(
        "Proposed Changes, Prospective 1",
        "The end of the election time-out, or of the fetch time-out, makes a voter prospective, in the same epoch.",
        (
            f"{ELECTION}::test_election_timeout_starts_a_pre_vote_that_does_not_raise_the_epoch",
            f"{REPLICATION}::test_error_answers_back_off_until_the_fetch_timeout_ends_the_wait",
            f"{KIP_996}::test_every_state_that_waits_for_a_leader_becomes_prospective_in_its_epoch",
        ),
    ),
    Claim(
        "Proposed Changes, Prospective 2",
        "Only a prospective voter becomes a candidate.",
        (f"{STATES}::test_leadership_is_reached_only_by_a_candidate",),
    ),
    Claim(
        "Proposed Changes, Prospective 3",
        "The pre-votes of a majority, its own included, make it a candidate in the next epoch.",
        (
            f"{ELECTION}::test_pre_vote_majority_leads_to_a_candidacy_that_is_persisted_before_it_is_told",
            f"{ELECTION}::test_single_voter_leads_without_asking_anybody",
        ),
    ),
    Claim(
        "Proposed Changes, Prospective 4",
        "A prospective voter that is told of the leader of its epoch follows it.",
        (
            f"{ELECTION}::test_prospective_returns_to_a_leader_that_somebody_still_follows",
            f"{KIP_996}::test_prospective_follows_the_leader_that_refuses_it_or_makes_itself_known",
        ),
    ),
    Claim(
        "Proposed Changes, Prospective 5",
        "A prospective voter that lost, or got no majority in time, tries again later, in the same epoch.",
        (f"{ELECTION}::test_lost_pre_vote_is_repeated_after_a_random_pause",),
    ),
    Claim(
        "Proposed Changes, Prospective 6",
        "A prospective voter still gives its vote of the epoch, once.",
        (f"{KIP_996}::test_prospective_gives_its_vote_once",),
    ),
    Claim(
        "Proposed Changes, Candidate",
        "A candidate that lost, or got no majority in time, becomes prospective again.",
        (f"{ELECTION}::test_candidate_that_times_out_asks_for_pre_votes_again_in_its_epoch",),
    ),
    # -- Proposed Changes: the request ---------------------------------------------------------------------------------
    Claim(
        "Proposed Changes, request 1",
        "A pre-vote is a Vote with the flag set and with the sender's present epoch.",
        (
            f"{ELECTION}::test_election_timeout_starts_a_pre_vote_that_does_not_raise_the_epoch",
            f"{KIP_996}::test_request_without_the_flag_is_a_vote",
        ),
    ),
    Claim(
        "Proposed Changes, granting 1",
        "Whoever neither leads nor follows grants a pre-vote for a log that is not behind.",
        (
            f"{KIP_996}::test_pre_vote_is_granted_by_whoever_has_no_leader_and_changes_nothing",
            f"{KIP_996}::test_pre_vote_for_a_log_that_is_behind_is_refused_in_every_state",
        ),
    ),
    Claim(
        "Proposed Changes, granting 2",
        "A follower that has fetched from its leader refuses, and names the leader.",
        (f"{ELECTION}::test_follower_with_a_live_leader_refuses_pre_votes_and_names_the_leader",),
    ),
    Claim(
        "Proposed Changes, granting 3",
        "A follower that has not fetched from its leader yet grants, and names no leader: otherwise two voters could"
        " send each other back to a dead leader for ever.",
        (f"{ELECTION}::test_follower_that_never_reached_its_leader_grants_pre_votes_and_does_not_spread_hearsay",),
    ),
    Claim(
        "Proposed Changes, granting 4",
        "A leader refuses, and names itself.",
        (
            f"{ELECTION}::test_leader_refuses_pre_votes",
            f"{KIP_996}::test_prospective_follows_the_leader_that_refuses_it_or_makes_itself_known",
        ),
    ),
    Claim(
        "Proposed Changes, granting 5",
        "To grant a pre-vote binds nobody: state, vote and time-outs stay as they are, and nothing is saved.",
        (
            f"{KIP_996}::test_pre_vote_is_granted_by_whoever_has_no_leader_and_changes_nothing",
            f"{ELECTION}::test_pre_vote_is_granted_by_many_and_persisted_by_none",
            f"{ELECTION}::test_voter_that_voted_still_grants_pre_votes",
        ),
    ),
    Claim(
        "Proposed Changes, granting 6",
        "A pre-vote in a later epoch raises the epoch, as every request does; one in an older epoch is fenced.",
        (f"{KIP_996}::test_epoch_of_a_pre_vote_is_taken_over_or_fenced",),
    ),
    Claim(
        "Proposed Changes, counting",
        "A pre-vote that was granted is not a vote.",
        (f"{KIP_996}::test_late_pre_vote_does_not_count_as_a_vote",),
    ),
    # -- Compatibility -------------------------------------------------------------------------------------------------
    Claim(
        "Compatibility",
        "Where a voter does not know pre-votes, a prospective voter becomes a candidate at once.",
        (
            f"{KIP_996}::test_voter_that_refuses_the_request_grants_nothing",
            f"{VALIDATION}::test_bad_request_gets_its_error_and_changes_nothing",
        ),
        instead="Every voter knows them, in every version there is; an error answer counts as a refusal.",
    ),
)
