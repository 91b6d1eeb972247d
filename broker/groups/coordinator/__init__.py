"""The coordinator of groups: which shard has a group, requests about several of them, and its figures."""
