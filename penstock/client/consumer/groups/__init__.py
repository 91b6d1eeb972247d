"""The consumer's half of consumer groups: membership (KIP-848), committed offsets, and the user's callbacks."""
