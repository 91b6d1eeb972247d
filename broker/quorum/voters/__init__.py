"""The other controllers: those that are to vote, those that are forgotten, and what they know of the quorum."""
