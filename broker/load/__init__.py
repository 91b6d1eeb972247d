"""The load of a node: idle shares, processor time by kind of work, and turns for long work."""
