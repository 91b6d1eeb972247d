"""The messages of transactions (KIP-98, KIP-890), and of atomic batches: one decision over many producers."""
