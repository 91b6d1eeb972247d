"""The log dirs of a broker: locks, checkpoints, and which log is in which dir."""
