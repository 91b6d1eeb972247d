"""The configuration of a node: its file, its checks, and the settings that change while the node runs."""
