"""Followers: what a replica fetches from its leader, and what it does with the answers."""
