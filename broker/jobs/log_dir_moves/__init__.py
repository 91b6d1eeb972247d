"""Replicas that move between the log dirs of one broker (KIP-113)."""
