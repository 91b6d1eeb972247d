"""The checks and the state of an append: batches, offsets, times, producers, transactions."""
