"""The leader asks the coordinator of a transaction before it begins the transaction in one of its partitions."""
