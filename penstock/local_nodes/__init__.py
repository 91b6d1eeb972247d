"""Nodes of this machine as child processes: their ports and their lives.

For `penstock.testing`, `penstock dev` and `penstock host`.
"""
