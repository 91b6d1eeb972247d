"""The levels of features in a node: what the nodes support, changes of a level, and those of a new cluster."""
