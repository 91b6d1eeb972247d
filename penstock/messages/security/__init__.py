"""The messages about who may log in, and with what rights."""
