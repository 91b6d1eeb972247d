"""The calls of Admin about who may log in, and with what rights."""
