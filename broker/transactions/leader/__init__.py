"""The part of transactions that the leader of a partition does for their coordinators."""
