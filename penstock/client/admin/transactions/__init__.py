"""Transactions as an administrator sees them (KIP-664)."""
