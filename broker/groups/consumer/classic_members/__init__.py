"""Members of the classic protocol in consumer groups, and groups that move from one protocol to the other (KIP-848)."""
