"""The composition of a node: its process, its parts, and the order of start and stop."""
