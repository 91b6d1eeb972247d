"""Atomic batches: the versions of applications, and the writers whose transactions one decision ends."""
