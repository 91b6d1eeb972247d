"""Transactions of a producer: their state, their calls to the coordinator, and the blocks that users write."""
