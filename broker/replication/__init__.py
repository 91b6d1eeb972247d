"""Replicas on a broker: partitions that lead or follow, their acks, and their failures."""
