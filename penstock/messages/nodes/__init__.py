"""The messages between nodes: what brokers tell and ask the active controller, and the APIs of nodes as rows."""
