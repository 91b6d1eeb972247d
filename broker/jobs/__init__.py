"""Jobs that a node does by itself, now and then: checkpoints, retention, cleaning, watches and moves."""
