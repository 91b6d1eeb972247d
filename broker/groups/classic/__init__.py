"""The classic protocol of groups: members join and sync, and their leader assigns (KIP-62, 345, 394, 814)."""
