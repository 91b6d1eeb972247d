"""Short waits for partitions that other nodes know before this one."""
