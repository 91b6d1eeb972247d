"""The node: a broker, a voter of the quorum, or both, in one process with one event loop."""
