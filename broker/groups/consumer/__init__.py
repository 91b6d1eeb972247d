"""The consumer protocol of groups (KIP-848): the coordinator assigns partitions, and members acknowledge them."""
