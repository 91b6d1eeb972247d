"""APIs that show who may log in, and with what rights."""
