"""Commands about who may log in, and with what rights."""
