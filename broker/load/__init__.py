"""The load of a node: idle shares, processor time by kind of work, turns for long work, and the shares of parties."""
